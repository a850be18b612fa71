/** A journal as the conformance checks receive it. */
import type { Journal } from '../../journal/journal.ts';

/** One required behaviour of a journal. `title` names the invariant. `run` throws `AssertionError` on a violation. */
export interface JournalCheck {
  readonly title: string;
  readonly needs?: JournalAbility;
  run(store: JournalUnderTest): Promise<void>;
}

/** One store under test, empty when made, with one journal open on it. */
export interface JournalUnderTest {
  readonly journal: Journal;
  /** Opens the store again. The previous journal was closed. */
  reopen(): Promise<Journal>;
  /**
   * Opens the store again as after a crash. The previous journals were not closed and still exist, fenced off.
   * Unflushed data is gone. Missing: the checks of crashes and fences are skipped.
   */
  crash?(): Promise<Journal>;
  /**
   * Makes every later write fail with `cause` as a full disk would; `undefined` ends this. Missing: the checks that
   * need this are skipped.
   */
  refuseWrites?(cause: Error | undefined): void;
  /** Frees everything, including open journals. Called once, whatever happened. */
  dispose(): Promise<void>;
}

/** Makes a new, empty store. */
export type MakeJournal = () => Promise<JournalUnderTest>;

/** An ability a check needs beyond the port. */
export type JournalAbility = 'crash' | 'refuseWrites';
