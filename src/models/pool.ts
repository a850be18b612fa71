/**
 * Model calls as a shard sees them: a call goes out, exactly one completion comes back. Behind it stand model threads that
 * mirror each active context, or the same code in place.
 */
import type { ErrorShape } from '../base/errors.ts';
import type { ModelDelta, ModelRequest, ModelResponse, RequestMessage } from './provider.ts';

/** Everything of a request but its messages; changes only with an epoch. */
export type RequestHeader = Omit<ModelRequest, 'messages'>;

/**
 * What changed in a session's request since the call before: the mirror keeps its first `keep` messages and appends
 * `append`. A mirror that does not have exactly that epoch (new thread, forgotten session) is sent the whole: `keep` 0 and
 * `header` present.
 */
export interface ContextDelta {
  readonly epoch: number;
  readonly keep: number;
  readonly append: readonly RequestMessage[];
  readonly header?: RequestHeader;
}

/** One model call. `id` is unique within the shard's life. */
export interface ModelCall {
  readonly id: number;
  readonly session: string;
  readonly context: ContextDelta;
  /** Somebody watches: send deltas, coalesced. `ModelPool.wantsDeltas` changes it while the call runs. */
  readonly wantsDeltas: boolean;
  /** Milliseconds the call may take in all. */
  readonly timeoutMs: number;
  /**
   * While the provider's credentials are refused, the call waits for `resume`, as a turn stands behind it. Otherwise it ends at
   * once as cancelled.
   */
  readonly waitsForResume: boolean;
}

/** Why a call has not left. */
export interface CallWait {
  /** In words for people. */
  readonly detail: string;
  /** Only `resume` lets it leave: the error the credentials were refused with. */
  readonly refusal?: ErrorShape;
}

/** How a call ended. */
export type ModelCompletion =
  | { readonly id: number; readonly response: ModelResponse; readonly ms: number }
  | { readonly id: number; readonly error: ErrorShape; readonly ms: number };

/** What a pool tells its owner. Called on the owner's thread, never synchronously from within `call`. */
export interface ModelPoolListener {
  /** Exactly once a call, cancelled ones included (error code `cancelled`). */
  completed(completions: readonly ModelCompletion[]): void;
  /** Coalesced deltas of a running call, in order; never after its completion. */
  delta(id: number, session: string, delta: ModelDelta): void;
}

/** Where model calls run. */
export interface ModelPool {
  /**
   * Starts a call. Never throws: a failure is a completion. `whole` gives the same request sent whole; a pool that lets calls
   * wait asks for it, at most once and before the completion, when the delta does not fit any more.
   */
  call(call: ModelCall, whole?: () => ContextDelta): void;
  /**
   * True when the session's mirror holds `epoch` with at least `keep` messages, so that a delta may be sent; false: send the
   * whole. A thread that died, or `forget`, makes it false.
   */
  holds(session: string, epoch: number, keep: number): boolean;
  /** Somebody watches a running call from now on, or nobody does any more. Unknown ids are ignored. */
  wantsDeltas(id: number, isWanted: boolean): void;
  /** Aborts a running call; its completion comes as `cancelled`. Unknown ids are ignored. */
  cancel(id: number): void;
  /** Drops a session's mirror. */
  forget(session: string): void;
  /** Lifts what refused credentials, or a model that is not there, stopped. Missing: nothing is ever stopped. */
  resume?(): void;
  /** Why a call has not left; undefined where it has, or is unknown. Missing: no call ever waits. */
  waitOf?(id: number): CallWait | undefined;
  /** Calls that only `resume` lets leave. Missing: none ever. */
  readonly stopped?: number;
  /** Aborts what runs and ends the threads. */
  close(): Promise<void>;
}
