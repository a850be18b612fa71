/**
 * The output of a command, bounded while it arrives. Only its first and its last part are kept. So an endless command
 * costs bounded memory, and the newest output is still visible.
 */
import { SHELL_OUTPUT_BYTES_MAX } from '../../base/bounds.ts';
import { cleanText, headOfBytes, tailOfBytes } from '../result-text.ts';

/** Chunks smaller than this are joined: each chunk has an overhead of about a hundred bytes. */
const CHUNK_BYTES_MIN = 4_096;

/** See the head of the file. Holds at most about twice `SHELL_OUTPUT_BYTES_MAX`. */
export class ShellOutput {
  readonly #head: Buffer[] = [];
  readonly #tail: Buffer[] = [];
  #headBytes = 0;
  #tailBytes = 0;
  #bytes = 0;

  push(chunk: Buffer): void {
    this.#bytes += chunk.length;
    const room = SHELL_OUTPUT_BYTES_MAX - this.#headBytes;
    const first = chunk.subarray(0, Math.max(0, room));
    const rest = chunk.subarray(first.length);
    this.#headBytes += append(this.#head, first);
    this.#tailBytes += append(this.#tail, rest);
    for (let oldest = this.#tail[0]; oldest !== undefined; oldest = this.#tail[0]) {
      if (this.#tailBytes - oldest.length < SHELL_OUTPUT_BYTES_MAX) break;
      this.#tailBytes -= oldest.length;
      this.#tail.shift();
    }
  }

  /**
   * The output as text, at most `bytesMax` UTF-8 bytes. A longer output keeps both ends, around a notice. Blank output
   * gives `''`.
   */
  text(bytesMax: number): string {
    const isWhole = this.#headBytes + this.#tailBytes === this.#bytes;
    const head = terminalText(Buffer.concat(isWhole ? [...this.#head, ...this.#tail] : this.#head));
    if (isWhole && Buffer.byteLength(head) <= bytesMax) return trimBlankLines(head);
    const tail = trimBlankLines(isWhole ? head : terminalText(Buffer.concat(this.#tail)));
    const notice = `\n[… output cut: ${this.#bytes} bytes in all …]\n`;
    const side = Math.max(0, Math.floor((bytesMax - Buffer.byteLength(notice)) / 2));
    return headOfBytes(headOfBytes(head, side) + notice + tailOfBytes(tail, side), bytesMax);
  }

  /** The end of the newest chunk of output as text, at most about `bytesMax` bytes. */
  recent(bytesMax: number): string {
    const last = this.#tail.at(-1) ?? this.#head.at(-1) ?? Buffer.alloc(0);
    return tailOfBytes(terminalText(last.subarray(Math.max(0, last.length - bytesMax))), bytesMax);
  }
}

function append(chunks: Buffer[], chunk: Buffer): number {
  const last = chunks.at(-1);
  if (chunk.length === 0) return 0;
  if (last !== undefined && last.length < CHUNK_BYTES_MIN) chunks[chunks.length - 1] = Buffer.concat([last, chunk]);
  else chunks.push(chunk);
  return chunk.length;
}

/** Removes blank lines at the end, such as the one after a command's final newline. */
function trimBlankLines(text: string): string {
  return text.trim() === '' ? '' : text.trimEnd();
}

const ESC = '\\u001b';
/** Matches the sequence CSI K (ECMA-48), which erases the rest of the line, or the whole line. */
const ERASES_LINE: RegExp = new RegExp(`${ESC}\\[[02]?K`);

/**
 * The bytes as a terminal would leave them on its screen, without text overwritten after a carriage return and without
 * escapes.
 */
function terminalText(bytes: Buffer): string {
  const text = new TextDecoder().decode(bytes).replaceAll('\r\n', '\n');
  const lines = text.includes('\r') ? text.split('\n').map(visibleLine).join('\n') : text;
  return cleanText(lines);
}

/**
 * The text of a line in which carriage returns overwrite earlier text. The pieces are read from the last to the first:
 * an earlier piece shows only where it is longer than all later ones. The time is linear in the line.
 */
function visibleLine(line: string): string {
  if (!line.includes('\r')) return line;
  let visible = '';
  for (const written of line.split('\r').reverse()) {
    visible += cleanText(written).slice(visible.length);
    if (ERASES_LINE.test(written)) break;
  }
  return visible;
}
