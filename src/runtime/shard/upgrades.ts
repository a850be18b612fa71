/**
 * Moves of sessions to the current version of their agent, by the agent's `upgrade` function on the host thread.
 *
 * Owns: which moves wait or run, and which failed. Does not own: when a session moves and what its edits do
 * (`src/session/decide/versions/upgrade.ts`).
 * Invariants:
 *  P1 a session whose move waits, runs or has failed begins no turn and does not wait for admission (`holds`). The
 *     transition that applies the move may begin the session's next turn;
 *  P2 at most `UPGRADES_RUNNING_MAX` functions run at a time; the other moves wait in order;
 *  P3 nothing of a move is durable before the transition that applies it, so a crash or a failure changes nothing. A
 *     failed move is tried again after `resume()`, and at the next open.
 */
import type { SessionAgent } from '../../../actors/agent-catalog.ts';
import type { SessionActor } from '../../../actors/session-actor.ts';
import { UPGRADES_FAILED_MAX, UPGRADES_RUNNING_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { asError, type ErrorShape, errorShape } from '../../base/errors.ts';
import { isDue, upgradeError } from '../../session/decide/versions/upgrade.ts';
import { historyMessages } from '../../session/history/history-form.ts';
import type { Effect, Input } from '../../session/state/inputs.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { UpgradeStep } from '../../session/state/version.ts';
import type { ShardParts } from './shard-parts.ts';

/** The shard functions that moves use. */
export interface UpgradePlace {
  submit(sessionId: string, inputs: readonly Input[]): void;
  find(sessionId: string): SessionActor | undefined;
  agentOf(actor: SessionActor): SessionAgent | undefined;
  isClosing(): boolean;
}

/** A move that waits or runs. */
interface Move {
  readonly session: string;
  readonly step: UpgradeStep;
}

/** See the head of the file. */
export class Upgrades {
  readonly #host: ShardParts['host'];
  readonly #place: UpgradePlace;
  /** The moves that wait or run, by session. */
  readonly #moves = new Map<string, Move>();
  /** The moves that wait, in the order in which they were decided. */
  readonly #waiting = new Set<Move>();
  #running = 0;
  /** The errors of failed moves, oldest first. Beyond the bound the oldest is forgotten, and its move may run again. */
  readonly #failed = new Map<string, ErrorShape>();

  constructor(host: ShardParts['host'], place: UpgradePlace) {
    this.#host = host;
    this.#place = place;
  }

  /** The number of moves that wait or run. A shard with such moves is not drained. */
  get size(): number {
    return this.#moves.size;
  }

  /** True if the session's move waits, runs or has failed (P1). */
  holds(session: string): boolean {
    return this.#moves.has(session) || this.#failed.has(session);
  }

  /** True if the session's move waits or runs. */
  isMoving(session: string): boolean {
    return this.#moves.has(session);
  }

  /** The error of the session's last move; undefined if it did not fail. */
  errorOf(session: string): ErrorShape | undefined {
    return this.#failed.get(session);
  }

  /** Notes a move with the transition that decides it, so that the session is held from then on. */
  note(session: string, { type: _type, ...step }: Extract<Effect, { type: 'upgrade' }>): void {
    if (this.#moves.has(session)) return;
    const move: Move = { session, step };
    this.#moves.set(session, move);
    this.#waiting.add(move);
  }

  /** Starts the moves that may run. Called after the flush of a transition that decided a move. */
  startWaiting(): void {
    // Starting a move reads its session, and this read may start other moves. So each move leaves the queue first.
    for (const move of this.#waiting) {
      if (this.#running >= UPGRADES_RUNNING_MAX || this.#place.isClosing()) return;
      this.#waiting.delete(move);
      this.#start(move);
    }
  }

  /** Notes and logs a failed move: the function failed, or its edits cannot be applied. */
  failed({ id, state }: SessionActor, error: ErrorShape): void {
    if (this.#failed.size >= UPGRADES_FAILED_MAX) {
      const oldest = this.#failed.keys().next();
      if (oldest.done !== true) this.#failed.delete(oldest.value);
    }
    this.#failed.set(id, error);
    const { agent } = state;
    this.#host.log({ level: 'warn', message: error.message, session: id, error, ...defined({ agent }) });
  }

  /** Lets the failed move of a session be tried again. True if there was one. */
  retry(session: string): boolean {
    if (!this.#failed.delete(session)) return false;
    this.#place.submit(session, [{ type: 'wake' }]);
    return true;
  }

  /** Lets all failed moves be tried again. */
  retryAll(): void {
    for (const session of [...this.#failed.keys()]) this.retry(session);
  }

  /** Called when the actor was dropped or its session deleted: the outcome of a running function is ignored. */
  forget(session: string): void {
    const move = this.#moves.get(session);
    if (move !== undefined) this.#waiting.delete(move);
    this.#moves.delete(session);
    this.#failed.delete(session);
  }

  #start(move: Move): void {
    const { session, step } = move;
    const actor = this.#place.find(session);
    const agent = actor === undefined ? undefined : this.#place.agentOf(actor);
    if (actor === undefined || agent === undefined || !isDue(actor.state, step, { agent: agent.facts })) {
      // The session changed since the move was decided. If it still has to move, the `wake` input decides a new move.
      this.#moves.delete(session);
      this.#place.submit(session, [{ type: 'wake' }]);
      return;
    }
    this.#running += 1;
    void this.#run(move, actor.state, agent.key);
  }

  async #run(move: Move, state: SessionState, key: string): Promise<void> {
    const { session, step } = move;
    const { from, to } = step;
    const { parent } = state;
    const question = { agent: key, session, ...defined({ from, parent }), messages: historyMessages(state) };
    const outcome = await this.#host.upgrade(question).then(
      (edits): Input => ({ type: 'upgraded', ...step, edits }),
      (error: unknown) => asError(error),
    );
    this.#running -= 1;
    // Another move of the session may have been noted after this one was forgotten.
    if (this.#moves.get(session) === move) {
      this.#moves.delete(session);
      this.#ended(session, to, outcome);
    }
    this.startWaiting();
  }

  #ended(session: string, to: string, outcome: Input | Error): void {
    if (!(outcome instanceof Error)) {
      this.#place.submit(session, [outcome]);
      return;
    }
    const actor = this.#place.find(session);
    if (actor !== undefined) this.failed(actor, errorShape(upgradeError(actor.state, to, outcome)));
    // A transition without inputs notes the new status of the session for lists and for the drain.
    this.#place.submit(session, []);
  }
}
