/**
 * The embedder of a story. Its messages have keys and are sent until they are accepted. Every report that it receives
 * goes into the ledger, which outlives the embedder.
 */
import { CancelledError, SessionBusyError, TroupeError, TurnFailedError } from '../../src/base/errors.ts';
import type { Deliver, Message } from '../../src/base/messages.ts';
import { textOf } from '../../src/base/messages.ts';
import type { Child } from '../../src/runtime/handles/child.ts';
import type { Receipt } from '../../src/runtime/handles/receipt.ts';
import type { Runtime } from '../../src/runtime/handles/runtime.ts';
import type { Session } from '../../src/runtime/handles/session.ts';
import type { SpawnOptions } from '../../src/runtime/handles/spawn-options.ts';
import {
  digestOf,
  type Ledger,
  type MessageStory,
  type Outcome,
  type SpawnStory,
} from '../../src/testing/simulation/ledger.ts';
import type { SimulatedProcess, World } from '../../src/testing/simulation/world.ts';

/** The parts of a stage. */
export interface StageParts {
  readonly process: SimulatedProcess;
  readonly world: World;
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  /** The state of the world outside the runtime; it outlives crashes. */
  readonly outside: Set<string>;
  /** Names of tools that run in this life. */
  readonly running: ReadonlySet<string>;
  readonly setFull: (isFull: boolean) => void;
  readonly trace: (text: string) => void;
}

/** How a message is sent. */
export interface SayOptions {
  readonly deliver?: Deliver;
  readonly bounceBack?: boolean;
  readonly agent?: string;
  /** More text after the name. */
  readonly text?: string;
}

/** The final state of a story. */
export interface StoryEnd {
  readonly logs: ReadonlyMap<string, readonly string[]>;
  readonly answers: ReadonlyMap<string, string>;
  readonly replies: ReadonlyMap<string, string>;
}

/** Virtual ms between two checks, and the virtual ms after which a check gives up. */
const LOOK_MS = 20;
const PATIENCE_MS = 900_000;
/** Virtual ms between two attempts after a refusal. */
const AGAIN_MS = 400;
/** The session whose only purpose is to cause writes. */
const ASIDE = 'aside';

/** See the head of the file. */
export class Stage {
  readonly #parts: StageParts;
  readonly #following = new Map<string, { last: number }>();
  readonly #listening = new Set<Promise<unknown>>();
  #isLeaving = false;
  #marks = 0;

  constructor(parts: StageParts) {
    this.#parts = parts;
  }

  get runtime(): Runtime {
    return this.#parts.runtime;
  }

  get outside(): Set<string> {
    return this.#parts.outside;
  }

  session(id: string, agent?: string): Session {
    return this.#parts.runtime.session(id, agent);
  }

  // ---- sending ------------------------------------------------------------------------------------------------------

  /** Sends `<uid> please`, with the name as its key, until it is accepted. */
  async say(session: string, uid: string, options: SayOptions = {}): Promise<Receipt> {
    const story = this.#messageStory(session, uid, options);
    return this.insist(() => this.#send(story, options));
  }

  /** Sends with `deliver: 'reject'`, and returns false without another attempt if the session was busy. */
  async sayUnlessBusy(session: string, uid: string): Promise<boolean> {
    const { ledger, outside } = this.#parts;
    if (outside.has(uid)) return false;
    const story = this.#messageStory(session, uid, { deliver: 'reject' });
    try {
      await this.insist(() => this.#send(story, { deliver: 'reject' }));
      return true;
    } catch (error) {
      if (!(error instanceof SessionBusyError)) throw error;
      story.isRefused = true;
      ledger.messages.set(uid, story);
      outside.add(uid);
      return false;
    }
  }

  /** Sends without a key, once in all lives, and gives up when the store refuses: the outcome is then unknown. */
  async sayOnce(session: string, uid: string): Promise<void> {
    const { ledger, outside, world, process, trace } = this.#parts;
    if (outside.has(uid)) return;
    outside.add(uid);
    const sentAfter = ledger.acknowledgedUpTo(session);
    const content = `${uid} please`;
    const story: MessageStory = { uid, session, content, key: undefined, deliver: undefined, sentAfter };
    ledger.messages.set(uid, story);
    const sent = this.#send(story, {}).then(
      () => undefined,
      (error: unknown) => {
        if (!(error instanceof TroupeError && error.retryable)) throw error;
        trace(`given up: ${error.message}`);
      },
    );
    await Promise.race([sent, world.sleep(process, PATIENCE_MS)]);
  }

  #messageStory(session: string, uid: string, { text, deliver }: SayOptions): MessageStory {
    const { ledger } = this.#parts;
    const known = ledger.messages.get(uid);
    if (known !== undefined) return known;
    const content = text === undefined ? `${uid} please` : `${uid} please ${text}`;
    const sentAfter = ledger.acknowledgedUpTo(session);
    const story: MessageStory = { uid, session, content, key: `k-${uid}`, deliver, sentAfter };
    ledger.messages.set(uid, story);
    return story;
  }

  async #send(story: MessageStory, { bounceBack, agent, deliver }: SayOptions): Promise<Receipt> {
    const { ledger, trace } = this.#parts;
    const receipt = await this.session(story.session, agent).send(story.content, {
      ...(story.key === undefined ? {} : { key: story.key }),
      ...(deliver === undefined ? {} : { deliver }),
      ...(bounceBack === undefined ? {} : { bounceBack }),
    });
    trace(`acknowledged ${story.uid} as ${receipt.id}${receipt.duplicate ? ' again' : ''}`);
    ledger.acknowledged(story.uid, receipt.pendingId, receipt.duplicate);
    this.#listen(this.#hear(receipt));
    return receipt;
  }

  /** Spawns a child with a key. */
  async spawn(
    session: string,
    uid: string,
    options: Omit<SpawnOptions, 'task'> & { readonly from?: string },
  ): Promise<Child> {
    const [child] = await this.spawnAll(session, [uid], options);
    if (child === undefined) throw new Error('no child');
    return child;
  }

  /** Spawns children with their keys, all at once. `from`: the parent's agent. */
  async spawnAll(
    session: string,
    uids: readonly string[],
    { from, ...options }: Omit<SpawnOptions, 'task'> & { readonly from?: string },
  ): Promise<readonly Child[]> {
    const { ledger } = this.#parts;
    const replies = options.replies ?? 'mailbox';
    const stories = uids.map((uid): SpawnStory => {
      const story = ledger.spawns.get(uid) ?? { uid, session, key: `k-${uid}`, replies };
      ledger.spawns.set(uid, story);
      return story;
    });
    const items = uids.map((uid) => ({ ...options, task: `${uid} task`, key: `k-${uid}` }));
    const family = await this.insist(() => this.session(session, from).spawnAll(items));
    family.children.forEach((child, index) => {
      const story = stories[index];
      if (story === undefined) return;
      if (story.child !== undefined && story.child !== child.id)
        ledger.violate('duplicated', `${story.uid} is ${story.child} and ${child.id}`);
      story.child = child.id;
      this.#listen(this.#hearReply(child));
    });
    return family.children;
  }

  /** Deletes a session for good; earlier reports about it need not be true any more. */
  async remove(session: string): Promise<void> {
    const { ledger } = this.#parts;
    ledger.deleted.set(session, false);
    ledger.forget(session);
    await this.insist(() => this.session(session).delete());
    ledger.deleted.set(session, true);
  }

  /** Writes to a session outside the story, so that an operation happens at this very moment. */
  async mark(): Promise<void> {
    this.#marks += 1;
    const aside = this.session(ASIDE);
    await this.insist(() => (this.#marks % 2 === 1 ? aside.pause() : aside.resume()));
  }

  /** Requests an action again after a refusal or the death of a thread. */
  async insist<Value>(act: () => Promise<Value>): Promise<Value> {
    const { world, process, trace } = this.#parts;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await act();
      } catch (error) {
        const mayRepeat = error instanceof TroupeError && error.retryable && error.code !== 'session_busy';
        if (!mayRepeat || attempt > 100) throw error;
        trace(`refused, and asked again: ${error.message}`);
      }
      await this.#lookAround();
      await world.sleep(process, AGAIN_MS);
    }
  }

  /** Checks that reads continue and agree with each other while the store refuses (F06). */
  async #lookAround(): Promise<void> {
    const { runtime, ledger } = this.#parts;
    const isDegraded = (): boolean => runtime.metrics().degraded !== undefined;
    if (!isDegraded()) return;
    try {
      for (const { id, state, mailbox } of await runtime.sessions.list()) {
        const read = await this.session(id).state();
        if (isDegraded() && (read.state !== state || read.mailbox !== mailbox))
          ledger.violate(
            'changed',
            `${id} is listed as ${state}, ${mailbox} wait, and read as ${JSON.stringify(read)}`,
          );
      }
    } catch (error) {
      const isThreadGone = error instanceof TroupeError && error.code === 'internal' && error.retryable;
      if (!isThreadGone) ledger.violate('failed', `a read while the store refuses: ${String(error)}`);
    }
  }

  // ---- waiting ------------------------------------------------------------------------------------------------------

  sleep(ms: number): Promise<void> {
    return this.#parts.world.sleep(this.#parts.process, ms);
  }

  /** Checks repeatedly until the condition is met; after a long time gives up and reports a violation. */
  async until(what: string, isMet: () => boolean | Promise<boolean>): Promise<void> {
    const { world, ledger } = this.#parts;
    const end = world.elapsedMs + PATIENCE_MS;
    while (!(await this.insist(async () => isMet()))) {
      if (world.elapsedMs > end) {
        ledger.violate('stuck', `waited long until ${what}`);
        return;
      }
      await this.sleep(LOOK_MS);
    }
  }

  /** Waits until a tool runs in this life, or its message is settled. */
  async toolRuns(tool: string, receipt: Receipt): Promise<void> {
    await this.until(`${tool} runs`, async () => this.isRunning(tool) || (await this.isSettled(receipt)));
  }

  /** True while a tool runs in this life. */
  isRunning(tool: string): boolean {
    return this.#parts.running.has(tool);
  }

  /** Waits until a session works, or the message is settled. */
  async works(receipt: Receipt): Promise<void> {
    await this.until(`${receipt.session} works`, async () => {
      const { state } = await this.session(receipt.session).state();
      return state !== 'idle' || (await this.isSettled(receipt));
    });
  }

  async isSettled(receipt: Receipt): Promise<boolean> {
    const { status } = await receipt.status();
    return status !== 'accepted' && status !== 'promoted';
  }

  /** Waits until a refused key blocks the message's session, or the message is settled. */
  async blocked(receipt: Receipt): Promise<void> {
    await this.until(`${receipt.session} is blocked`, async () => {
      const { blocked } = await this.session(receipt.session).state();
      return blocked !== undefined || (await this.isSettled(receipt));
    });
  }

  async settled(receipt: Receipt): Promise<void> {
    await this.until(`${receipt.id} is settled`, () => this.isSettled(receipt));
  }

  /** Drains during a write that no caller repeats; `isDone` is true once the drain has resolved. */
  drainBehindAWrite(): { readonly isDone: () => boolean } {
    let isDone = false;
    const isGivenUp = (error: unknown): void => {
      if (!(error instanceof TroupeError && error.retryable)) throw error;
    };
    this.#listen(this.session(ASIDE).pause().catch(isGivenUp));
    this.#listen(
      this.insist(() => this.runtime.drain()).then(() => {
        isDone = true;
      }),
    );
    return { isDone: () => isDone };
  }

  /** Reports a broken promise of the runtime. */
  broken(what: string): void {
    this.#parts.ledger.violate('failed', what);
  }

  // ---- the disk -----------------------------------------------------------------------------------------------------

  /** Sets whether the disk refuses everything from now on. */
  full(isFull: boolean): void {
    this.#parts.setFull(isFull);
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  /** Reads a session's events from the point where the last life stopped, until this life ends. */
  follow(session: string, agent?: string): void {
    if (this.#following.has(session)) return;
    const { ledger } = this.#parts;
    const told = ledger.events.get(session);
    // Overlaps earlier reports, so that repeated events are compared.
    const after = Math.max(0, (told === undefined ? 0 : Math.max(0, ...told.keys())) - 2);
    const place = { last: after };
    this.#following.set(session, place);
    void this.#read(session, agent, after, place);
  }

  async #read(session: string, agent: string | undefined, after: number, place: { last: number }): Promise<void> {
    const { ledger, process } = this.#parts;
    try {
      for await (const event of this.session(session, agent).events({ after })) {
        if (!process.isAlive || ledger.deleted.has(session)) return;
        // `end` checks that the removal of old history explains each gap.
        if (event.type === 'gap') place.last = event.to;
        if (event.seq === undefined) continue;
        const { session: _session, at: _at, seq, ...body } = event;
        if (seq !== place.last + 1) ledger.violate('lost', `event ${seq} of ${session} came behind ${place.last} (I2)`);
        place.last = seq;
        ledger.event(session, seq, digestOf(JSON.stringify(body)));
      }
    } catch (error) {
      if (process.isAlive && !this.#isLeaving) ledger.violate('failed', `a reader of ${session}: ${String(error)}`);
    }
  }

  // ---- endings ------------------------------------------------------------------------------------------------------

  /** Marks the end of this life. Reports that its close or death prevents are no violation. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Waits until nothing runs. */
  async drain(): Promise<void> {
    const { runtime, ledger } = this.#parts;
    const late = this.sleep(PATIENCE_MS).then(() => true);
    const isLate = await Promise.race([this.insist(() => runtime.drain()).then(() => false), late]);
    const sessions = await this.insist(() => runtime.sessions.list());
    if (!isLate && sessions.every(({ state, mailbox }) => state === 'idle' && mailbox === 0)) return;
    ledger.violate('stuck', isLate ? 'the runtime is not drained' : 'a runtime that is drained has work');
    await this.#explainAll();
  }

  async #explainAll(): Promise<void> {
    const { runtime, ledger } = this.#parts;
    for (const { id, state, mailbox } of await runtime.sessions.list()) {
      const { reason, detail } = await runtime.session(id).explain();
      ledger.violate('stuck', `${id} is ${state}, ${mailbox} wait: ${reason}, ${detail}`);
    }
  }

  /** Asks for the outcome of every message, and reads every log and every event. */
  async end(): Promise<StoryEnd> {
    const { runtime, ledger } = this.#parts;
    const answers = new Map<string, string>();
    for (const { uid, session, pendingId, isRefused } of ledger.messages.values()) {
      if (isRefused === true) answers.set(uid, 'refused');
      if (pendingId === undefined) continue;
      const outcome = await this.#hear(
        await this.insist(() => this.session(session).receipt(`${session}/${pendingId}`)),
      );
      answers.set(uid, show(outcome));
    }
    const replies = new Map<string, string>();
    for (const { uid, session, child } of ledger.spawns.values()) {
      if (child === undefined) continue;
      replies.set(uid, show(await this.#hearReply(await this.insist(() => this.session(session).child(child)))));
    }
    const logs = new Map<string, readonly string[]>();
    for (const { id } of await this.insist(() => runtime.sessions.list())) {
      if (id === ASIDE) continue;
      logs.set(id, (await this.insist(() => this.session(id).messages())).map(lineOf));
      await this.#readAll(id);
    }
    await this.until('all who wait for an answer or a reply have it', () => this.#listening.size === 0);
    return { logs, answers, replies };
  }

  /** Reads all events of a session, and waits until its follower has received as many. */
  async #readAll(session: string): Promise<void> {
    const { ledger } = this.#parts;
    const { seq: last, removed } = await this.insist(() => this.session(session).state());
    if (last === 0) return;
    let expected = 1;
    for await (const event of this.session(session).events({ until: last, deltas: false })) {
      if (event.type === 'gap') {
        const isRemoved = event.from === expected && event.to + 1 === removed?.firstEvent;
        if (!isRemoved) ledger.violate('lost', `events ${event.from} to ${event.to} of ${session} are missing (I2)`);
        expected = event.to + 1;
        continue;
      }
      const { session: _session, at: _at, seq = 0, ...body } = event;
      if (seq !== expected) ledger.violate('lost', `event ${seq} of ${session} came in the place of ${expected} (I2)`);
      expected = seq + 1;
      ledger.event(session, seq, digestOf(JSON.stringify(body)));
    }
    const place = this.#following.get(session);
    if (place !== undefined) await this.until(`the reader of ${session} is told ${last}`, () => place.last >= last);
  }

  /** Every caller that waits for an outcome must receive it separately (A2). */
  #listen(told: Promise<unknown>): void {
    this.#listening.add(told);
    void told.finally(() => this.#listening.delete(told));
  }

  async #hear(receipt: Receipt): Promise<Outcome | undefined> {
    const outcome = await this.#outcomeOf(receipt.answer());
    const { ledger, process, trace } = this.#parts;
    if (outcome === undefined || !process.isAlive || ledger.deleted.has(receipt.session)) return outcome;
    trace(`${receipt.id} ended: ${show(outcome)}`);
    ledger.answered(receipt.session, receipt.pendingId, outcome);
    return outcome;
  }

  async #hearReply(child: Child): Promise<Outcome | undefined> {
    const outcome = await this.#outcomeOf(child.reply());
    const { ledger, process } = this.#parts;
    if (outcome === undefined || !process.isAlive || ledger.deleted.has(child.parent.id)) return outcome;
    ledger.replied(child.id, outcome);
    return outcome;
  }

  /** The outcome; undefined if the runtime ended first. */
  async #outcomeOf(words: Promise<string>): Promise<Outcome | undefined> {
    try {
      return { kind: 'text', text: await words };
    } catch (error) {
      if (!this.#parts.process.isAlive || this.#isLeaving) return undefined;
      const { message } = error as Error;
      if (error instanceof CancelledError) {
        const kind = /was (?:recalled|replaced)/.test(message) ? 'dropped' : 'cancelled';
        return { kind, text: '' };
      }
      if (error instanceof TurnFailedError) {
        return { kind: message.startsWith('the message was dropped') ? 'dropped' : 'failed', text: '' };
      }
      this.#parts.ledger.violate('failed', `an answer: ${error instanceof Error ? error.stack : String(error)}`);
      return undefined;
    }
  }
}

function show(outcome: Outcome | undefined): string {
  if (outcome === undefined) return 'nothing';
  return outcome.kind === 'text' ? `text ${outcome.text}` : outcome.kind;
}

const LABELS: Readonly<Record<Message['type'], string>> = {
  user_message: 'user',
  agent_message: 'agent',
  tool_call: 'call',
  tool_response: 'result',
  system_message: 'system',
};

/** A message as the ending of a scenario names it. */
function lineOf({ type, content, toolName, success }: Message): string {
  const label = type === 'tool_response' && success === false ? 'failed' : LABELS[type];
  if (type === 'tool_call') return `${label} ${toolName ?? ''}`;
  // The key of a call depends on its position in the log, which a fault may shift.
  return `${label} ${textOf(content).replaceAll(/ for \S+#\d+@\w+/g, '')}`;
}
