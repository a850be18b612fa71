/**
 * A chat that survives a reload of its page and a restart of its service: the two routes of `useChat({ resume: true })`
 * of the AI SDK, and the sessions themselves at `/agents` for `troupe/client` and `useSession`. The page:
 *
 *     const { messages, sendMessage, regenerate } = useChat({ id, resume: true });
 *
 * or, without the AI SDK, `useSession(createClient<Agents>({ url: '/agents' }).session(id, 'assistant'))`.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { agent, anthropic, open, TroupeError } from 'troupe';
import { chatInput, resumeResponse, uiMessageResponse } from 'troupe/ai-sdk';
import { handler, nodeListener } from 'troupe/server';
import { scripted } from 'troupe/testing';

const agents = [agent({ name: 'assistant', system: 'Be brief.' })];
export type Agents = typeof agents;

const hasKey = process.env['ANTHROPIC_API_KEY'] !== undefined;
const provider = hasKey ? anthropic() : scripted({ rules: [], otherwise: 'You said: {{text}}' });
const runtime = await open(process.env['DATA'] ?? ':memory:', { provider, agents });
const sessions = nodeListener(handler(runtime));

async function answer(request: Request): Promise<Response> {
  const url = new URL(request.url);
  const resumed = /^\/api\/chat\/([^/]+)\/stream$/.exec(url.pathname)?.[1];
  if (request.method === 'GET' && resumed !== undefined) {
    return resumeResponse(runtime.session(decodeURIComponent(resumed)));
  }
  if (request.method === 'POST' && url.pathname === '/api/chat') {
    // The key of the message is its id in the page, so a request that is repeated is answered once. `input` also says
    // whether the message replaces an earlier one (`regenerate`, an edit).
    const input = chatInput(await request.json());
    return uiMessageResponse(runtime.session(input.id ?? 'chat'), input);
  }
  return new Response('not found\n', { status: 404 });
}

const chat = nodeListener((request) =>
  answer(request).catch((error: unknown) => {
    const code = error instanceof TroupeError ? error.code : 'internal';
    return new Response(`${code}\n`, { status: code === 'internal' ? 500 : 400 });
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
