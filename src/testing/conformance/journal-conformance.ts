/**
 * The conformance suite of the Journal port, for the project's two journals and for any other implementation. The suite
 * needs no test runner. Any test runner can run `journalChecks` with one test per check.
 */

import { crashChecks } from './journal-crash-checks.ts';
import { erasureChecks } from './journal-erasure-checks.ts';
import { logChecks } from './journal-log-checks.ts';
import { mediaChecks } from './journal-media-checks.ts';
import { tableChecks } from './journal-table-checks.ts';
import type { JournalCheck, MakeJournal } from './journal-under-test.ts';

/** Every check, in the order they are run. */
export const journalChecks: readonly JournalCheck[] = [
  ...logChecks,
  ...tableChecks,
  ...mediaChecks,
  ...erasureChecks,
  ...crashChecks,
];

/**
 * Titles of the checks that passed, and of the checks that were skipped because the store lacks an ability that they
 * need.
 */
export interface JournalConformance {
  readonly passed: readonly string[];
  readonly skipped: readonly string[];
}

/**
 * Runs one check on a new store. Returns false if the store lacks an ability that the check needs. Rejects with the
 * check's error.
 */
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
 * Runs every check one after the other, each on its own store. Rejects with the error of the first check that fails
 * (`AssertionError`). The message of this error begins with the title of the check.
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
