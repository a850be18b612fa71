/**
 * Restate: one virtual object for each session, whose state is the conversation. Each model call and the tool are steps
 * of `ctx.run`, which the server journals before the next step. Turns arrive through the server's ingress. A parent is
 * an object too, and calls its children durably. The handlers run in the measuring process, and the server in a
 * separate process.
 */
import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';
import { textOf } from '../../systems/system.ts';
import type { PeerSystem } from '../peer.ts';
import { startServer } from './restate-server.ts';
import { type Said, say } from './script.ts';

type Message =
  | { readonly role: 'user' | 'assistant' | 'tool'; readonly text: string }
  | { readonly role: 'assistant'; readonly call: Said };

const session = restate.object({
  name: 'session',
  handlers: {
    turn: async (context: restate.ObjectContext, text: string): Promise<string> => {
      const messages = (await context.get<readonly Message[]>('messages')) ?? [];
      const call = await context.run('model', () => say({ type: 'question', text }));
      if (call.type !== 'call') throw new restate.TerminalError('the model called no tool');
      const result = await context.run('add', () => String(call.input.a + call.input.b));
      const answer = await context.run('model', () => say({ type: 'result', text: result }));
      if (answer.type !== 'answer') throw new restate.TerminalError('the model said nothing');
      const turn: readonly Message[] = [
        { role: 'user', text },
        { role: 'assistant', call },
        { role: 'tool', text: result },
        { role: 'assistant', text: answer.text },
      ];
      context.set('messages', [...messages, ...turn]);
      return answer.text;
    },
    count: async (context: restate.ObjectContext): Promise<number> =>
      (await context.get<readonly Message[]>('messages'))?.length ?? 0,
  },
});

const parent = restate.object({
  name: 'parent',
  handlers: {
    family: async (context: restate.ObjectContext, texts: readonly string[]): Promise<void> => {
      const asked = texts.map((text, index) =>
        context.objectClient<typeof session>({ name: 'session' }, `${context.key}:${index}`).turn(text),
      );
      context.set('replies', await restate.RestatePromise.all(asked));
    },
    replies: async (context: restate.ObjectContext): Promise<readonly string[]> =>
      (await context.get<readonly string[]>('replies')) ?? [],
  },
});

/** Starts a server in the directory, with the objects served from here. */
export async function openPeer(directory: string): Promise<PeerSystem> {
  const endpoint = restate.createEndpointHandler({ services: [session, parent], logger: complain });
  const handlers = createServer(endpoint).listen(0, '127.0.0.1');
  await once(handlers, 'listening');
  const server = await startServer(directory, (handlers.address() as AddressInfo).port);
  const ingress = clients.connect({ url: server.ingressUrl });
  const sessionOf = (name: string) => ingress.objectClient<typeof session>({ name: 'session' }, name);
  const parentOf = (name: string) => ingress.objectClient<typeof parent>({ name: 'parent' }, name);
  return {
    processes: [server.pid],
    turn: async (name, question) => sessionOf(name).turn(textOf(question)),
    family: async (name, questions) => parentOf(name).family(questions.map(textOf)),
    replies: async (name) => parentOf(name).replies(),
    messages: async (name) => sessionOf(name).count(),
    async close() {
      await server.stop();
      handlers.close();
    },
  };
}

/** The server as shipped logs two lines for each invocation; here it logs only warnings and errors. */
const complain: restate.LoggerTransport = ({ level }, ...words) => {
  if (String(level) === 'warn' || String(level) === 'error') console.error(...words);
};
