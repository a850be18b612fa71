/**
 * The client of the sessions: sends keyed messages to the owner, and repeats at the next owner what had no answer.
 *
 * Owns: the messages, their order in each session, and the file in which acknowledgements are written down before they
 * count. Does not own: which node is the owner.
 *
 * Invariants:
 *  DR1 a session has one message without an acknowledgement at a time. So its log has the messages in the order of their
 *     numbers, and at most one that was never acknowledged;
 *  DR2 a message that had no answer is sent again with its key and its text, to the owner of that time;
 *  DR3 a session has at most `UNANSWERED_MAX` acknowledged messages without an answer of this owner, so that a slow machine
 *     has no backlog;
 *  DR4 a message that is sent to a former owner, after another one has the sessions, is sent to no other node.
 */
import { appendFileSync } from 'node:fs';
import type { NodeProcess } from './node-process.ts';
import { type Note, textOf } from './protocol.ts';

/** Messages of a session that wait for their answers (DR3). */
const UNANSWERED_MAX = 3;
/** A wait in milliseconds before a refused message is sent again. */
const AGAIN_MS = 100;

interface Message {
  readonly session: string;
  readonly key: string;
  isAcknowledged: boolean;
}

interface Flight {
  readonly message: Message;
  readonly node: NodeProcess;
  readonly atMs: number;
  /** True once the message was acknowledged or refused on this flight. */
  isSettled: boolean;
}

/** The options of a driver. */
export interface DriverOptions {
  readonly sessions: number;
  /** The longest wait in milliseconds between an acknowledgement and the next message of its session. */
  readonly pauseMs: number;
  readonly random: () => number;
  /** The file of acknowledgements. */
  readonly file: string;
}

/** See the head of this file. */
export class Driver {
  /** Keys by session, in the order in which they were acknowledged. */
  readonly acknowledged: Map<string, string[]> = new Map();
  /** The answers that were given to messages, by key. */
  readonly answers: Map<string, string> = new Map();
  /** Refusals of the owner, and of former owners that were asked by `askFormer`, by code. */
  readonly refusals: Map<string, number> = new Map();
  readonly formerRefusals: Map<string, number> = new Map();
  /** Keys that a former owner acknowledged, although another one had the sessions. */
  readonly wrong: string[] = [];
  readonly #options: DriverOptions;
  readonly #open = new Map<string, Message>();
  readonly #counts = new Map<string, number>();
  readonly #flights = new Map<number, Flight>();
  /** Acknowledged messages without an answer of this owner, by session. */
  readonly #unanswered = new Map<string, number>();
  readonly #former = new Map<number, string>();
  readonly #waiting = new Set<() => void>();
  #owner: NodeProcess | undefined;
  #isPaused = false;
  #nextId = 1;
  #total = 0;
  #longestMs = 0;

  constructor(options: DriverOptions) {
    this.#options = options;
    for (let index = 0; index < options.sessions; index += 1) this.acknowledged.set(`s${index}`, []);
  }

  /** Acknowledged messages. */
  get total(): number {
    return this.#total;
  }

  /** The longest time in milliseconds for which the owner left a message without any answer, so far. */
  get longestMs(): number {
    const nowMs = performance.now();
    const waiting = [...this.#flights.values()].filter(({ node, isSettled }) => node === this.#owner && !isSettled);
    return Math.max(this.#longestMs, ...waiting.map(({ atMs }) => nowMs - atMs));
  }

  /** The node to which messages go from now on (DR2). */
  attach(node: NodeProcess): void {
    this.#owner = node;
    // The answers that a former owner owes do not come.
    this.#unanswered.clear();
    for (const session of this.acknowledged.keys()) this.#send(session);
  }

  /** Sends nothing new, and repeats what has no answer, until `resume`. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    for (const session of this.acknowledged.keys()) if (!this.#open.has(session)) this.#send(session);
  }

  /** Sends messages to a node that is not the owner any more, and knows nothing of it (DR4). */
  askFormer(node: NodeProcess, count: number): readonly string[] {
    return Array.from({ length: count }, () => {
      const id = this.#nextId;
      this.#nextId += 1;
      const key = `former-${id}`;
      this.#former.set(id, key);
      node.order({ type: 'send', id, session: key, key, text: key });
      return key;
    });
  }

  /** True if `askFormer` has had an answer to each of its messages, or their node is gone. */
  get hasFormerAnswers(): boolean {
    return this.#former.size === 0;
  }

  /** Takes a report of a node. */
  listen(node: NodeProcess, note: Note): void {
    if (note.type === 'acknowledged') this.#acknowledge(note.id);
    else if (note.type === 'refused') this.#refuse(node, note.id, note.code);
    else if (note.type === 'answered') this.#answered(note.id, note.text);
    else if (note.type === 'ended') this.#former.clear();
  }

  /** Resolves when every message that is open now is acknowledged. */
  async caughtUp(): Promise<void> {
    const open = [...this.#open.values()];
    await this.#until(() => open.every(({ isAcknowledged }) => isAcknowledged));
  }

  /** Resolves when so many more messages are acknowledged. */
  async progress(count: number): Promise<void> {
    const goal = this.#total + count;
    await this.#until(() => this.#total >= goal);
  }

  async #until(isMet: () => boolean): Promise<void> {
    while (!isMet()) {
      await new Promise<void>((resolve) => {
        this.#waiting.add(resolve);
      });
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  #send(session: string): void {
    const node = this.#owner;
    if (node === undefined || node.isOver) return;
    const message = this.#open.get(session) ?? this.#next(session);
    if (message === undefined) return;
    const id = this.#nextId;
    this.#nextId += 1;
    this.#flights.set(id, { message, node, atMs: performance.now(), isSettled: false });
    node.order({ type: 'send', id, session, key: message.key, text: textOf(message.key) });
  }

  #next(session: string): Message | undefined {
    if (this.#isPaused || this.#unansweredOf(session) >= UNANSWERED_MAX) return undefined;
    const number = (this.#counts.get(session) ?? 0) + 1;
    this.#counts.set(session, number);
    const message: Message = { session, key: `${session}-${number}`, isAcknowledged: false };
    this.#open.set(session, message);
    return message;
  }

  #acknowledge(id: number): void {
    const former = this.#former.get(id);
    if (former !== undefined) this.wrong.push(former);
    this.#former.delete(id);
    const flight = this.#flights.get(id);
    if (flight === undefined) return;
    this.#settle(flight);
    const { message } = flight;
    // A message that was repeated may have a second answer.
    if (message.isAcknowledged) return;
    appendFileSync(this.#options.file, `${message.key}\n`);
    message.isAcknowledged = true;
    this.#open.delete(message.session);
    this.acknowledged.get(message.session)?.push(message.key);
    this.#total += 1;
    if (flight.node === this.#owner) this.#unanswered.set(message.session, this.#unansweredOf(message.session) + 1);
    this.#wake();
    setTimeout(() => {
      if (!this.#open.has(message.session)) this.#send(message.session);
    }, this.#options.random() * this.#options.pauseMs);
  }

  #refuse(node: NodeProcess, id: number, code: string): void {
    if (this.#former.delete(id)) {
      this.formerRefusals.set(code, (this.formerRefusals.get(code) ?? 0) + 1);
      this.#wake();
      return;
    }
    const flight = this.#flights.get(id);
    // A refusal after the acknowledgement is that of the answer.
    if (flight?.message.isAcknowledged === true) this.#answerEnded(id, flight);
    if (flight === undefined || flight.isSettled || flight.message.isAcknowledged) return;
    this.#settle(flight);
    if (node !== this.#owner) return;
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1);
    setTimeout(() => {
      if (node === this.#owner && !flight.message.isAcknowledged) this.#send(flight.message.session);
    }, AGAIN_MS);
  }

  #answered(id: number, text: string): void {
    const flight = this.#flights.get(id);
    if (flight === undefined) return;
    this.answers.set(flight.message.key, text);
    this.#answerEnded(id, flight);
  }

  #answerEnded(id: number, { message, node }: Flight): void {
    this.#flights.delete(id);
    if (node !== this.#owner) return;
    this.#unanswered.set(message.session, Math.max(0, this.#unansweredOf(message.session) - 1));
    if (!this.#open.has(message.session)) this.#send(message.session);
  }

  #unansweredOf(session: string): number {
    return this.#unanswered.get(session) ?? 0;
  }

  #settle(flight: Flight): void {
    flight.isSettled = true;
    if (flight.node === this.#owner) this.#longestMs = Math.max(this.#longestMs, performance.now() - flight.atMs);
  }
}
