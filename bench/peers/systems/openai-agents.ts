/**
 * OpenAI Agents SDK: `Runner.run` with a session. The JavaScript SDK ships sessions in memory and on OpenAI's servers,
 * and an interface for other stores. Here SQLite implements that interface, as in the SDK for Python: one commit for
 * each `addItems`, each synced.
 */
import {
  Agent,
  type AgentInputItem,
  type Model,
  type ModelRequest,
  type ModelResponse,
  Runner,
  type Session,
  setTracingDisabled,
  tool,
  Usage,
} from '@openai/agents';
import { z } from 'zod';
import { type Question, textOf } from '../../systems/system.ts';
import type { PeerSystem } from '../peer.ts';
import { ADD, type Shown, say } from './script.ts';
import { openSqlite, type Sqlite, type SqliteStatement, syncEachCommit } from './sqlite.ts';

const model: Model = {
  getResponse: (request) => Promise.resolve(answerTo(request)),
  getStreamedResponse: () => {
    throw new Error('nothing is streamed here');
  },
};

/** Opens a database of sessions in the directory. */
export function openPeer(directory: string): Promise<PeerSystem> {
  setTracingDisabled(true);
  const store = new Store(openSqlite(directory));
  const runner = new Runner({ tracingDisabled: true });
  const agent = new Agent({ name: 'adder', model, tools: [addTool()] });
  const turn = async (session: string, question: Question): Promise<string> => {
    const { finalOutput } = await runner.run(agent, textOf(question), { session: new SqliteSession(store, session) });
    return finalOutput ?? '';
  };
  return Promise.resolve({
    turn,
    async family(parent, questions) {
      const session = new SqliteSession(store, parent);
      await Promise.all(
        questions.map(async (question, index) => {
          const content = await turn(`${parent}:${index}`, question);
          await session.addItems([{ type: 'message', role: 'user', content }]);
        }),
      );
    },
    replies: (parent) =>
      Promise.resolve(store.items(parent).map((item) => ('content' in item ? String(item.content) : ''))),
    messages: (session) => Promise.resolve(store.items(session).length),
    close() {
      store.close();
      return Promise.resolve();
    },
  });
}

function addTool() {
  return tool({
    name: ADD.name,
    description: ADD.description,
    parameters: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => String(a + b),
  });
}

/** The items of all sessions, one row each. */
class Store {
  readonly #database: Sqlite;
  readonly #select: SqliteStatement;
  readonly #selectLast: SqliteStatement;
  readonly #insert: SqliteStatement;
  readonly #remove: SqliteStatement;
  readonly #clear: SqliteStatement;

  constructor(database: Sqlite) {
    syncEachCommit(database);
    database.exec('CREATE TABLE items (id INTEGER PRIMARY KEY, session TEXT NOT NULL, body TEXT NOT NULL)');
    database.exec('CREATE INDEX items_of_session ON items (session, id)');
    this.#database = database;
    this.#select = database.prepare('SELECT body FROM items WHERE session = ? ORDER BY id');
    this.#selectLast = database.prepare('SELECT id, body FROM items WHERE session = ? ORDER BY id DESC LIMIT ?');
    this.#insert = database.prepare('INSERT INTO items (session, body) VALUES (?, ?)');
    this.#remove = database.prepare('DELETE FROM items WHERE id = ?');
    this.#clear = database.prepare('DELETE FROM items WHERE session = ?');
  }

  items(session: string, limit?: number): AgentInputItem[] {
    if (limit === undefined) return (this.#select.all(session) as readonly Row[]).map(itemOf);
    return (this.#selectLast.all(session, limit) as readonly Row[]).map(itemOf).reverse();
  }

  add(session: string, items: readonly AgentInputItem[]): void {
    this.#database.transaction(() => {
      for (const item of items) this.#insert.run(session, JSON.stringify(item));
    })();
  }

  pop(session: string): AgentInputItem | undefined {
    const row = this.#selectLast.get(session, 1) as Row | undefined;
    if (row === undefined) return undefined;
    this.#remove.run(row.id);
    return itemOf(row);
  }

  clear(session: string): void {
    this.#clear.run(session);
  }

  close(): void {
    this.#database.close();
  }
}

interface Row {
  readonly id: number;
  readonly body: string;
}

function itemOf({ body }: Row): AgentInputItem {
  return JSON.parse(body) as AgentInputItem;
}

class SqliteSession implements Session {
  readonly #store: Store;
  readonly #name: string;

  constructor(store: Store, name: string) {
    this.#store = store;
    this.#name = name;
  }

  getSessionId(): Promise<string> {
    return Promise.resolve(this.#name);
  }

  getItems(limit?: number): Promise<AgentInputItem[]> {
    return Promise.resolve(this.#store.items(this.#name, limit));
  }

  addItems(items: AgentInputItem[]): Promise<void> {
    return Promise.resolve(this.#store.add(this.#name, items));
  }

  popItem(): Promise<AgentInputItem | undefined> {
    return Promise.resolve(this.#store.pop(this.#name));
  }

  clearSession(): Promise<void> {
    return Promise.resolve(this.#store.clear(this.#name));
  }
}

function answerTo({ input }: ModelRequest): ModelResponse {
  const said = say(shownIn(input));
  const usage = new Usage({ requests: 1, inputTokens: 1, outputTokens: 1, totalTokens: 2 });
  if (said.type === 'call') {
    const { id, input: given } = said;
    return {
      usage,
      output: [
        { type: 'function_call', callId: id, name: ADD.name, arguments: JSON.stringify(given), status: 'completed' },
      ],
    };
  }
  return {
    usage,
    output: [
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: said.text }],
      },
    ],
  };
}

function shownIn(input: ModelRequest['input']): Shown {
  const item = typeof input === 'string' ? undefined : input.at(-1);
  if (item?.type === 'function_call_result') {
    const { output } = item;
    if (typeof output === 'string') return { type: 'result', text: output };
    if (!Array.isArray(output) && output.type === 'text') return { type: 'result', text: output.text };
  }
  if (item !== undefined && 'role' in item && item.role === 'user') {
    return { type: 'question', text: String(item.content) };
  }
  throw new Error('the model was shown neither a question nor a result');
}
