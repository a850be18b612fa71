/**
 * Mastra: `Agent.generate` with `Memory` on `LibSQLStore` in a file, the whole history shown to the model, the model by
 * the provider interface of the AI SDK. Durability as shipped. A child is a separate thread; its reply is saved to the
 * parent's.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Agent, type AgentConfig, type MastraDBMessage } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { LibSQLStore } from '@mastra/libsql';
import { Memory } from '@mastra/memory';
import { z } from 'zod';
import { type Question, textOf } from '../../systems/system.ts';
import type { PeerSystem } from '../peer.ts';
import { model } from './language-model.ts';
import { ADD } from './script.ts';

/** The one user to whom all threads belong. */
const RESOURCE = 'bench';

/** Opens a store in the directory. */
export async function openPeer(directory: string): Promise<PeerSystem> {
  const storage = new LibSQLStore({ id: 'bench', url: `file:${join(directory, 'mastra.db')}` });
  await storage.init();
  const memory = new Memory({ storage, options: { lastMessages: Number.MAX_SAFE_INTEGER } });
  const agent = new Agent({
    id: 'adder',
    name: 'adder',
    instructions: 'Add.',
    // Mastra's types are of an older release of the same interface.
    model: model as AgentConfig['model'],
    tools: { [ADD.name]: addTool() },
    memory,
  });
  const turn = async (thread: string, question: Question): Promise<string> => {
    const { text } = await agent.generate(textOf(question), { memory: { thread, resource: RESOURCE }, maxSteps: 5 });
    return text;
  };
  const recall = async (thread: string): Promise<readonly MastraDBMessage[]> =>
    (await memory.recall({ threadId: thread, resourceId: RESOURCE, perPage: false })).messages;
  return {
    turn,
    async family(parent, questions) {
      await memory.createThread({ threadId: parent, resourceId: RESOURCE });
      await Promise.all(
        questions.map(async (question, index) => {
          const reply = await turn(`${parent}:${index}`, question);
          await memory.saveMessages({ messages: [replyTo(parent, reply)] });
        }),
      );
    },
    replies: async (parent) => (await recall(parent)).flatMap(textsOf),
    messages: async (thread) => (await recall(thread)).reduce((total, message) => total + countIn(message), 0),
    close: () => storage.close(),
  };
}

function addTool() {
  return createTool({
    id: ADD.name,
    description: ADD.description,
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => Promise.resolve(a + b),
  });
}

function replyTo(threadId: string, text: string): MastraDBMessage {
  return {
    id: randomUUID(),
    role: 'user',
    createdAt: new Date(),
    threadId,
    resourceId: RESOURCE,
    content: { format: 2, parts: [{ type: 'text', text }] },
  };
}

function textsOf({ content }: MastraDBMessage): readonly string[] {
  return content.parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
}

/**
 * Mastra keeps a call, its result and the answer as parts of one message. Here each part counts as a message, as in the
 * other systems.
 */
function countIn({ content }: MastraDBMessage): number {
  return content.parts.reduce((total, part) => {
    if (part.type === 'text') return total + 1;
    if (part.type === 'tool-invocation') return total + (part.toolInvocation.state === 'result' ? 2 : 1);
    return total;
  }, 0);
}
