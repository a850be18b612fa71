/** Splits a text that arrives in pieces into lines: a file, or piped input. */
import { LimitError } from '../base/errors.ts';

/** The byte order mark with which some editors begin a file. */
const BYTE_ORDER_MARK = '\ufeff';

/**
 * The lines, without their ends (LF or CRLF). Rejects with `LimitError` once the text is longer than `charactersMax`
 * UTF-16 units: a text without line ends must not accumulate without bound.
 */
export async function* textLines(
  pieces: AsyncIterable<string>,
  charactersMax: number,
): AsyncGenerator<string, void, undefined> {
  let characters = 0;
  let isFirst = true;
  /** Pieces of the unfinished line: joined once, not at each piece. */
  let open: string[] = [];
  const lineOf = (end: string): string => {
    open.push(end);
    const line = open.join('');
    open = [];
    const bare = isFirst && line.startsWith(BYTE_ORDER_MARK) ? line.slice(BYTE_ORDER_MARK.length) : line;
    isFirst = false;
    return bare.endsWith('\r') ? bare.slice(0, -1) : bare;
  };
  for await (const piece of pieces) {
    characters += piece.length;
    if (characters > charactersMax) {
      throw new LimitError(`at most ${charactersMax} characters can be read at once`, {
        data: { limit: 'importCharacters', value: characters },
      });
    }
    let from = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', from)) {
      yield lineOf(piece.slice(from, end));
      from = end + 1;
    }
    if (from < piece.length) open.push(piece.slice(from));
  }
  if (open.length > 0) yield lineOf('');
}
