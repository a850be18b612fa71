/**
 * What is known of a review while it runs, for those who show it. Fed by the review's listener and by the events of the
 * reviewer, which tell the states of its children.
 */

import { textOf } from '../../base/messages.ts';
import type { SessionEvent } from '../../index.ts';
import { counted, oneLine } from '../text-layout.ts';
import type { PlannedFile, ReviewPlan } from './plan.ts';
import { parseReport } from './source-report.ts';

/** What a reader is doing. */
export type ReaderState = 'waits' | 'thinks' | 'reads' | 'done' | 'failed';

/** One reader. */
export interface ReaderRow {
  readonly file: PlannedFile;
  state: ReaderState;
  /** A word on its report, once there is one. */
  note: string;
}

/** See the head of the file. */
export class ReviewBoard {
  readonly #rows = new Map<string, ReaderRow>();
  readonly #bySession = new Map<string, ReaderRow>();
  /** Rows that ended, in the order they did. */
  readonly #ended: ReaderRow[] = [];
  isAsking = false;
  /** Seconds until the reviewer's or a reader's model call is tried again, said when a model refuses for a while. */
  warning: string | undefined;

  planned(plan: ReviewPlan): void {
    for (const file of plan.files) this.#rows.set(file.path, { file, state: 'waits', note: '' });
  }

  spawned(file: PlannedFile, session: string): void {
    const row = this.#rows.get(file.path);
    if (row !== undefined) this.#bySession.set(session, row);
  }

  ended(file: PlannedFile, reason: string): void {
    const row = this.#rows.get(file.path);
    if (row === undefined || isOver(row)) return;
    row.state = reason === 'completed' ? 'done' : 'failed';
    this.#ended.push(row);
  }

  /** Takes an event of the reviewer. */
  event(event: SessionEvent): void {
    if (event.type === 'child.state') {
      const row = this.#bySession.get(event.child);
      if (row !== undefined && !isOver(row)) row.state = stateOf(event.state, row.state);
    } else if (event.type === 'pending.created' && event.pending.source.type === 'subagent') {
      this.#report(textOf(event.pending.content));
    }
  }

  #report(text: string): void {
    const report = parseReport(text);
    const row = report === undefined ? undefined : this.#rows.get(report.path);
    if (report === undefined || row === undefined) return;
    row.note =
      'error' in report
        ? oneLine(report.error)
        : `${counted(report.lines, 'line')}, ${counted(report.exports.count, 'name')}`;
  }

  get total(): number {
    return this.#rows.size;
  }

  get over(): number {
    return this.#ended.length;
  }

  /** Rows to show: those at work first, then those that ended last; at most `count`. */
  rows(count: number): readonly ReaderRow[] {
    const working: ReaderRow[] = [];
    for (const row of this.#rows.values()) {
      if (working.length === count) break;
      if (row.state === 'thinks' || row.state === 'reads') working.push(row);
    }
    const left = count - working.length;
    return [...working, ...(left === 0 ? [] : this.#ended.slice(-left).toReversed())];
  }
}

function isOver(row: ReaderRow): boolean {
  return row.state === 'done' || row.state === 'failed';
}

function stateOf(state: string, before: ReaderState): ReaderState {
  if (state === 'awaiting') return 'thinks';
  return state === 'executing' ? 'reads' : before;
}
