/**
 * An embedder's requests to the runtime, and their ends. A request ends with an answer, with an error that is expected
 * under faults, or with a violation.
 *
 * Owns: the requests without an answer so far. Does not own: the content of requests.
 */
import { CancelledError, TroupeError, TurnFailedError } from '../../base/errors.ts';
import type { Ledger, Outcome } from './ledger.ts';
import type { SimulatedProcess } from './world.ts';

/** The parts that attempts need from their embedder. */
export interface AttemptParts {
  readonly process: SimulatedProcess;
  readonly ledger: Ledger;
  readonly trace: (text: string) => void;
  readonly uid: (prefix: string) => string;
}

/** Refusals and losses that the contract allows. */
const EXPECTED_CODES: ReadonlySet<string> = new Set([
  'session_busy',
  'mailbox_full',
  'cancelled',
  'store_full',
  'limit',
  'unknown_session',
  'agent_missing',
  'shard_moved',
]);

/** See the head of the file. */
export class Attempts {
  readonly #parts: AttemptParts;
  readonly #open = new Set<string>();
  #isLeaving = false;

  constructor(parts: AttemptParts) {
    this.#parts = parts;
  }

  /** Called when the embedder leaves: from now on any refusal is expected. */
  leave(): void {
    this.#isLeaving = true;
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** The requests without an answer so far. */
  get open(): readonly string[] {
    return [...this.#open];
  }

  /** Records the start of a request; returns the function that records its end. */
  begin(what: string): () => void {
    this.#open.add(what);
    return () => void this.#open.delete(what);
  }

  /** Runs an action that may fail with an expected error. */
  async attempt(what: string, act: () => Promise<unknown>): Promise<void> {
    const name = this.#parts.uid(`${what} `);
    // A read is not recorded as open, because a reader reads for as long as the runtime is open.
    const end = what === 'read' ? undefined : this.begin(name);
    try {
      await act();
    } catch (error) {
      if (this.#parts.process.isAlive) this.failed(what, error);
    } finally {
      end?.();
    }
  }

  /**
   * The outcome of an answer; undefined if no outcome is known. An error that the contract does not allow is recorded.
   */
  async outcomeOf(words: Promise<unknown>): Promise<Outcome | undefined> {
    try {
      const value = await words;
      return typeof value === 'string'
        ? { kind: 'text', text: value }
        : { kind: 'text', text: JSON.stringify(value), value };
    } catch (error) {
      if (!this.#parts.process.isAlive || this.#isLeaving) return undefined;
      const { message } = error as Error;
      if (error instanceof CancelledError) {
        if (/the turn was interrupted|was cancelled|interrupted/.test(message)) return { kind: 'cancelled', text: '' };
        return /was (?:recalled|replaced)/.test(message) ? { kind: 'dropped', text: '' } : undefined;
      }
      if (error instanceof TurnFailedError) {
        return { kind: message.startsWith('the message was dropped') ? 'dropped' : 'failed', text: '' };
      }
      this.failed('answer', error);
      return undefined;
    }
  }

  /** Records a failure: an error that the contract does not allow is a violation. */
  failed(what: string, error: unknown): void {
    const { ledger, trace } = this.#parts;
    trace(`${what} failed: ${String(error)}`);
    if (error instanceof TroupeError && error.code === 'store_full' && String(error.cause).includes('closed'))
      ledger.violate('failed', `${what}: a store that was closed counts as one that refused a write`);
    if (what === 'send' && ledger.standsStill && error instanceof CancelledError)
      ledger.violate('lost', `a message was refused while its shard stood still: ${error.message} (I42)`);
    const isExpected =
      error instanceof TroupeError &&
      (EXPECTED_CODES.has(error.code) ||
        (error.code === 'internal' && error.retryable) ||
        isGivenUp(error) ||
        this.#isLeaving);
    if (!isExpected) ledger.violate('failed', `${what}: ${error instanceof Error ? error.stack : String(error)}`);
  }
}

/** True for the error of a session thread that died repeatedly and was given up (L3 of `shard-link.ts`). */
export function isGivenUp(error: unknown): boolean {
  return error instanceof TroupeError && /died \d+ times within a minute/.test(error.message);
}
