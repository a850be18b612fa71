/** Writes a history as lines of JSON, and reads such lines. A head comes first, then one line per message. */
import { HISTORY_MESSAGES_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { InvalidArgumentError, LimitError } from '../../base/errors.ts';
import type { HistoryDraft, HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import { checkMessage, wrong } from '../../session/history/message-check.ts';

/** The name of the format in the head, so that no other file is mistaken for a history. */
const FORMAT = 'troupe-history';
/** Version of the format; a reader refuses any other version. */
const VERSION = 1;

/** The lines of a history, without line ends. */
export function* historyLines(
  session: string,
  messages: readonly HistoryMessage[],
): Generator<string, void, undefined> {
  yield JSON.stringify({ format: FORMAT, version: VERSION, session, messages: messages.length });
  for (const message of messages) yield JSON.stringify(message);
}

/**
 * The messages in lines made by `historyLines`; blank lines are skipped. Rejects with `InvalidArgumentError` (its text
 * has the number of the line), and with `LimitError`.
 */
export async function readHistoryLines(
  lines: Iterable<string> | AsyncIterable<string>,
): Promise<readonly HistoryDraft[]> {
  const messages: HistoryDraft[] = [];
  if (!isIterable(lines)) throw wrong('lines', 'something to iterate over', lines);
  let number = 0;
  let announced: unknown;
  for await (const line of lines) {
    number += 1;
    if (typeof line !== 'string') throw wrong(`line ${number}`, 'a string', line);
    if (line.trim() === '') continue;
    const value = parsed(line, number);
    if (announced === undefined) {
      announced = checkHead(value, number);
      continue;
    }
    if (messages.length >= HISTORY_MESSAGES_MAX) {
      throw new LimitError(`a history has at most ${HISTORY_MESSAGES_MAX} messages`, {
        data: { limit: 'historyMessages', value: number },
      });
    }
    messages.push(checkMessage(value, `line ${number}`));
  }
  if (announced === undefined) throw broken('there are no lines');
  if (announced !== messages.length) {
    throw broken(`${messages.length} of ${String(announced)} messages are there: the lines were cut off`);
  }
  return messages;
}

function isIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && (Symbol.asyncIterator in value || Symbol.iterator in value);
}

function parsed(line: string, number: number): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch (error) {
    throw broken(`line ${number} is not JSON`, error);
  }
}

function checkHead(value: unknown, number: number): number {
  if (!isRecord(value) || value['format'] !== FORMAT) {
    const isLogged = isRecord(value) && typeof value['seq'] === 'number' && typeof value['type'] === 'string';
    throw broken(
      isLogged
        ? `line ${number} is a message of the log; expected the head with which history.export() begins`
        : `line ${number} is not the head of a history: expected {"format":"${FORMAT}", …}`,
    );
  }
  if (value['version'] !== VERSION) throw broken(`version ${String(value['version'])} of the form is not known`);
  const { messages } = value;
  if (typeof messages !== 'number') throw broken(`line ${number} does not say how many messages follow`);
  return messages;
}

function broken(what: string, cause?: unknown): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', `not a history: ${what}`, defined({ cause }));
}
