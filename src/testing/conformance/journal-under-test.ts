/** The journal and its store, as the conformance checks receive them. */
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
  /** Opens the store again. The caller has closed the previous journal. */
  reopen(): Promise<Journal>;
  /**
   * Opens the store again as after a crash. Unflushed data is gone. The previous journals were not closed and still
   * exist; the fence refuses their writes. If this method is missing, the checks of crashes and fences are skipped.
   */
  crash?(): Promise<Journal>;
  /**
   * Makes every later write fail with `cause`, as a full disk would. With `undefined`, writes succeed again. If this
   * method is missing, the checks that need it are skipped.
   */
  refuseWrites?(cause: Error | undefined): void;
  /** Frees everything, including open journals. Called once, whether the check passed or failed. */
  dispose(): Promise<void>;
}

/** Makes a new, empty store. */
export type MakeJournal = () => Promise<JournalUnderTest>;

/** An ability of the store under test that some checks need, and that the port itself does not have. */
export type JournalAbility = 'crash' | 'refuseWrites';
