/**
 * What an embedder asked of the runtime, and how it ended: an answer, an error that is expected under faults, or a violation.
 *
 * Owns: what was asked and not answered yet. Does not own: what is asked.
 */
import { CancelledError, TroupeError, TurnFailedError } from '../../base/errors.ts';
import type { Ledger, Outcome } from './ledger.ts';
import type { SimulatedProcess } from './world.ts';

/** What attempts need of their embedder. */
export interface AttemptParts {
  readonly process: SimulatedProcess;
  readonly ledger: Ledger;
  readonly trace: (text: string) => void;
  readonly uid: (prefix: string) => string;
}

/** Refusals and losses that are part of the bargain. */
const EXPECTED_CODES: ReadonlySet<string> = new Set([
  'session_busy',
  'mailbox_full',
  'cancelled',
  'store_full',
  'limit',
  'unknown_session',
]);

/** See the head of the file. */
export class Attempts {
  readonly #parts: AttemptParts;
  readonly #open = new Set<string>();
  #isLeaving = false;

  constructor(parts: AttemptParts) {
    this.#parts = parts;
  }

  /** The embedder leaves: any refusal is expected from now on. */
  leave(): void {
    this.#isLeaving = true;
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** What was asked and not answered yet. */
  get open(): readonly string[] {
    return [...this.#open];
  }

  /** Something is asked; returns what notes that it ended. */
  begin(what: string): () => void {
    this.#open.add(what);
    return () => void this.#open.delete(what);
  }

  /** Does something that may fail with an expected error. */
  async attempt(what: string, act: () => Promise<unknown>): Promise<void> {
    const name = this.#parts.uid(`${what} `);
    // A reader reads for as long as there is a runtime.
    const end = what === 'read' ? undefined : this.begin(name);
    try {
      await act();
    } catch (error) {
      if (this.#parts.process.isAlive) this.failed(what, error);
    } finally {
      end?.();
    }
  }

  /** How an answer ended; undefined when that is not known, since the runtime went away. */
  async outcomeOf(words: Promise<string>): Promise<Outcome | undefined> {
    try {
      return { kind: 'text', text: await words };
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

  /** Something failed: an error that is not part of the bargain is a violation. */
  failed(what: string, error: unknown): void {
    const { ledger, trace } = this.#parts;
    trace(`${what} failed: ${String(error)}`);
    const isExpected =
      error instanceof TroupeError &&
      (EXPECTED_CODES.has(error.code) ||
        (error.code === 'internal' && error.retryable) ||
        isGivenUp(error) ||
        this.#isLeaving);
    if (!isExpected) ledger.violate('failed', `${what}: ${error instanceof Error ? error.stack : String(error)}`);
  }
}

/** A session thread that dies again and again is given up, and says so (L3 of the link). */
export function isGivenUp(error: unknown): boolean {
  return error instanceof TroupeError && /died \d+ times within a minute/.test(error.message);
}
