/**
 * A Messages API on the loopback address for W10, in a separate process: every answer is a paced stream of short texts.
 * Prints its port. `stream-server <streams>`: no text is sent before this many requests wait, so that all streams run
 * at once; further requests wait for the next such group. Each text begins with the time at which it was written.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { STREAM_EVENTS, stampedText, TEXT_EVENTS } from './streamed-text.ts';

const KEEP_ALIVE_MS = 120_000;
/** The time between two events of one stream: 40 events a second. */
const EVENT_EVERY_MS = 25;
const US_A_MS = 1_000n;
const NS_A_US = 1_000n;

interface Stream {
  readonly response: ServerResponse;
  /** Texts that were not sent yet. */
  left: number;
}

const together = Number(process.argv[2]);
let waiting: Stream[] = [];
/** The running streams by the millisecond of the interval in which they are served. */
const slots: Stream[][] = Array.from({ length: EVENT_EVERY_MS }, () => []);
let served = nowUs() / US_A_MS;

const server = createServer((request, response) => {
  request.resume().on('end', () => begin(response));
});
server.keepAliveTimeout = KEEP_ALIVE_MS;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
setInterval(serve, 1);
// This process ends when the process that started it closes its input or dies.
process.stdin.on('end', () => process.exit(0)).resume();

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: 'msg_bench', type: 'message', role: 'assistant', model: 'claude-opus-4-6', content: [], usage };
  response.write(
    event({ type: 'message_start', message: { ...message, stop_reason: null } }) +
      event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  );
  waiting.push({ response, left: TEXT_EVENTS });
  if (waiting.length < together) return;
  for (const [index, stream] of waiting.entries()) slots[index % EVENT_EVERY_MS]?.push(stream);
  waiting = [];
}

/** Serves each slot whose millisecond has passed; a late timer serves all that it missed. */
function serve(): void {
  const now = nowUs() / US_A_MS;
  for (; served < now; served += 1n) {
    const slot = Number(served % BigInt(EVENT_EVERY_MS));
    slots[slot] = (slots[slot] ?? []).filter(advance);
  }
}

function advance(stream: Stream): boolean {
  if (stream.left > 0) {
    stream.left -= 1;
    const delta = { type: 'text_delta', text: stampedText(nowUs()) };
    stream.response.write(event({ type: 'content_block_delta', index: 0, delta }));
    // Node holds writes back until the callback has ended. That wait would count as the client's.
    stream.response.socket?.uncork();
    return true;
  }
  stream.response.end(
    event({ type: 'content_block_stop', index: 0 }) +
      event({
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { output_tokens: STREAM_EVENTS },
      }) +
      event({ type: 'message_stop' }),
  );
  return false;
}

function nowUs(): bigint {
  return process.hrtime.bigint() / NS_A_US;
}

function event(data: { readonly type: string } & Readonly<Record<string, unknown>>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
