/**
 * Vercel AI SDK: `generateText` with a tool and `stopWhen`, the model by the provider interface. The SDK keeps no
 * conversation. The caller has the list of messages, here in memory, as in the SDK's guide.
 */
import { generateText, isStepCount, type ModelMessage, tool } from 'ai';
import { z } from 'zod';
import { type Question, textOf } from '../../systems/system.ts';
import type { PeerSystem } from '../peer.ts';
import { model } from './language-model.ts';
import { ADD } from './script.ts';

const tools = {
  [ADD.name]: tool({
    description: ADD.description,
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => a + b,
  }),
};

/** Opens a map of conversations; the directory is not used. */
export function openPeer(): Promise<PeerSystem> {
  const conversations = new Map<string, ModelMessage[]>();
  const conversationOf = (session: string): ModelMessage[] => {
    const found = conversations.get(session) ?? [];
    conversations.set(session, found);
    return found;
  };
  const turn = async (session: string, question: Question): Promise<string> => {
    const messages = conversationOf(session);
    messages.push({ role: 'user', content: textOf(question) });
    const { text, responseMessages } = await generateText({ model, tools, messages, stopWhen: isStepCount(5) });
    messages.push(...responseMessages);
    return text;
  };
  return Promise.resolve({
    turn,
    async family(parent, questions) {
      const messages = conversationOf(parent);
      await Promise.all(
        questions.map(async (question, index) => {
          messages.push({ role: 'user', content: await turn(`${parent}:${index}`, question) });
        }),
      );
    },
    replies: (parent) => Promise.resolve(conversationOf(parent).map(({ content }) => String(content))),
    messages: (session) => Promise.resolve(conversationOf(session).length),
    close: () => Promise.resolve(),
  });
}
