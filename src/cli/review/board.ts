/**
 * The state of a running review, for its displays. It is fed by the review's listener and by the reviewer's events,
 * which include the states of its children.
 */

import { textOf } from '../../base/messages.ts';
import type { SessionEvent } from '../../index.ts';
import { counted, oneLine } from '../text-layout.ts';
import type { PlannedFile, ReviewPlan } from './plan.ts';
import { parseReport } from './source-report.ts';

/** The activity of a reader. */
export type ReaderState = 'waits' | 'thinks' | 'reads' | 'done' | 'failed';

/** One reader. */
export interface ReaderRow {
  readonly file: PlannedFile;
  state: ReaderState;
  /** A short note on the reader's report, once there is a report. */
  note: string;
}

/** See the head of the file. */
export class ReviewBoard {
  readonly #rows = new Map<string, ReaderRow>();
  readonly #bySession = new Map<string, ReaderRow>();
  /** Rows that ended, in the order in which they ended. */
  readonly #ended: ReaderRow[] = [];
  isAsking = false;
  /** A warning with the seconds until a refused model call of the reviewer or a reader is tried again. */
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

  /** The rows to show, at most `count`: first those at work, then those that ended last. */
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
