/**
 * A reader of server-sent events over a separate connection, which a test can stall by not reading, or kill. It follows
 * the HTML standard, and knows nothing of the server's code.
 */
import { type IncomingMessage, request } from 'node:http';
import type { SessionEvent } from '../../src/index.ts';

/** One event as received: `id` is the last one seen. */
export interface ReadEvent {
  readonly type: string;
  readonly id: string;
  readonly data: string;
}

/** See the head of the file. */
export interface EventReader {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** Comments read so far. */
  readonly comments: readonly string[];
  /** Number of the last event read, as a browser keeps it. */
  readonly lastEventId: string;
  /** The next event; undefined when the server ended the stream. Rejects if the connection breaks. */
  next(): Promise<ReadEvent | undefined>;
  /** The next event's data. */
  nextEvent(): Promise<SessionEvent | undefined>;
  /** The next comment; events before it are dropped. */
  nextComment(): Promise<string | undefined>;
  /** Cuts the connection. */
  kill(): void;
}

/** Opens a stream. Resolves with the server's answer, whatever its status. */
export async function readEvents(url: string, headers: Readonly<Record<string, string>> = {}): Promise<EventReader> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked = request(url, { headers: { accept: 'text/event-stream', ...headers }, agent: false }, resolve);
    asked.on('error', reject);
    asked.end();
  });
  // A cut while no test is reading is not a failure.
  response.on('error', () => undefined);
  response.setEncoding('utf8');
  const pieces: AsyncIterator<string> = response[Symbol.asyncIterator]();
  const comments: string[] = [];
  let lastEventId = '';
  let rest = '';

  /** A line without its end; undefined at the end of the stream. Each piece is scanned once, however long the line. */
  const nextLine = async (): Promise<string | undefined> => {
    const line: string[] = [];
    for (;;) {
      const end = rest.indexOf('\n');
      if (end !== -1) {
        line.push(rest.slice(0, end));
        rest = rest.slice(end + 1);
        return line.join('').replace(/\r$/, '');
      }
      line.push(rest);
      rest = '';
      const piece = await pieces.next();
      if (piece.done === true) return undefined;
      rest = piece.value;
    }
  };

  const read = async (wantsComment: boolean): Promise<ReadEvent | string | undefined> => {
    let type = '';
    const data: string[] = [];
    for (let line = await nextLine(); line !== undefined; line = await nextLine()) {
      if (line === '') {
        if (data.length > 0) return { type: type || 'message', id: lastEventId, data: data.join('\n') };
        type = '';
        continue;
      }
      const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (field === '') {
        comments.push(value);
        if (wantsComment) return value;
      } else if (field === 'event') type = value;
      else if (field === 'data') data.push(value);
      else if (field === 'id') lastEventId = value;
    }
    return undefined;
  };

  const reader: EventReader = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    comments,
    get lastEventId() {
      return lastEventId;
    },
    async next() {
      const found = await read(false);
      return typeof found === 'string' ? undefined : found;
    },
    async nextEvent() {
      const found = await reader.next();
      return found === undefined ? undefined : (JSON.parse(found.data) as SessionEvent);
    },
    async nextComment() {
      for (;;) {
        const found = await read(true);
        if (found === undefined || typeof found === 'string') return found;
      }
    },
    kill: () => response.destroy(),
  };
  return reader;
}
