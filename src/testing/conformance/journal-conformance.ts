/**
 * The conformance suite of the Journal port: for the two journals of the house and for anyone who brings a third. It needs no
 * test runner; `journalChecks` can be given to any of them, one test a check.
 */

import { crashChecks } from './journal-crash-checks.ts';
import { logChecks } from './journal-log-checks.ts';
import { tableChecks } from './journal-table-checks.ts';
import type { JournalCheck, MakeJournal } from './journal-under-test.ts';

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
