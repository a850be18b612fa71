/**
 * The hand-written durable loop, as a capable programmer writes it in an afternoon: SQLite in WAL mode,
 * `synchronous = FULL`. Each message is one insert in a separate transaction, synced before the next step. The
 * benchmark installs the database driver into this folder when a run needs it; the package does not depend on it.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RequestMessage } from '../../src/models/provider.ts';
import { answerTo } from '../systems/model.ts';
import { type DrainSystem, type Question, textOf } from '../systems/system.ts';

interface Database {
  pragma(text: string): unknown;
  exec(text: string): unknown;
  prepare(text: string): Statement;
  close(): void;
}

interface Statement {
  run(...values: readonly unknown[]): unknown;
  get(...values: readonly unknown[]): unknown;
}

/** Installs the driver into this folder if it is missing; returns the reason if the installation fails. */
export function installLoop(folder: string): string | undefined {
  if (loadDriver(folder) !== undefined) return undefined;
  const result = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, encoding: 'utf8' });
  if (loadDriver(folder) !== undefined) return undefined;
  return (result.error?.message ?? `${result.stderr}${result.stdout}`).trim().split('\n').slice(-3).join(' ');
}

function loadDriver(folder: string): (new (path: string) => Database) | undefined {
  try {
    const Driver = createRequire(join(folder, 'package.json'))('better-sqlite3') as new (path: string) => Database;
    // A driver that was built for another version of Node fails here, not at its import.
    new Driver(':memory:').close();
    return Driver;
  } catch {
    return undefined;
  }
}

/** Opens the loop's database in a directory, with the driver of a folder. Throws if the driver cannot be loaded. */
export function openLoop(directory: string, folder: string): DrainSystem {
  const Driver = loadDriver(folder);
  if (Driver === undefined) throw new Error('better-sqlite3 is not installed');
  const database = new Driver(join(directory, 'loop.sqlite'));
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  database.exec(
    'CREATE TABLE messages (session TEXT, seq INTEGER, body TEXT, PRIMARY KEY (session, seq)) WITHOUT ROWID',
  );
  return new Loop(database);
}

class Loop implements DrainSystem {
  readonly #database: Database;
  readonly #insert: Statement;
  readonly #count: Statement;
  readonly #contexts = new Map<string, RequestMessage[]>();

  constructor(database: Database) {
    this.#database = database;
    this.#insert = database.prepare('INSERT INTO messages VALUES (?, ?, ?)');
    this.#count = database.prepare('SELECT count(*) AS count FROM messages WHERE session = ?');
  }

  async turn(session: string, question: Question): Promise<string> {
    const context = this.#contextOf(session);
    this.#append(session, context, { role: 'user', content: textOf(question) });
    const call = (await Promise.resolve(answerTo({ messages: context }))).content[0];
    if (call?.type !== 'tool_use') throw new Error('the model called no tool');
    this.#append(session, context, { role: 'assistant', content: [call] });
    const { a, b } = call.input as Question;
    const content = String(a + b);
    this.#append(session, context, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] });
    const answer = (await Promise.resolve(answerTo({ messages: context }))).content[0];
    if (answer?.type !== 'text') throw new Error('the model said nothing');
    this.#append(session, context, { role: 'assistant', content: [answer] });
    return answer.text;
  }

  async family(parent: string, questions: readonly Question[]): Promise<void> {
    const context = this.#contextOf(parent);
    await Promise.all(
      questions.map(async (question, index) => {
        const reply = await this.turn(`${parent}:${index}`, question);
        this.#append(parent, context, { role: 'user', content: reply });
      }),
    );
  }

  replies(parent: string): Promise<readonly string[]> {
    return Promise.resolve(this.#contextOf(parent).map(({ content }) => String(content)));
  }

  messages(session: string): Promise<number> {
    const row = this.#count.get(session) as { readonly count: number };
    return Promise.resolve(row.count);
  }

  close(): Promise<void> {
    this.#database.close();
    return Promise.resolve();
  }

  #contextOf(session: string): RequestMessage[] {
    const known = this.#contexts.get(session);
    if (known !== undefined) return known;
    const context: RequestMessage[] = [];
    this.#contexts.set(session, context);
    return context;
  }

  #append(session: string, context: RequestMessage[], message: RequestMessage): void {
    context.push(message);
    this.#insert.run(session, context.length, JSON.stringify(message));
  }
}
