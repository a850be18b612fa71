/**
 * A service of one's own around a runtime: `POST /chat/<session>` with a text, answered by what the model says, half-step by half-step. A
 * request may be repeated with the same `Idempotency-Key` and gets the same answer; a client that goes away cancels nothing.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { agent, anthropic, open, TroupeError } from 'troupe';
import { scripted } from 'troupe/testing';

const TEXT_CHARACTERS_MAX = 100_000;
const hasKey = process.env['ANTHROPIC_API_KEY'] !== undefined;
const provider = hasKey ? anthropic() : scripted({ rules: [], otherwise: 'You said: {{text}}' });
const runtime = await open(process.env['DATA'] ?? ':memory:', {
  provider,
  agents: [agent({ name: 'assistant', system: 'Be brief.' })],
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of request.setEncoding('utf8')) {
    text += String(piece);
    if (text.length > TEXT_CHARACTERS_MAX) throw new TroupeError('limit', 'the message is too long');
  }
  return text;
}

async function chat(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const session = runtime.session(id);
  const key = request.headers['idempotency-key'];
  const receipt = await session.send(await bodyOf(request), typeof key === 'string' ? { key } : {});
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'x-receipt': receipt.id });
  // The client's going away ends the reading, not the turn.
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  for await (const event of session.events({ until: receipt, signal: gone.signal })) {
    // Durable, so that a request that comes again is told the same; `text.delta` would be sooner, and only live.
    if (event.type !== 'message.created' || event.message.type !== 'agent_message') continue;
    if (typeof event.message.content === 'string') response.write(event.message.content);
  }
  response.end();
}

const server = createServer((request, response) => {
  const id = /^\/chat\/([\w.-]+)$/.exec(request.url ?? '')?.[1];
  if (request.method !== 'POST' || id === undefined) {
    response.writeHead(404).end();
    return;
  }
  chat(id, request, response).catch((error: unknown) => {
    const code = error instanceof TroupeError ? error.code : 'internal';
    if (!response.headersSent) response.writeHead(code === 'internal' ? 500 : 400);
    response.end(`${code}\n`);
  });
});

server.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.once('SIGTERM', () => {
  server.close();
  runtime.close({ deadlineMs: 5_000 }).catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  });
});
