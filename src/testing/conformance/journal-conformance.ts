/**
 * The conformance suite of the Journal port: for the two journals of the house and for anyone who brings a third. It needs no
 * test runner; `journalChecks` can be given to any of them, one test a check.
 */
import type { Journal } from '../../journal/journal.ts';
import { crashChecks } from './journal-crash-checks.ts';
import { logChecks } from './journal-log-checks.ts';
import { tableChecks } from './journal-table-checks.ts';

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

/** One thing a journal must do. `title` names the invariant. `run` throws `AssertionError` when it does not. */
export interface JournalCheck {
  readonly title: string;
  readonly needs?: JournalAbility;
  run(store: JournalUnderTest): Promise<void>;
}

/** Every check, in the order they are run. */
export const journalChecks: readonly JournalCheck[] = [...logChecks, ...tableChecks, ...crashChecks];

/** Which checks passed, and which could not be run because the maker lacks what they need. Titles. */
export interface JournalConformance {
  readonly passed: readonly string[];
  readonly skipped: readonly string[];
}

/** Runs one check on a new store. False: the maker lacks what the check needs. Rejects with what the check threw. */
export async function runJournalCheck(check: JournalCheck, makeJournal: MakeJournal): Promise<boolean> {
  const store = await makeJournal();
  try {
    if (check.needs !== undefined && store[check.needs] === undefined) return false;
    await check.run(store);
    return true;
  } finally {
    await store.dispose();
  }
}

/**
 * Runs every check, each on a store of its own, one after the other. Rejects at the first that fails, with its error
 * (`AssertionError`), whose message begins with the check's title.
 */
export async function runJournalConformance(makeJournal: MakeJournal): Promise<JournalConformance> {
  const passed: string[] = [];
  const skipped: string[] = [];
  for (const check of journalChecks) {
    try {
      const ran = await runJournalCheck(check, makeJournal);
      (ran ? passed : skipped).push(check.title);
    } catch (error) {
      if (error instanceof Error) error.message = `${check.title}: ${error.message}`;
      throw error;
    }
  }
  return { passed, skipped };
}
