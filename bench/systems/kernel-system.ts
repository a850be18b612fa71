/**
 * The kernel shows the limits of one thread and of the disk. It writes one row for each message. All waiting turns
 * share one write and one fdatasync, or none in memory. It has no schema, no recovery and no supervision.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { RequestMessage } from '../../src/models/provider.ts';
import { answerTo } from './model.ts';
import { type DrainSystem, type Question, textOf } from './system.ts';

/** The destination of rows. */
interface Rows {
  /** Resolves when the row is durable, or at once in memory. */
  append(session: string, seq: number, message: RequestMessage): Promise<void>;
  close(): Promise<void>;
}

/** Opens the kernel's file in a directory: rows are appended and flushed in groups. */
export async function openKernel(directory: string): Promise<DrainSystem> {
  return new Kernel(new FileRows(await open(join(directory, 'rows.jsonl'), 'a')));
}

/** The same loop without a file: every wait is one microtask. */
export function openMemoryKernel(): DrainSystem {
  return new Kernel({ append: () => Promise.resolve(), close: () => Promise.resolve() });
}

class Kernel implements DrainSystem {
  readonly #rows: Rows;
  readonly #contexts = new Map<string, RequestMessage[]>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  async turn(session: string, question: Question): Promise<string> {
    const context = this.#contextOf(session);
    await this.#append(session, context, { role: 'user', content: textOf(question) });
    const call = (await Promise.resolve(answerTo({ messages: context }))).content[0];
    if (call?.type !== 'tool_use') throw new Error('the model called no tool');
    await this.#append(session, context, { role: 'assistant', content: [call] });
    const { a, b } = call.input as Question;
    const content = String(a + b);
    await this.#append(session, context, {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: call.id, content }],
    });
    const answer = (await Promise.resolve(answerTo({ messages: context }))).content[0];
    if (answer?.type !== 'text') throw new Error('the model said nothing');
    await this.#append(session, context, { role: 'assistant', content: [answer] });
    return answer.text;
  }

  async family(parent: string, questions: readonly Question[]): Promise<void> {
    const context = this.#contextOf(parent);
    await Promise.all(
      questions.map(async (question, index) => {
        const reply = await this.turn(`${parent}:${index}`, question);
        await this.#append(parent, context, { role: 'user', content: reply });
      }),
    );
  }

  replies(parent: string): Promise<readonly string[]> {
    return Promise.resolve(this.#contextOf(parent).map(({ content }) => String(content)));
  }

  messages(session: string): Promise<number> {
    return Promise.resolve(this.#contextOf(session).length);
  }

  close(): Promise<void> {
    return this.#rows.close();
  }

  #contextOf(session: string): RequestMessage[] {
    const known = this.#contexts.get(session);
    if (known !== undefined) return known;
    const context: RequestMessage[] = [];
    this.#contexts.set(session, context);
    return context;
  }

  #append(session: string, context: RequestMessage[], message: RequestMessage): Promise<void> {
    context.push(message);
    return this.#rows.append(session, context.length, message);
  }
}

class FileRows implements Rows {
  readonly #file: FileHandle;
  #rows: string[] = [];
  #waiting: (() => void)[] = [];
  #failed: ((error: unknown) => void)[] = [];
  #isFlushing = false;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  append(session: string, seq: number, message: RequestMessage): Promise<void> {
    this.#rows.push(`${JSON.stringify({ session, seq, message })}\n`);
    if (!this.#isFlushing) {
      this.#isFlushing = true;
      setImmediate(() => void this.#flush());
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push(resolve);
      this.#failed.push(reject);
    });
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    while (this.#rows.length > 0) {
      const [rows, waiting, failed] = [this.#rows, this.#waiting, this.#failed];
      [this.#rows, this.#waiting, this.#failed] = [[], [], []];
      try {
        await this.#file.write(rows.join(''));
        await this.#file.datasync();
        for (const resume of waiting) resume();
      } catch (error) {
        for (const refuse of failed) refuse(error);
      }
      // The resumed turns write before the next flush begins.
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#isFlushing = false;
  }
}
