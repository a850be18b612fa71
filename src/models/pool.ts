/**
 * A shard's interface to model calls: the shard starts a call, and gets exactly one completion. A shard is a part of
 * the runtime with some of its sessions, on a session thread or on the host thread. The pool has two implementations:
 * model threads that mirror each active context, and the same code on the calling thread.
 */
import type { ErrorShape } from '../base/errors.ts';
import type { Usage } from '../base/messages.ts';
import type { ModelDelta, ModelRequest, ModelResponse, RequestMessage } from './provider.ts';

/** The parts of a request that change only with an epoch. */
export type RequestHeader = Omit<ModelRequest, 'messages' | 'container'>;

/**
 * The change of a session's request since its previous call: the mirror keeps its first `keep` messages and appends
 * `append`. If the mirror does not have the epoch (new thread, forgotten session), the delta is the whole context:
 * `keep` is 0, and `header` is present.
 */
export interface ContextDelta {
  readonly epoch: number;
  readonly keep: number;
  readonly append: readonly RequestMessage[];
  readonly header?: RequestHeader;
  /** The container of this request alone: a mirror does not keep it. */
  readonly container?: string;
}

/** One model call. `id` is unique among all calls of the shard. */
export interface ModelCall {
  readonly id: number;
  readonly session: string;
  readonly context: ContextDelta;
  /**
   * True if a subscriber wants deltas, which are then sent coalesced. `ModelPool.wantsDeltas` changes this choice while
   * the call runs.
   */
  readonly wantsDeltas: boolean;
  /** The milliseconds that the call may take in total. */
  readonly timeoutMs: number;
  /**
   * Decides what the call does while the provider's credentials are refused. True: it waits for `resume`, because a
   * turn depends on it. False: it ends at once as cancelled.
   */
  readonly waitsForResume: boolean;
  /**
   * Present if another model can take the call's place. If the call would wait longer than these milliseconds, it ends
   * at once with a retryable error. If credentials are refused, it ends with the error that refused them.
   */
  readonly fallbackAfterMs?: number;
}

/** The reason why a call has not been sent to the provider yet. */
export interface CallWait {
  /** A readable text. */
  readonly detail: string;
  /** Set if the call is sent only after `resume`: the error that refused the credentials. */
  readonly refusal?: ErrorShape;
}

/** Changes of an answer that were made before its session received it. */
export interface AnswerChanges {
  /** True if thoughts of the answer were left out. */
  readonly lacksThoughts?: true;
  /** True if a thought of the answer follows a block that was changed. */
  readonly isUnbound?: true;
}

/** The outcome of a call. */
export type ModelCompletion =
  | {
      readonly id: number;
      readonly response: ModelResponse;
      readonly ms: number;
      /** Missing: the answer is as the model gave it, or no thought depends on what was changed. */
      readonly changes?: AnswerChanges;
    }
  | {
      readonly id: number;
      readonly error: ErrorShape;
      readonly ms: number;
      /** The stack of the error that a faulty provider threw, for the log. */
      readonly stack?: string;
      /** The text and tokens since the call's last draft; missing if there are none. */
      readonly lost?: StreamDraft;
    };

/** The text and tokens of a call since its previous draft. */
export interface StreamDraft {
  /**
   * In stream order. Neighbours of one type are joined; only in `ModelCompletion.lost` may two of one type follow each
   * other. All drafts of a call together have at most `DRAFT_CHARACTERS_MAX`.
   */
  readonly pieces: readonly ModelDelta[];
  /** True in the first draft after the call streamed text that no draft contains. */
  readonly isCut?: true;
  /** The tokens that the provider has counted so far; missing if it has reported none since the previous draft. */
  readonly usage?: Usage;
}

/** A delta as a pool reports it. Its text may be empty if it has `before`, and is empty if it has `draft`. */
export interface StreamedDelta extends ModelDelta {
  /**
   * The whole text of the call before this delta. The first delta of a call has an empty list. After `wantsDeltas` with
   * `fromStart`, the next delta has the text so far. Missing: the earlier text was reported as deltas.
   */
  readonly before?: readonly ModelDelta[];
  /** The text and tokens since the previous draft, every `DRAFT_INTERVAL_MS`, whether deltas are wanted or not. */
  readonly draft?: StreamDraft;
}

/**
 * Receives the completions and deltas of a pool. Called on the owner's thread, never synchronously from within `call`.
 */
export interface ModelPoolListener {
  /** Called exactly once for each call, cancelled ones included (error code `cancelled`). */
  completed(completions: readonly ModelCompletion[]): void;
  /** Coalesced deltas of a running call, in order; never after its completion. */
  delta(id: number, session: string, delta: StreamedDelta): void;
}

/** Runs model calls. */
export interface ModelPool {
  /**
   * Starts a call. Never throws: a failure is a completion. `whole` gives the same request with its whole context. The
   * pool calls `whole` if the call had to wait and its delta no longer fits the mirror. This happens at most once, and
   * before the completion.
   */
  call(call: ModelCall, whole?: () => ContextDelta): void;
  /**
   * True if the session's mirror holds `epoch` with at least `keep` messages, so that a delta may be sent. If false,
   * the whole context must be sent: the thread died, or `forget` dropped the mirror, for example.
   */
  holds(session: string, epoch: number, keep: number): boolean;
  /**
   * Starts or stops the deltas of a running call. `fromStart`: the text that the call has streamed so far is also
   * reported (`StreamedDelta.before`), for a reader that begins now. Unknown ids are ignored.
   */
  wantsDeltas(id: number, isWanted: boolean, fromStart?: boolean): void;
  /** Aborts a running call; its completion comes as `cancelled`. Unknown ids are ignored. */
  cancel(id: number): void;
  /** Drops a session's mirror. */
  forget(session: string): void;
  /** Lifts the stop after refused credentials or a missing model. If absent, the pool never stops calls. */
  resume?(): void;
  /** Why a call has not been sent yet; undefined if it has been sent or is unknown. If absent, no call ever waits. */
  waitOf?(id: number): CallWait | undefined;
  /** The number of calls that are sent only after `resume`. If absent, there are none. */
  readonly stopped?: number;
  /** Aborts running calls and ends the threads. */
  close(): Promise<void>;
}
