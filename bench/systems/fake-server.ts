/**
 * A Messages API on the loopback address for W5, in a separate process: the model of the benchmarks behind HTTP, plain
 * and streamed. The server checks nothing, so that of the two cores the client's is the busy one. Prints its port.
 * `fake-server [share] [seed]`: refuses this share of the calls with 529 and 429 in turn, without `retry-after`, for
 * W12.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ModelRequest, ModelResponse } from '../../src/models/provider.ts';
import { randomNumbers } from '../random.ts';
import { answerTo } from './model.ts';

const KEEP_ALIVE_MS = 120_000;

const [share = '0', seed = '1'] = process.argv.slice(2);
const random = randomNumbers(Number(seed));
/** Resolution of the share. */
const SHARES = 10_000;
let refusals = 0;
const server = createServer((request, response) =>
  readBody(request, (body) => (random(SHARES) < Number(share) * SHARES ? refuse(response) : answer(body, response))),
);
server.keepAliveTimeout = KEEP_ALIVE_MS;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
// This process ends when the process that started it closes its input or dies.
process.stdin.on('end', () => process.exit(0)).resume();

function readBody(request: IncomingMessage, done: (body: string) => void): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => done(Buffer.concat(chunks).toString()));
}

function refuse(response: ServerResponse): void {
  refusals += 1;
  const [status, type] = refusals % 2 === 1 ? [529, 'overloaded_error'] : [429, 'rate_limit_error'];
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ type: 'error', error: { type, message: 'refused by the benchmark' } }));
}

function answer(body: string, response: ServerResponse): void {
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
