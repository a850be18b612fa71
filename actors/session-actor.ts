/**
 * One session in memory: its state, the rendering of its request, and what is out for it.
 *
 * Owns: the only copy of the state that is written (A1). Does not own: the journal, the pools, other sessions.
 * An actor exists while its session runs or was used lately; an idle one is dropped and folded again from the log (A11).
 */
import type { Deadline } from '../src/base/deadline-queue.ts';
import { RequestWindow } from '../src/context/request-window.ts';
import type { SessionKey } from '../src/journal/position.ts';
import { isPreparing, isSummarising } from '../src/session/rules/memory.ts';
import { waitsForApprovalOnly } from '../src/session/rules/run-loop.ts';
import type { TransientMessage } from '../src/session/state/edit-request.ts';
import type { SessionState } from '../src/session/state/state.ts';
import type { SessionAgent } from './agent-catalog.ts';

/** See the head of the file. */
export class SessionActor {
  readonly id: string;
  readonly key: SessionKey;
  state: SessionState;
  /** Turns journalled but not yet durable; an actor with some is never dropped. */
  unflushed = 0;
  /** Where the state was last stored whole. */
  snapshot: { readonly address: string; readonly position: number } | undefined;
  /** Where what it begins with is stored: it is a fork, and the log it shared is gone. */
  base: string | undefined;
  /** Turns since then. */
  turnsSinceSnapshot: number;
  /** Its head in the journal names it runnable. */
  isHeadRunnable = false;
  /** Position of the last turn journalled. */
  position: number;
  /** What its half-steps need of its agent, once the session has one. */
  agent: SessionAgent | undefined;
  /** The state its parent's watchers were told last. */
  toldState: string | undefined;
  /** When it was introduced to the host last; see `Audience`. */
  introducedIn = 0;
  /** A retry of the model call is due. */
  retryTimer: unknown;
  /** A restart by the supervisor is due. */
  restartTimer: unknown;
  /** The calls that wait for a person are denied then, and when that is. */
  approvalsTimer: unknown;
  approvalsDueAt: number | undefined;
  /** Its tool calls are looked after then. */
  callsDeadline: Deadline<SessionActor> | undefined;
  /** Idle, and listed to leave memory; see `QuietSessions`. */
  isResting = false;
  /** The tree turn that last reached it; see `runTreeTurn`. */
  touchedIn = 0;
  /** Messages that are shown and never stored; undefined: there never were any, and the request is rendered from what is new. */
  transients: readonly TransientMessage[] | undefined;
  #window: RequestWindow | undefined;

  constructor(id: string, key: SessionKey, state: SessionState, history: { turns: number; position: number }) {
    this.id = id;
    this.key = key;
    this.state = state;
    this.turnsSinceSnapshot = history.turns;
    this.position = history.position;
  }

  /** The request's rendering, kept from half-step to half-step. */
  window(agent: SessionAgent): RequestWindow {
    this.#window ??= new RequestWindow(agent.renderOptions);
    return this.#window;
  }

  /** Nothing runs, nothing waits that could run. */
  get isQuiet(): boolean {
    if (this.transients !== undefined && this.transients.length > 0) return false;
    const { state } = this;
    if (state.state !== 'idle' || this.unflushed !== 0 || state.restartAt !== undefined) return false;
    return !isWatched(state);
  }
}

/** An enricher is out for this session. */
function isWatched({ enrichment, memory }: SessionState): boolean {
  return enrichment !== undefined || isSummarising(memory);
}

/** Something is out for this session, or is about to be: what `drain` waits for. */
export function isRunning(state: SessionState): boolean {
  if (state.restartAt !== undefined || isWatched(state)) return true;
  if (state.state === 'idle') return false;
  // Who waits for a person may wait for days.
  if (waitsForApprovalOnly(state)) return false;
  if (state.state === 'awaiting' || state.openCalls.size > 0 || state.held !== undefined) return true;
  return !state.paused && state.blocked === undefined;
}

/** A session that belongs to the runnable set: in a turn, or with something that could start one. */
export function isRunnable(state: SessionState): boolean {
  if (state.state !== 'idle' || state.restartAt !== undefined || isWatched(state)) return true;
  return isWaiting(state);
}

/** Idle, with something that starts a turn as soon as one is admitted. */
export function isWaiting(state: SessionState): boolean {
  // What waits for an enricher is woken by its end, and by nothing before.
  if (state.state !== 'idle' || state.enrichment !== undefined || isPreparing(state.memory)) return false;
  if (state.paused || state.blocked !== undefined) return false;
  // A suspended run goes on for a user's message alone.
  if (state.suspended !== undefined) return state.mailbox.some((entry) => entry.type === 'user_message');
  return state.mailbox.some((entry) => entry.kind === 'active');
}
