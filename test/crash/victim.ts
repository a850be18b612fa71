/**
 * The work of a victim: conversations that send, spawn, steer, interrupt, recall, pause and delete. The process ends
 * from outside, or closes when its plan says so.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { compact } from '../../src/journal/store/compaction.ts';
import { open } from '../../src/runtime/handles/open.ts';
import type { Runtime } from '../../src/runtime/handles/runtime.ts';
import { agent } from '../../src/runtime/protocol/agent.ts';
import { Actions, type Step, say } from './actions.ts';
import provider from './fixtures/model.ts';
import * as tools from './fixtures/tools.ts';
import {
  type Delivery,
  EDITED,
  MELETE,
  MNEME,
  MORTAL,
  type Plan,
  randomFrom,
  type SentMessage,
  type SpawnWish,
} from './protocol.ts';

const CONVERSATIONS = 6;
/** Most answers that one conversation waits for at once. */
const OUTSTANDING_MAX = 3;
/** Messages of a flood that wait for their acknowledgement at once. */
const FLOOD_BATCH = 50;
/** Bytes of an image of a session that is deleted, and of one of the ballast. */
const MEDIUM_BYTES = 20_000;
const BALLAST_BYTES = 1_000_000;
const FINISH_MS_MAX = 60_000;
const LIFE_MS = 600_000;
/** Sessions that exist through all lives, on every session thread. */
const LONG: readonly string[] = ['long-0', 'long-1', 'long-2', 'long-3'];
const DELIVERIES: readonly (Delivery | undefined)[] = [
  ...[undefined, undefined, undefined, undefined, undefined, 'steer', 'steer'],
  ...(['turn', 'merge', 'merge', 'latest', 'reject', 'interrupt'] as const),
] as const;

/** See the head of the file. */
export class Victim {
  readonly #plan: Plan;
  readonly #random: () => number;
  #opening: Promise<Runtime> | undefined;
  #actions: Actions | undefined;
  #closing: Promise<void> | undefined;
  #sent = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#random = randomFrom(plan.seed);
  }

  async run(): Promise<void> {
    const plan = this.#plan;
    if (plan.mode === 'compact') return this.#compact();
    say({ type: 'opening' });
    this.#opening = this.#open();
    const runtime = await this.#opening;
    const actions = new Actions(runtime);
    this.#actions = actions;
    say({ type: 'opened' });
    // This query is answered after the flush of the recovery's records.
    await Promise.all(LONG.map((session) => runtime.sessions.get(session))).catch(() => undefined);
    if (this.#closing !== undefined) return this.#closing;
    say({ type: 'recovered' });
    for (const { session, after } of plan.watch) void actions.watch(session, after);
    const repeated = this.#repeat(actions);
    if (plan.mode === 'finish') {
      await repeated;
      await this.#finish(runtime, actions);
      return;
    }
    for (let index = 0; index < CONVERSATIONS; index += 1) void this.#converse(actions);
    void this.#pauseAndGoOn(actions);
    void this.#makeAndDelete(actions);
    void this.#workOnHistories(actions);
    void this.#flood(actions);
    void this.#makeBallast(actions);
    await wait(plan.closeAfterMs ?? LIFE_MS);
    await this.close();
  }

  async #compact(): Promise<void> {
    say({ type: 'compacting' });
    await compact(this.#plan.directory);
    say({ type: 'compacted' });
    say({ type: 'closed' });
  }

  /** Closes the runtime, once; also while it is being opened. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#actions?.close();
    say({ type: 'closing' });
    const runtime = await this.#opening;
    this.#actions?.close();
    await runtime?.close();
    say({ type: 'closed' });
  }

  #open(): Promise<Runtime> {
    const { directory, durability, isInline, isEnriched, threads, timeouts, retentionMs } = this.#plan;
    const shared = {
      tools: isInline ? Object.values(tools) : [new URL(`./fixtures/tools${ENDING}`, import.meta.url)],
      subagents: { spawn: true, maxActive: 4 },
    };
    return open(directory, {
      threads: { ...threads, tools: 1 },
      durability,
      provider: isInline ? provider : new URL(`./fixtures/model${ENDING}`, import.meta.url),
      limits: { depth: 2 },
      ...(retentionMs === undefined ? {} : { retention: { archivedHistoryMs: retentionMs } }),
      ...(timeouts === undefined
        ? {}
        : { settings: { timeouts: { tool: timeouts.toolMs / 1_000, api: timeouts.modelMs / 1_000 } } }),
      agents: [
        agent({ name: 'wide', system: 'Answer.', ...shared }),
        // The window is so small that messages leave it, and epochs open, all the time.
        agent({
          name: 'brief',
          system: 'Sum up.',
          ...shared,
          compression: { enabled: !isEnriched, messages: 30, keepRecent: 4, idleMinTokens: 0, idleMinMessages: 8 },
        }),
        agent({ name: 'narrow', system: 'Answer shortly.', tokenBudget: isEnriched ? 300 : 600, ...shared }),
      ],
      ...(isEnriched ? { enrichers: { melete: { model: MELETE }, mneme: { model: MNEME } } } : {}),
    });
  }

  get #isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Repeats requests whose outcome an earlier life never received, and some whose outcome it did receive. */
  async #repeat(actions: Actions): Promise<void> {
    const { resend, respawn, ask, remove } = this.#plan;
    await Promise.all([
      ...ask.map(({ session, pendingId }) => actions.ask(session, pendingId)),
      ...resend.map((message) => actions.send(message)),
      ...respawn.map((wish) => actions.spawn(wish)),
      ...remove.map((session) => actions.delete(session)),
    ]);
  }

  async #converse(actions: Actions): Promise<void> {
    const outstanding = new Set<Promise<unknown>>();
    while (!this.#isClosing) {
      const step = await this.#step(actions);
      if (step === undefined) continue;
      const answered = step.answered.finally(() => outstanding.delete(answered));
      outstanding.add(answered);
      if (outstanding.size >= OUTSTANDING_MAX || this.#random() < 0.4) await Promise.race(outstanding);
    }
  }

  /** One action; resolves when it is acknowledged. */
  async #step(actions: Actions): Promise<Step | undefined> {
    const session = this.#pickSession();
    const chance = this.#random();
    const hasKey = this.#random() < 0.6;
    if (chance < 0.04) {
      await actions.interrupt(session);
      return undefined;
    }
    if (chance < 0.16) return actions.spawn(this.#wish(session, hasKey));
    const deliver = DELIVERIES[Math.floor(this.#random() * DELIVERIES.length)];
    const step = await actions.send(this.#message(session, { hasKey, ...(deliver === undefined ? {} : { deliver }) }));
    if (step?.pendingId !== undefined && chance > 0.95) await actions.recall(session, step.pendingId);
    return step;
  }

  /**
   * A separate session: messages wait while it is paused, some are recalled, the others are answered after it resumes.
   */
  async #pauseAndGoOn(actions: Actions): Promise<void> {
    const session = `hold-${Math.floor(this.#random() * 2)}`;
    while (!this.#isClosing) {
      await actions.pause(session);
      const first = await actions.send(this.#message(session, { hasKey: true }));
      const second = await actions.send(this.#message(session, { hasKey: false }));
      if (second?.pendingId !== undefined && this.#random() < 0.5) await actions.recall(session, second.pendingId);
      await wait(this.#random() * 40);
      if (this.#isClosing) return;
      await actions.resume(session);
      await Promise.all([first?.answered, second?.answered]);
    }
  }

  /** Sessions that are deleted at work with their children, or lose one of their children alone. */
  async #makeAndDelete(actions: Actions): Promise<void> {
    // Other deletions would hide the end of the erasure of the ballast.
    if (this.#plan.ballast > 0) return;
    for (let number = 1; !this.#isClosing; number += 1) {
      const session = `${MORTAL}${this.#plan.life}-${number}x`;
      const mediaBytes = this.#random() < 0.5 ? MEDIUM_BYTES : undefined;
      await actions.send(
        this.#message(session, { hasKey: false, ...(mediaBytes === undefined ? {} : { mediaBytes }) }),
      );
      const step = await actions.spawn(this.#wish(session, false));
      const fork = this.#random() < 0.4 ? await actions.fork(session, `${session}-fork`) : undefined;
      if (fork !== undefined) await actions.send(this.#message(fork, { hasKey: false }));
      if (this.#random() < 0.1) await actions.search('answer');
      await wait(this.#random() * 30);
      if (this.#isClosing) return;
      if (step?.child !== undefined && this.#random() < 0.5) await actions.delete(step.child);
      else if (this.#random() < 0.8) await actions.delete(session);
      if (fork !== undefined && this.#random() < 0.5) await actions.delete(fork);
    }
  }

  /** Sessions with large images, all made before all are deleted, so that the files get many free pages. */
  async #makeBallast(actions: Actions): Promise<void> {
    const sessions = Array.from({ length: this.#plan.ballast }, (_, index) => `${MORTAL}${this.#plan.life}-9${index}x`);
    if (sessions.length === 0) return;
    for (const session of sessions) {
      if (this.#isClosing) return;
      await actions.send(this.#message(session, { hasKey: false, mediaBytes: BALLAST_BYTES }));
    }
    const { erasing } = actions;
    for (const session of sessions) await actions.delete(session);
    await actions.untilErased(erasing);
    if (!this.#isClosing) say({ type: 'erased' });
  }

  /** Sessions whose histories are edited, forked, undone and compressed while they answer. */
  async #workOnHistories(actions: Actions): Promise<void> {
    const fresh = `${EDITED}${this.#plan.life}-0`;
    // Only an existing session can be forked. All are created at once, because creating them one by one would outlast
    // most lives.
    await Promise.all([
      actions.seed(fresh, [this.#noteUid(), this.#noteUid(), this.#noteUid()]),
      actions.note(`${EDITED}0`, this.#noteUid(), 0),
      actions.note(`${EDITED}1`, this.#noteUid(), 0),
    ]);
    for (const session of [`${EDITED}0`, `${EDITED}1`, fresh]) void this.#workOn(session, actions);
  }

  /** Only this function edits these histories, so its reports describe them completely. */
  async #workOn(first: string, actions: Actions): Promise<void> {
    const sessions = [first];
    while (!this.#isClosing) {
      const session = sessions[Math.floor(this.#random() * sessions.length)] ?? first;
      const chance = this.#random();
      if (chance < 0.3) await actions.note(session, this.#noteUid(), Math.floor(this.#random() * 3));
      else if (chance < 0.55) {
        const fork = await actions.fork(session);
        if (fork !== undefined && sessions.length < 8) sessions.push(fork);
      } else if (chance < 0.7) {
        const how = (['start', 'undo', 'switch', 'compress'] as const)[Math.floor(this.#random() * 4)];
        // A session has either compression or Mneme.
        if (how !== undefined && !(how === 'compress' && this.#plan.isEnriched)) await actions.move(session, how);
      } else {
        const step = await actions.send(this.#message(session, { hasKey: true }));
        if (this.#random() < 0.5) await step?.answered;
      }
    }
  }

  #noteUid(): string {
    return `n${this.#nextNumber()}`;
  }

  async #flood(actions: Actions): Promise<void> {
    for (let number = 0; number < this.#plan.flood && !this.#isClosing; number += FLOOD_BATCH) {
      const batch = Array.from({ length: FLOOD_BATCH }, (_, index) =>
        actions.send(this.#message(`many-${number + index}`, { hasKey: true })),
      );
      await Promise.all(batch);
    }
  }

  /** Some sessions live through all lives, some come back, some are new. */
  #pickSession(): string {
    const chance = this.#random();
    if (chance < 0.3) return LONG[Math.floor(this.#random() * LONG.length)] ?? '';
    if (chance < 0.7) return `pool-${Math.floor(this.#random() * 60)}`;
    return `new-${this.#plan.life}-${Math.floor(this.#random() * 4)}`;
  }

  #message(
    session: string,
    { hasKey, ...more }: { readonly hasKey: boolean; readonly deliver?: Delivery; readonly mediaBytes?: number },
  ): SentMessage {
    const uid = `m${this.#nextNumber()}`;
    return { uid, session, ...(hasKey ? { key: `k-${uid}` } : {}), ...more };
  }

  #wish(session: string, hasKey: boolean): SpawnWish {
    const uid = `t${this.#nextNumber()}`;
    const replies = this.#random() < 0.8 ? 'mailbox' : 'handle';
    return { uid, session, replies, ...(hasKey ? { key: `k-${uid}` } : {}) };
  }

  #nextNumber(): string {
    this.#sent += 1;
    return `${this.#plan.life}-${this.#sent}`;
  }

  async #finish(runtime: Runtime, actions: Actions): Promise<void> {
    await Promise.all(this.#plan.resume.map((session) => actions.resume(session)));
    await Promise.race([runtime.drain(), wait(FINISH_MS_MAX)]);
    await Promise.race([actions.untilErased(0), wait(FINISH_MS_MAX)]);
    say({ type: 'drained' });
    await actions.tellStates();
    await this.close();
  }
}

/** The extension of this file as it runs; the fixtures beside it have the same extension. */
const ENDING = import.meta.url.slice(-3);
