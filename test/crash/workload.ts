/**
 * The victim: opens a store, sends, spawns, interrupts and watches until it is killed, and tells every acknowledgement the
 * moment it has it. It reads its plan as one line, so that it can be started, and load its modules, before it is needed.
 */
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { CancelledError, TroupeError, TurnFailedError } from '../../src/base/errors.ts';
import { agent } from '../../src/runtime/agent.ts';
import type { Child } from '../../src/runtime/child.ts';
import { open } from '../../src/runtime/open.ts';
import type { Receipt } from '../../src/runtime/receipt.ts';
import type { Runtime } from '../../src/runtime/runtime.ts';
import provider from './fixtures/model.ts';
import * as tools from './fixtures/tools.ts';
import {
  contentOf,
  type Delivery,
  digestOf,
  type Line,
  type Outcome,
  type Plan,
  randomFrom,
  type SentMessage,
  type SpawnWish,
} from './protocol.ts';

const CONVERSATIONS = 6;
/** Answers one conversation waits for at once, at most. */
const OUTSTANDING_MAX = 3;
const DELIVERIES: readonly (Delivery | undefined)[] = [
  ...[undefined, undefined, undefined, undefined, undefined, 'steer', 'steer'],
  ...(['turn', 'merge', 'merge', 'latest', 'reject', 'interrupt'] as const),
] as const;
/** Refusals that are part of the bargain. */
const EXPECTED_CODES: ReadonlySet<string> = new Set(['session_busy', 'mailbox_full', 'cancelled']);

/** Written before it returns, as pipes are on POSIX: what was told is told whatever happens next. */
function say(line: Line): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** An action that was acknowledged. `answered` resolves when what follows from it was told. */
interface Step {
  readonly answered: Promise<void>;
}

class Victim {
  readonly #plan: Plan;
  readonly #random: () => number;
  #sent = 0;
  #isClosing = false;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#random = randomFrom(plan.seed);
  }

  async run(): Promise<void> {
    const plan = this.#plan;
    say({ type: 'opening' });
    const runtime = await this.#open();
    say({ type: 'opened' });
    // Answered behind the flush of what the recovery wrote.
    await runtime.sessions.get('long-0');
    say({ type: 'recovered' });
    for (const { session, after } of plan.watch) void this.#watch(runtime, session, after);
    const repeats = this.#repeat(runtime);
    if (plan.mode === 'finish') {
      await repeats;
      await this.#finish(runtime);
      return;
    }
    for (let index = 0; index < CONVERSATIONS; index += 1) void this.#converse(runtime);
    await wait(plan.closeAfterMs ?? 600_000);
    await this.#close(runtime);
  }

  #open(): Promise<Runtime> {
    const { directory, isInline, threads } = this.#plan;
    const shared = {
      tools: isInline ? Object.values(tools) : [new URL('./fixtures/tools.ts', import.meta.url)],
      subagents: { spawn: true, maxActive: 4 },
    };
    return open(directory, {
      threads: { ...threads, tools: 1 },
      provider: isInline ? provider : new URL('./fixtures/model.ts', import.meta.url),
      limits: { depth: 2 },
      agents: [
        agent({ name: 'wide', system: 'Answer.', ...shared }),
        // A window so small that messages leave it, and epochs open, all the time.
        agent({ name: 'narrow', system: 'Answer shortly.', tokenBudget: 600, ...shared }),
      ],
    });
  }

  /** What an earlier life was not told, or was told and may ask again. */
  async #repeat(runtime: Runtime): Promise<void> {
    const { resend, respawn, ask } = this.#plan;
    const asked = ask.map(async ({ session, pendingId }) => {
      try {
        const receipt = await runtime.session(session).receipt(`${session}/${pendingId}`);
        await this.#tellAnswer(receipt);
      } catch (error) {
        this.#trouble('ask', error);
      }
    });
    await Promise.all([
      ...asked,
      ...resend.map((message) => this.#send(runtime, message)),
      ...respawn.map((wish) => this.#spawn(runtime, wish)),
    ]);
  }

  async #converse(runtime: Runtime): Promise<void> {
    const outstanding = new Set<Promise<unknown>>();
    while (!this.#isClosing) {
      const step = await this.#step(runtime);
      if (step === undefined) continue;
      const answered = step.answered.finally(() => outstanding.delete(answered));
      outstanding.add(answered);
      if (outstanding.size >= OUTSTANDING_MAX || this.#random() < 0.4) await Promise.race(outstanding);
    }
  }

  /** One action; resolves when it is acknowledged. */
  async #step(runtime: Runtime): Promise<Step | undefined> {
    const session = this.#pickSession();
    const chance = this.#random();
    this.#sent += 1;
    const number = `${this.#plan.life}-${this.#sent}`;
    const hasKey = this.#random() < 0.6;
    if (chance < 0.04) {
      await this.#interrupt(runtime, session);
      return undefined;
    }
    if (chance < 0.16) {
      const replies = this.#random() < 0.8 ? 'mailbox' : 'handle';
      const wish: SpawnWish = { uid: `t${number}`, session, replies, ...(hasKey ? { key: `k-t${number}` } : {}) };
      return this.#spawn(runtime, wish);
    }
    const deliver = DELIVERIES[Math.floor(this.#random() * DELIVERIES.length)];
    const message: SentMessage = {
      uid: `m${number}`,
      session,
      ...(hasKey ? { key: `k-m${number}` } : {}),
      ...(deliver === undefined ? {} : { deliver }),
    };
    return this.#send(runtime, message);
  }

  /** Some sessions live through all lives, some come back, some are new. */
  #pickSession(): string {
    const chance = this.#random();
    if (chance < 0.3) return `long-${Math.floor(this.#random() * 4)}`;
    if (chance < 0.7) return `pool-${Math.floor(this.#random() * 60)}`;
    return `new-${this.#plan.life}-${Math.floor(this.#random() * 4)}`;
  }

  async #send(runtime: Runtime, message: SentMessage): Promise<Step | undefined> {
    const { uid, session, key, deliver } = message;
    say({ type: 'intent', message });
    try {
      const receipt = await runtime.session(session, agentOf(session)).send(contentOf(uid), {
        ...(key === undefined ? {} : { key }),
        ...(deliver === undefined ? {} : { deliver }),
      });
      say({ type: 'acknowledged', uid, pendingId: receipt.pendingId, duplicate: receipt.duplicate });
      return { answered: this.#tellAnswer(receipt) };
    } catch (error) {
      if (error instanceof TroupeError && error.code === 'session_busy')
        say({ type: 'refused', uid, code: error.code });
      this.#trouble('send', error);
      return undefined;
    }
  }

  async #tellAnswer(receipt: Receipt): Promise<void> {
    const { session, pendingId } = receipt;
    const outcome = await this.#outcomeOf(receipt.answer());
    if (outcome !== undefined) say({ type: 'answer', session, pendingId, outcome });
  }

  async #spawn(runtime: Runtime, wish: SpawnWish): Promise<Step | undefined> {
    const { uid, session, key, replies } = wish;
    say({ type: 'spawning', wish });
    try {
      const child = await runtime
        .session(session, agentOf(session))
        .spawn({ task: contentOf(uid), replies }, key === undefined ? {} : { key });
      say({ type: 'spawned', uid, child: child.id });
      return { answered: this.#tellReply(child) };
    } catch (error) {
      this.#trouble('spawn', error);
      return undefined;
    }
  }

  async #tellReply(child: Child): Promise<void> {
    const outcome = await this.#outcomeOf(child.reply());
    if (outcome !== undefined) say({ type: 'reply', child: child.id, outcome });
  }

  async #interrupt(runtime: Runtime, session: string): Promise<void> {
    try {
      if (await runtime.session(session).interrupt('chance')) say({ type: 'interrupted', session });
    } catch (error) {
      this.#trouble('interrupt', error);
    }
  }

  async #watch(runtime: Runtime, session: string, after: number): Promise<void> {
    try {
      for await (const event of runtime.session(session, agentOf(session)).events({ after, deltas: false })) {
        if (event.type === 'gap') this.#trouble('watch', new Error(`gap ${event.from} to ${event.to}`));
        if (event.seq === undefined) continue;
        const { session: _session, at: _at, seq, ...body } = event;
        say({ type: 'event', session, seq, digest: digestOf(JSON.stringify(body)) });
      }
    } catch (error) {
      this.#trouble('watch', error);
    }
  }

  /** How it ended; undefined when it did not, because the runtime was closed. */
  async #outcomeOf(words: Promise<string>): Promise<Outcome | undefined> {
    try {
      return { kind: 'text', text: await words };
    } catch (error) {
      if (this.#isClosing) return undefined;
      const { message } = error as Error;
      if (error instanceof CancelledError)
        return { kind: /was (?:recalled|replaced)/.test(message) ? 'dropped' : 'cancelled', text: '' };
      if (error instanceof TurnFailedError) return { kind: 'failed', text: message };
      this.#trouble('answer', error);
      return undefined;
    }
  }

  async #finish(runtime: Runtime): Promise<void> {
    await Promise.race([runtime.drain(), wait(60_000)]);
    say({ type: 'drained' });
    for (let after: string | undefined; ; ) {
      const page = await runtime.sessions.list({ limit: 500, ...(after === undefined ? {} : { after }) });
      for (const { id, state, mailbox } of page) {
        const why = state === 'idle' && mailbox === 0 ? '' : JSON.stringify(await runtime.session(id).explain());
        say({ type: 'state', session: id, state, why });
      }
      after = page.at(-1)?.id;
      if (after === undefined) break;
    }
    await this.#close(runtime);
  }

  async #close(runtime: Runtime): Promise<void> {
    this.#isClosing = true;
    say({ type: 'closing' });
    await runtime.close();
    say({ type: 'closed' });
  }

  #trouble(what: string, error: unknown): void {
    if (this.#isClosing || (error instanceof TroupeError && EXPECTED_CODES.has(error.code))) return;
    say({ type: 'trouble', what: `${what}: ${error instanceof Error ? error.stack : String(error)}` });
  }
}

/** Half of the sessions have the small window. */
function agentOf(session: string): string {
  return /[13579]$/.test(session) ? 'narrow' : 'wide';
}

say({ type: 'ready' });
for await (const line of createInterface({ input: process.stdin })) {
  const plan = JSON.parse(line) as Plan;
  await new Victim(plan).run();
  process.exit(0);
}
