/**
 * The part of the embedder that works on whole conversations. It forks them, switches between their tasks, compresses
 * them, sets goals, decides about calls and continues suspended runs. The replies go to the ledger.
 */
import { defined } from '../../base/defined.ts';
import { InvalidArgumentError } from '../../base/errors.ts';
import type { Runtime } from '../../runtime/handles/runtime.ts';
import type { Session } from '../../runtime/handles/session.ts';
import { digestOf, type Ledger } from './ledger.ts';
import { Persons } from './questions/question-actions.ts';
import type { SeededRandom } from './seeded-random.ts';
import { agentOfSession } from './swarm.ts';
import type { SimulatedProcess, World } from './world.ts';

/** The parts of the embedder that these actions need. */
export interface HistoryActionParts {
  readonly runtime: Runtime;
  readonly ledger: Ledger;
  readonly process: SimulatedProcess;
  readonly world: World;
  readonly random: SeededRandom;
  /** True if calls that wait for approval are denied after a while. */
  readonly callsExpire: boolean;
  readonly trace: (text: string) => void;
  readonly uid: (prefix: string) => string;
  readonly send: (session: string) => Promise<void>;
  /** Runs an action that may fail with one of the expected errors. */
  readonly attempt: (what: string, act: () => Promise<unknown>) => Promise<void>;
}

/** Virtual milliseconds between two rounds of approvals. */
const ATTENDING_MS = 5_000;
/** The most rounds that a session may wait for approval or be suspended. After more rounds it counts as stuck. */
const ATTENDING_ROUNDS = 60;
/**
 * The same bound for runs in which the approvers stay away and the calls expire. Calls expire by wall time, which may
 * have been set back by an hour.
 */
const ABSENT_ROUNDS = 850;

/** See the file header. */
export class HistoryActions {
  readonly #parts: HistoryActionParts;
  readonly #persons: Persons;

  constructor(parts: HistoryActionParts) {
    this.#parts = parts;
    this.#persons = new Persons(parts);
  }

  /** Takes one action on a session, or on one of its forks. */
  act(named: string): Promise<void> {
    const { random, ledger } = this.#parts;
    const forks = [...ledger.forks.keys()].filter((id) => !ledger.isDeleted(id));
    const session = forks.length > 0 && random.chance(0.3) ? random.pick(forks) : named;
    const chance = random.number();
    if (chance < 0.25) return this.fork(session);
    if (chance < 0.6) return this.#move(session);
    if (chance < 0.75) return this.#compress(session);
    if (chance < 0.9) return this.#goal(session);
    return this.#parts.send(session);
  }

  /**
   * Resumes the session, or decides about its waiting calls or the waiting calls of a child. Resuming continues a
   * suspended run.
   */
  decide(session: string): Promise<void> {
    const { random } = this.#parts;
    return this.#parts.attempt('decide', async () => {
      const handle = this.#handle(session);
      if (random.chance(0.4)) return handle.resume();
      const { children } = await handle.state();
      const child = random.chance(0.4) ? random.pick([undefined, ...children])?.id : undefined;
      return this.#approve(child === undefined ? handle : this.#parts.runtime.session(child), 0.7);
    });
  }

  /**
   * Acts as the approvers until no call and no suspended run waits for them. They allow or deny waiting calls, and
   * resume suspended runs. If calls expire by themselves, the approvers may stop deciding calls once `isOver` returns
   * true.
   */
  async attend(isOver: () => boolean): Promise<void> {
    const { runtime, ledger, world, process, random, callsExpire } = this.#parts;
    const isAbsent = callsExpire && random.chance(0.5);
    let rounds = 0;
    while (process.isAlive) {
      let waiting = 0;
      for (const { id, agent, state } of await runtime.sessions.list({ order: 'id', limit: 10_000 })) {
        if (agent !== 'careful' && agent !== 'guard') continue;
        // The sub-agents of the agent `guard` ask questions. A person replies if the parent does not.
        if (agent === 'guard' && state !== 'executing') continue;
        if (state !== 'idle') waiting += 1;
        await this.#parts.attempt('attend', async () => {
          const handle = runtime.session(id);
          const { reason } = await handle.explain();
          if (state === 'executing' && !(isAbsent && isOver())) await this.#approve(handle, 0.8);
          if (reason !== 'suspended' && reason !== 'paused') return;
          waiting += 1;
          // `resume` is refused while too many sessions run, so the next round tries it again.
          await handle.resume();
        });
      }
      if (isOver() && waiting === 0) return;
      if (isOver()) rounds += 1;
      if (rounds > (isAbsent ? ABSENT_ROUNDS : ATTENDING_ROUNDS))
        return ledger.violate('stuck', `${waiting} sessions still wait for a person who has decided`);
      await world.sleep(process, ATTENDING_MS);
    }
  }

  /**
   * Stores the current history of every session in the ledger. The fold of the session's log must equal that history.
   */
  async noteHistories(): Promise<void> {
    const { runtime, ledger } = this.#parts;
    for (const { id } of await runtime.sessions.list({ order: 'id', limit: 10_000 }))
      ledger.histories.set(id, digestOf(JSON.stringify(await runtime.session(id).history.toArray())));
  }

  #handle(session: string): Session {
    return this.#parts.runtime.session(session, agentOfSession(session));
  }

  async #approve(handle: Session, share: number): Promise<void> {
    const { random, trace } = this.#parts;
    // All messages are examined, not only the last assistant message: an edit may have added another one after it.
    const messages = await handle.messages();
    const answered = new Set(messages.flatMap(({ type, toolUseId }) => (type === 'tool_response' ? [toolUseId] : [])));
    for (const message of messages) {
      const { type, toolUseId: callId } = message;
      if (type !== 'tool_call' || callId === undefined || answered.has(callId)) continue;
      if (await this.#persons.reply(handle, message)) continue;
      const allow = random.chance(share);
      const input = allow && random.chance(0.2) ? { input: { n: 7 } } : {};
      const held = await handle.approve(callId, { allow, ...input, ...(allow ? { by: 'a person' } : {}) });
      if (held) trace(`${allow ? 'allowed' : 'denied'} ${callId} of ${handle.id}`);
    }
  }

  /** Makes a fork. If the parent did not change meanwhile, the fork must begin with the parent's history. */
  fork(session: string): Promise<void> {
    const { random, uid, ledger, process, trace, send } = this.#parts;
    return this.#parts.attempt('fork', async () => {
      const parent = this.#handle(session);
      const { seq: first } = await parent.state();
      const before = JSON.stringify(await parent.history.toArray());
      const at = random.chance(0.3) ? random.pick([...(await parent.messages()), undefined])?.seq : undefined;
      const id = random.chance(0.3) ? `${rootOf(session)}-${uid('f')}` : undefined;
      const fork = await orMissing(parent.fork(defined({ at, id })));
      if (fork === undefined) return;
      const begins = JSON.stringify(await fork.history.toArray());
      const after = JSON.stringify(await parent.history.toArray());
      // A message may have been added and removed in between, so an equal history is not enough: the event numbers must
      // be equal too. The fork itself publishes no event in its parent.
      const { seq: last } = await parent.state();
      if (!process.isAlive || ledger.isDeleted(session)) return;
      trace(`forked ${session} as ${fork.id}`);
      if (at === undefined && first === last && before === after && begins !== before)
        ledger.violate('changed', `${fork.id} does not begin as ${session} was: ${begins}, not ${before}`);
      ledger.forks.set(fork.id, { parent: session, digest: digestOf(begins) });
      if (random.chance(0.7)) await send(fork.id);
    });
  }

  #move(session: string): Promise<void> {
    const { random, ledger, process, trace } = this.#parts;
    return this.#parts.attempt('move', async () => {
      const { history } = this.#handle(session);
      const chance = random.number();
      if (chance < 0.2) {
        const task = await history.startTask(random.chance(0.5) ? 'a task' : undefined);
        if (!process.isAlive || ledger.isDeleted(session)) return;
        trace(`started task ${task} in ${session}`);
        if (task <= (ledger.tasks.get(session) ?? 0))
          ledger.violate('duplicated', `task ${task} of ${session} was begun before`);
        ledger.tasks.set(session, Math.max(task, ledger.tasks.get(session) ?? 0));
        return;
      }
      const current = await history.currentTaskId();
      const to = chance < 0.6 ? undefined : random.between(0, current + 1);
      const { success } = to === undefined ? await history.undo() : await history.switchTo(to);
      trace(`${to === undefined ? 'undo' : `switch to ${to}`} in ${session}: ${success}`);
      if (to === 0 && success) ledger.violate('failed', `${session} was switched to its root`);
    });
  }

  #compress(session: string): Promise<void> {
    const { random, trace } = this.#parts;
    return this.#parts.attempt('compress', async () => {
      const { compressed } = await this.#handle(session).history.compress({ force: random.chance(0.8) });
      trace(`compressed ${session}: ${compressed}`);
    });
  }

  #goal(session: string): Promise<void> {
    const { random, uid, world, process } = this.#parts;
    return this.#parts.attempt('goal', async () => {
      const { goals } = this.#handle(session);
      const { id } = await goals.create({ description: `reach ${uid('goal')}` });
      await world.sleep(process, random.between(0, 10_000));
      const isThere = (await goals.list()).some((goal) => goal.id === id && goal.status === 'active');
      if (isThere && random.chance(0.6)) await goals.complete(id);
    });
  }
}

/**
 * The result of an operation; undefined if the named message is no longer in the conversation: undone, archived or
 * evicted.
 */
export async function orMissing<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof InvalidArgumentError && error.code === 'message_not_found') return undefined;
    throw error;
  }
}

function rootOf(session: string): string {
  return session.split(/[:-]/)[0] ?? session;
}
