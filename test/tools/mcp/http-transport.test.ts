/** Goal: a message of an MCP server over HTTP is bounded, however its lines are cut into chunks. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { MCP_MESSAGE_BYTES_MAX } from '../../../src/base/bounds.ts';
import { HttpTransport } from '../../../src/tools/mcp/http-transport.ts';

const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Answers a request with an event stream of these pieces; resolves to the error of the transport, or 'answered'. */
async function outcomeOf(pieces: readonly string[]): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) response.write(piece);
    response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} })}\n\n`);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const transport = new HttpTransport({ url: `http://127.0.0.1:${port}/` });
  const outcome = new Promise<string>((resolve) => {
    transport.onmessage = (message) => resolve('result' in message ? 'answered' : JSON.stringify(message));
    transport.onerror = (error) => resolve(error.message);
  });
  await transport.start();
  await transport.send({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  try {
    return await outcome;
  } finally {
    await transport.close();
  }
}

const LINE = `: ${'x'.repeat(64 * 1024)}\n`;
const LINES = Math.ceil(MCP_MESSAGE_BYTES_MAX / LINE.length) + 1;

test('an event of many lines that are together too large fails the stream', async () => {
  expect(await outcomeOf(Array.from({ length: LINES }, () => LINE))).toContain('a message of more than');
});

test('a line that ends in the chunk in which it becomes too large fails the stream', async () => {
  expect(await outcomeOf([`: ${'x'.repeat(MCP_MESSAGE_BYTES_MAX)}\n\n`])).toContain('a message of more than');
});

test.each(['\n', '\r\n'])('events that end with %j are counted one by one', async (end) => {
  const events = Array.from({ length: LINES }, () => [LINE.trimEnd(), end, end.slice(0, 1), end.slice(1)]).flat();
  expect(await outcomeOf(events)).toBe('answered');
});
