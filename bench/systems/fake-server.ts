/**
 * A Messages API on the loopback address for W5, in a separate process: the model of the benchmarks behind HTTP, plain
 * and streamed. The server checks nothing, so that of the two cores the client's is the busy one. Prints its port.
 * `fake-server [share] [seed] [requests]`: refuses this share of the calls with 529 and 429 in turn, without
 * `retry-after`, for W12; and the calls beyond so many requests a minute with 429, for `limits`. Each line of its input
 * is answered with the numbers of calls that were taken and refused until then.
 */
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../src/base/clock.ts';
import type { ModelRequest, ModelResponse } from '../../src/models/provider.ts';
import { FakeBuckets } from '../../src/testing/fake-rates.ts';
import { randomNumbers } from '../random.ts';
import { answerTo } from './model.ts';

const KEEP_ALIVE_MS = 120_000;

const [share = '0', seed = '1', requestsPerMinute] = process.argv.slice(2);
const buckets =
  requestsPerMinute === undefined
    ? undefined
    : new FakeBuckets({ requestsPerMinute: Number(requestsPerMinute) }, systemClock);
const random = randomNumbers(Number(seed));
/** Resolution of the share. */
const SHARES = 10_000;
let [taken, refusals] = [0, 0];
const server = createServer((request, response) => readBody(request, (body) => serve(body, response)));
server.keepAliveTimeout = KEEP_ALIVE_MS;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
// This process ends when the process that started it closes its input or dies.
process.stdin
  .on('end', () => process.exit(0))
  .on('data', () => process.stdout.write(`${JSON.stringify({ taken, refused: refusals })}\n`));

function serve(body: string, response: ServerResponse): void {
  const waitMs = buckets?.take(response, 0);
  if (waitMs !== undefined) {
    refusals += 1;
    sendRefusal(response, 429, 'rate_limit_error', { 'retry-after-ms': String(waitMs) });
  } else if (random(SHARES) < Number(share) * SHARES) refuse(response);
  else answer(body, response);
}

function readBody(request: IncomingMessage, done: (body: string) => void): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => done(Buffer.concat(chunks).toString()));
}

function refuse(response: ServerResponse): void {
  refusals += 1;
  if (refusals % 2 === 1) sendRefusal(response, 529, 'overloaded_error');
  else sendRefusal(response, 429, 'rate_limit_error');
}

function sendRefusal(response: ServerResponse, status: number, type: string, headers: OutgoingHttpHeaders = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ type: 'error', error: { type, message: 'the server of the measurement refused' } }));
}

function answer(body: string, response: ServerResponse): void {
  taken += 1;
  const request = JSON.parse(body) as ModelRequest & { readonly stream?: boolean };
  const message = { id: 'msg_bench', type: 'message', role: 'assistant', model: request.model, ...answerTo(request) };
  if (request.stream === true) {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.end(eventsOf(message));
  } else {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(message));
  }
}

function eventsOf(message: ModelResponse): string {
  const begun = { ...message, content: [], stop_reason: null };
  const parts = [event({ type: 'message_start', message: begun })];
  message.content.forEach((block, index) => {
    if (block.type === 'tool_use') {
      const delta = { type: 'input_json_delta', partial_json: JSON.stringify(block.input) };
      parts.push(event({ type: 'content_block_start', index, content_block: { ...block, input: {} } }));
      parts.push(event({ type: 'content_block_delta', index, delta }));
    } else if (block.type === 'text') {
      parts.push(event({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } }));
      parts.push(event({ type: 'content_block_delta', index, delta: { type: 'text_delta', text: block.text } }));
    }
    parts.push(event({ type: 'content_block_stop', index }));
  });
  const delta = { stop_reason: message.stop_reason, stop_sequence: null };
  parts.push(event({ type: 'message_delta', delta, usage: message.usage }), event({ type: 'message_stop' }));
  return parts.join('');
}

function event(data: { readonly type: string } & Readonly<Record<string, unknown>>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
