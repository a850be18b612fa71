/**
 * The work of the demonstration, through one member: a parent session spawns sub-agents by HTTP, and a reader follows the
 * parent's events at the same member.
 *
 * Owns: the requests, the counts. Does not own: the nodes.
 *  DW1 a request whose outcome is unknown is sent again with its key, until it is answered;
 *  DW2 the number of each event is one more than that of the event before it; any other one is a hole.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { createClient } from '../../../src/client/index.ts';
import type { ViewedEvent } from '../../../src/client/types.ts';

/** The session that spawns. */
export const PARENT = 'book';
/** Requests that are made side by side. */
const REQUESTS = 8;
/** Sub-agents that may be without an answer until the kill. So there are some to spawn while no node is the owner. */
const AHEAD = 200;
/** Milliseconds before a request is sent again. */
const AGAIN_MS = 50;

const problemSchema = z.object({ code: z.string(), detail: z.string(), retryable: z.boolean() });

/** The task of sub-agent `index`. Each task is given once, so two sub-agents with the same task are one too many. */
export function taskOf(index: number): string {
  return `Read chapter ${index}.`;
}

/** The name of sub-agent `index`, and its key. */
export function nameOf(index: number): string {
  return `chapter-${index}`;
}

/** See the head of the file. */
export class DemoWork {
  /** Sub-agents to spawn. */
  readonly total: number;
  /** Sub-agents whose spawning was acknowledged. */
  spawned = 0;
  /** Sub-agents that have answered, according to the member. */
  answers = 0;
  /** Replies that the parent has read, according to the member. */
  replies = 0;
  /** Requests without an answer now. */
  inFlight = 0;
  /** Requests that were sent again. */
  repeated = 0;
  /** The number of the last event. */
  lastEvent = 0;
  lastEventMs: number = performance.now();
  holes = 0;
  /** Connections after the first one. */
  reconnects = 0;
  /** The time of the first answer after the kill. */
  nextAnswerMs: number | undefined;
  readonly #url: string;
  #killedAt = Number.POSITIVE_INFINITY;
  #requested = 0;
  #isIdle = false;
  #waiting: (() => void)[] = [];

  /** `url`: the address of the member. */
  constructor(url: string, total: number) {
    this.#url = url;
    this.total = total;
  }

  /** Resolves when the parent has every reply and rests. Rejects if a request is refused or a sub-agent fails. */
  async run(): Promise<void> {
    await this.#post('/sessions', { id: PARENT, agent: 'editor' });
    const over = new AbortController();
    try {
      await Promise.all([
        this.#follow(over.signal),
        ...Array.from({ length: REQUESTS }, () => this.#spawn(over.signal)),
      ]);
    } finally {
      // If one part fails, the others end.
      over.abort();
    }
  }

  /** The owner was killed just now: the rest is spawned without a wait, and the next answer is noted. */
  ownerKilled(): void {
    this.#killedAt = Date.now();
    this.#wake();
  }

  /** Resolves when `isMet` holds; it is asked after each event. */
  async until(isMet: () => boolean): Promise<void> {
    while (!isMet()) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Sends every request once more. If a key were accepted twice, there would be another sub-agent with the same task. */
  async repeatAll(): Promise<void> {
    let index = 0;
    const repeat = async (): Promise<void> => {
      while (index < this.total) {
        index += 1;
        await this.#postChild(index);
      }
    };
    await Promise.all(Array.from({ length: REQUESTS }, repeat));
  }

  async #spawn(signal: AbortSignal): Promise<void> {
    while (this.#requested < this.total) {
      this.#requested += 1;
      const index = this.#requested;
      await this.until(() => signal.aborted || index <= this.answers + AHEAD || this.#killedAt <= Date.now());
      signal.throwIfAborted();
      await this.#postChild(index);
      this.spawned += 1;
    }
  }

  #postChild(index: number): Promise<void> {
    const key = nameOf(index);
    return this.#post(`/sessions/${PARENT}/children`, { task: taskOf(index), name: key, key });
  }

  async #post(path: string, body: object): Promise<void> {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    for (this.inFlight += 1; ; this.repeated += 1) {
      const response = await fetch(`${this.#url}${path}`, init).catch((cause: unknown) => {
        throw new Error(`the member at ${this.#url} does not answer`, { cause });
      });
      const answer: unknown = await response.json();
      if (response.ok) break;
      const { code, detail, retryable } = problemSchema.parse(answer);
      if (!retryable) throw new Error(`POST ${path} was refused: ${code}: ${detail}`);
      await wait(AGAIN_MS);
    }
    this.inFlight -= 1;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const onReconnect = (): void => {
      this.reconnects += 1;
    };
    const parent = createClient({ url: this.#url }).session(PARENT);
    for await (const event of parent.events({ mode: 'basic', deltas: false, signal, onReconnect })) {
      this.#take(event);
      this.#wake();
      if (this.replies >= this.total && this.#isIdle) return;
    }
  }

  #take(event: ViewedEvent): void {
    if (event.seq !== undefined) {
      if (event.seq !== this.lastEvent + 1) this.holes += 1;
      this.lastEvent = event.seq;
      this.lastEventMs = performance.now();
    }
    if (event.type === 'session.state') this.#isIdle = event.state === 'idle';
    if (event.type === 'message.created' && event.message.type === 'tool_response') this.replies += 1;
    if (event.type !== 'child.exited') return;
    if (event.reason !== 'completed') throw new Error(`the sub-agent ${event.name} ended as ${event.reason}`);
    this.answers += 1;
    if (event.at > this.#killedAt) this.nextAnswerMs ??= performance.now();
  }
}
