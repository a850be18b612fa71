/**
 * A chat that survives a reload of its page and a restart of its service: the routes of `useChat` of the AI SDK, and the
 * sessions themselves at `/agents` for `troupe/client` and `useSession`. The page, of the AI SDK 6:
 *
 *     const initial = await (await fetch(`/api/chat/${id}`)).json();
 *     const transport = new DefaultChatTransport({
 *       // The turn at work; after its end, the answer to the message that has none in the page.
 *       prepareReconnectToStreamRequest: ({ id }) => {
 *         const last = chat.messages.at(-1);
 *         return { api: `/api/chat/${id}/stream${last?.role === 'user' ? `?message=${last.id}` : ''}` };
 *       },
 *     });
 *     const chat = new Chat({ id, messages: initial, transport }); // of @ai-sdk/react
 *     const { messages, sendMessage, regenerate, stop } = useChat({ chat, resume: true });
 *     const stopTurn = () => Promise.all([stop(), fetch(`/api/chat/${id}/stop`, { method: 'POST' })]);
 *
 * or, without the AI SDK, `useSession(createClient<Agents>({ url: '/agents' }).session(id, 'assistant'))`.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { agent, anthropic, open, TroupeError, tool } from 'troupe';
import { chatInput, resumeResponse, uiMessageResponse, uiMessages } from 'troupe/ai-sdk';
import { handler, nodeListener, statusOf } from 'troupe/server';
import { scripted } from 'troupe/testing';
import { z } from 'zod';

const clock = tool({
  name: 'clock',
  description: 'The time now, as an ISO date.',
  input: z.object({}),
  effect: 'pure',
  run: () => new Date().toISOString(),
});
const agents = [agent({ name: 'assistant', system: 'Be brief.', tools: [clock] })];
export type Agents = typeof agents;

const hasKey = process.env['ANTHROPIC_API_KEY'] !== undefined;
const rules = [
  { when: { result: true }, reply: 'It is {{result}}.' },
  { when: { text: 'time' }, reply: { toolUse: { name: 'clock', input: {} } } },
];
const provider = hasKey ? anthropic() : scripted({ rules, otherwise: 'You said: {{text}}' });
const runtime = await open(process.env['DATA'] ?? ':memory:', { provider, agents });
const sessions = nodeListener(handler(runtime));

async function answer(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const { signal } = request;
  if (request.method === 'POST' && pathname === '/api/chat') {
    // The key of the message is its id in the page, so a request that is repeated is answered once. `input` also says
    // whether the message replaces an earlier one (`regenerate`, an edit).
    const input = chatInput(await request.json());
    return uiMessageResponse(runtime.session(input.id ?? 'chat', 'assistant'), input, { signal });
  }
  if (request.method === 'GET' && pathname === '/api/chats') {
    return Response.json(await runtime.sessions.list({ parent: null, limit: 50 }));
  }
  const [, id, action] = /^\/api\/chat\/([^/]+)(\/stream|\/stop)?$/.exec(pathname) ?? [];
  if (id === undefined) return new Response('not found\n', { status: 404 });
  const session = runtime.session(decodeURIComponent(id), 'assistant');
  if (request.method === 'GET' && action === '/stream') {
    const key = searchParams.get('message');
    return resumeResponse(session, key === null ? { signal } : { signal, key });
  }
  if (request.method === 'GET' && action === undefined) return Response.json(await uiMessages(session));
  // `stop` of the page only closes its stream: the turn is stopped here.
  if (request.method === 'POST' && action === '/stop') {
    return Response.json({ stopped: await session.interrupt('stopped by the user') });
  }
  return new Response('not found\n', { status: 404 });
}

const chat = nodeListener((request) =>
  answer(request).catch((error: unknown) => {
    // A body that is too large is answered by `nodeListener`, and one that is no JSON is the client's mistake.
    if (error instanceof SyntaxError) return new Response('content\n', { status: 400 });
    if (!(error instanceof TroupeError)) throw error;
    return new Response(`${error.code}\n`, { status: statusOf(error) });
  }),
);

const server = createServer((request, response) => {
  const isOfSessions = request.url?.startsWith('/agents/') === true;
  if (isOfSessions) request.url = request.url?.slice('/agents'.length);
  // A listener never rejects.
  void (isOfSessions ? sessions(request, response) : chat(request, response));
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
