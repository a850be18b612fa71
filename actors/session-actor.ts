/**
 * One session in memory: its state, the rendering of its request, and its timers.
 *
 * Owns: the only copy of the state that transitions change (A1). Does not own: the journal, the pools, other sessions.
 * An actor exists while its session runs or was used recently. An idle actor is dropped. When its session is needed,
 * its state is built again from the log (A11).
 */
import type { Deadline } from '../src/base/deadline-queue.ts';
import { RequestWindow } from '../src/context/request-window.ts';
import type { SessionKey } from '../src/journal/position.ts';
import { mayBegin } from '../src/session/rules/mailbox.ts';
import { isPreparing, isSummarising } from '../src/session/rules/memory.ts';
import { waitsForApprovalOnly } from '../src/session/rules/run-loop.ts';
import type { TransientMessage } from '../src/session/state/edit-request.ts';
import type { SessionState } from '../src/session/state/state.ts';
import type { SessionAgent } from './agent-catalog.ts';

/** One session in memory (see the file header). */
export class SessionActor {
  readonly id: string;
  readonly key: SessionKey;
  state: SessionState;
  /** Transitions that are journalled but not yet durable. An actor with such transitions is never dropped. */
  unflushed = 0;
  /** The last stored snapshot of the whole state: its address, and its position in the log. */
  snapshot: { readonly address: string; readonly position: number } | undefined;
  /** The address of a fork's beginning, which is stored separately once the log that the fork shared is gone. */
  base: string | undefined;
  /** Transitions since the last snapshot. */
  turnsSinceSnapshot: number;
  /** True if the session's head, its summary in the journal, says that the session is runnable. */
  isHeadRunnable = false;
  /** Position of the last journalled transition. */
  position: number;
  /** The facts of the session's agent that its half-steps need; undefined before the session has an agent. */
  agent: SessionAgent | undefined;
  /** The key of the answer form for which `agent` was found; undefined: the session asked for no form. */
  agentForm: string | undefined;
  /** The state last published to watchers of its parent. */
  publishedState: string | undefined;
  /** The number of the introduction in which the host last learned of the session; see `Subscribers`. */
  introducedIn = 0;
  /** The timer for the next attempt of the model call. */
  retryTimer: unknown;
  /** The timer for a restart by the supervisor. */
  restartTimer: unknown;
  /** The timer that denies calls that wait for approval; `approvalsDueAt` is the time at which it fires. */
  approvalsTimer: unknown;
  approvalsDueAt: number | undefined;
  /** The deadline at which the session's open tool calls are checked. */
  callsDeadline: Deadline<SessionActor> | undefined;
  /** True while the session is idle and listed to leave memory; see `IdleSessions`. */
  isResting = false;
  /** The number of the last batch of `runTreeTransition` that reached this session. */
  touchedIn = 0;
  /**
   * Messages that the model sees but that are never stored. Undefined: there never were any, so the request is rendered
   * incrementally.
   */
  transients: readonly TransientMessage[] | undefined;
  #window: RequestWindow | undefined;

  constructor(id: string, key: SessionKey, state: SessionState, history: { turns: number; position: number }) {
    this.id = id;
    this.key = key;
    this.state = state;
    this.turnsSinceSnapshot = history.turns;
    this.position = history.position;
  }

  /** The rendering of the request, which is kept between half-steps. */
  window(agent: SessionAgent): RequestWindow {
    // A change of these options comes with a new epoch, in which everything is rendered again.
    if (this.#window?.options !== agent.renderOptions) this.#window = new RequestWindow(agent.renderOptions);
    return this.#window;
  }

  /**
   * True if the actor may leave memory. Then its session is idle, its transitions are durable, no restart and no
   * enricher is due, and no transient message exists. Entries may wait in the mailbox.
   */
  get isQuiet(): boolean {
    if (this.transients !== undefined && this.transients.length > 0) return false;
    const { state } = this;
    if (state.state !== 'idle' || this.unflushed !== 0 || state.restartAt !== undefined) return false;
    return !isWatched(state);
  }
}

/** True if an enricher is running for this session. */
function isWatched({ enrichment, memory }: SessionState): boolean {
  return enrichment !== undefined || isSummarising(memory);
}

/** True if work is in flight for this session, or about to be. `drain` waits for such work. */
export function isRunning(state: SessionState): boolean {
  if (state.restartAt !== undefined || isWatched(state)) return true;
  if (state.state === 'idle') return false;
  // Waiting for a person does not count as work, because it may take days.
  if (waitsForApprovalOnly(state)) return false;
  if (state.state === 'awaiting' || state.openCalls.size > 0 || state.held !== undefined) return true;
  return !state.paused && state.blocked === undefined;
}

/** True for a session of the runnable set: it is in a turn, or has something that could start one. */
export function isRunnable(state: SessionState): boolean {
  if (state.state !== 'idle' || state.restartAt !== undefined || isWatched(state)) return true;
  return isWaiting(state);
}

/** True if the session is idle and has an entry that starts a turn as soon as the session is admitted. */
export function isWaiting(state: SessionState): boolean {
  // A session that waits for an enricher is woken only when the enricher ends.
  if (state.state !== 'idle' || state.enrichment !== undefined || isPreparing(state.memory)) return false;
  if (state.paused || state.blocked !== undefined) return false;
  // Only its parent starts a queued child.
  if (state.queued) return false;
  return mayBegin(state);
}
