/**
 * LangGraph.js: `createAgent` of LangChain, which is its ReAct graph, with the checkpointer SqliteSaver and a chat
 * model class. Variants: as shipped (commits are not synced); `synced` (each commit is synced, and each step waits for
 * its checkpoint); `exit` (each commit is synced, and there is one checkpoint for each turn, the fewest that LangGraph
 * allows). A family uses LangGraph's map-reduce: a parent graph sends each question to a separate node, and reduces the
 * replies.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, type BaseMessage } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import { Annotation, END, Send, START, StateGraph } from '@langchain/langgraph';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';
import { createAgent, tool } from 'langchain';
import { z } from 'zod';
import { type Question, textOf } from '../../systems/system.ts';
import type { PeerSystem } from '../peer.ts';
import { ADD, type Shown, say } from './script.ts';
import { openSqlite, syncEachCommit } from './sqlite.ts';

/**
 * The child runs outside any run of the parent. A graph that is invoked inside a node is part of the parent's
 * checkpoint, and with `exit` it is not kept at all. Here a child is a separate thread, like a session.
 */
const outside = AsyncLocalStorage.snapshot();

/** A conversation as a checkpoint holds it. */
interface Conversation {
  readonly messages?: readonly BaseMessage[];
}

const DURABILITY = { '': 'async', synced: 'sync', exit: 'exit' } as const;

class ScriptedModel extends BaseChatModel {
  constructor() {
    super({});
  }

  _llmType(): string {
    return 'scripted';
  }

  /** The script knows the tools already. */
  override bindTools(): this {
    return this;
  }

  _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const said = say(shownIn(messages.at(-1)));
    const message =
      said.type === 'answer'
        ? new AIMessage(said.text)
        : new AIMessage({
            content: '',
            tool_calls: [{ type: 'tool_call', id: said.id, name: ADD.name, args: said.input }],
          });
    return Promise.resolve({ generations: [{ text: message.text, message }] });
  }
}

/** Opens a database of checkpoints in the directory. */
export function openPeer(directory: string, variant: string): Promise<PeerSystem> {
  if (!(variant in DURABILITY)) throw new Error(`no variant of LangGraph: ${variant}`);
  const durability = DURABILITY[variant as keyof typeof DURABILITY];
  const database = openSqlite(directory);
  const checkpointer = new SqliteSaver(database as ConstructorParameters<typeof SqliteSaver>[0]);
  // Sets the sync mode of the connection. The saver itself sets WAL, at its first use.
  if (variant !== '') syncEachCommit(database);
  const agent = createAgent({ model: new ScriptedModel(), tools: [addTool()], checkpointer });
  const turn = async (session: string, question: Question): Promise<string> => {
    const { messages } = await agent.invoke(
      { messages: [{ role: 'user', content: textOf(question) }] },
      { configurable: { thread_id: session }, durability },
    );
    return messages.at(-1)?.text ?? '';
  };
  const parents = familyGraph(turn).compile({ checkpointer });
  const valuesOf = async (graph: typeof agent.graph | typeof parents, session: string): Promise<unknown> =>
    (await graph.getState({ configurable: { thread_id: session } })).values;
  return Promise.resolve({
    turn,
    async family(parent, questions) {
      const names = questions.map((question, index) => ({ name: `${parent}:${index}`, question }));
      await parents.invoke({ children: names }, { configurable: { thread_id: parent }, durability });
    },
    replies: async (parent) => ((await valuesOf(parents, parent)) as { readonly replies: readonly string[] }).replies,
    messages: async (session) => ((await valuesOf(agent.graph, session)) as Conversation).messages?.length ?? 0,
    close() {
      database.close();
      return Promise.resolve();
    },
  });
}

interface Child {
  readonly name: string;
  readonly question: Question;
}

function familyGraph(turn: (session: string, question: Question) => Promise<string>) {
  const Family = Annotation.Root({
    children: Annotation<readonly Child[]>,
    replies: Annotation<readonly string[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
  });
  return new StateGraph(Family)
    .addNode('child', async (child: Child) => ({ replies: [await outside(() => turn(child.name, child.question))] }))
    .addConditionalEdges(START, ({ children }) => children.map((child) => new Send('child', child)), ['child'])
    .addEdge('child', END);
}

function addTool() {
  return tool(({ a, b }) => String(a + b), { ...ADD, schema: z.object({ a: z.number(), b: z.number() }) });
}

function shownIn(message: BaseMessage | undefined): Shown {
  if (message?.type === 'human') return { type: 'question', text: message.text };
  if (message?.type === 'tool') return { type: 'result', text: message.text };
  throw new Error('the model was shown neither a question nor a result');
}
