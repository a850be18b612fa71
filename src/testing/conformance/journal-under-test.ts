/** A journal as the conformance checks are given it. */
import type { Journal } from '../../journal/journal.ts';

/** One thing a journal must do. `title` names the invariant. `run` throws `AssertionError` when it does not. */
export interface JournalCheck {
  readonly title: string;
  readonly needs?: JournalAbility;
  run(store: JournalUnderTest): Promise<void>;
}

/** One store under test, empty when made, with one journal open on it. */
export interface JournalUnderTest {
  readonly journal: Journal;
  /** Opens the store again. The journal before it was closed. */
  reopen(): Promise<Journal>;
  /**
   * Opens the store again as after a crash: the journals before it were not closed and are still there, fenced off. What was
   * not flushed is gone. Missing: the checks of crashes and fences are skipped.
   */
  crash?(): Promise<Journal>;
  /** Makes every later write fail with `cause` as a full disk would; `undefined` ends it. Missing: those checks are skipped. */
  refuseWrites?(cause: Error | undefined): void;
  /** Frees everything, open journals included. Called once, whatever happened. */
  dispose(): Promise<void>;
}

/** Makes a new, empty store. */
export type MakeJournal = () => Promise<JournalUnderTest>;

/** What a check needs beyond the port. */
export type JournalAbility = 'crash' | 'refuseWrites';
