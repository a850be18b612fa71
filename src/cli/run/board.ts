/** The state of a running review, for its displays. The state follows from the reports of the review (`news.ts`). */

import type { PlannedFile } from '../review/plan.ts';
import type { ReviewNews } from './news.ts';

/** The activity of a reader. */
export type ReaderState = 'waits' | 'thinks' | 'reads' | 'done' | 'failed';

/** One reader. */
export interface ReaderRow {
  readonly file: PlannedFile;
  state: ReaderState;
  /** How often the reader began to run tool calls: for the pages that it asked for, and for its report. */
  calls: number;
  /** True if the reader was steered. */
  isSteered: boolean;
  /** A short note on the reader's report, once there is a report. */
  note: string;
}

/** See the head of the file. */
export class ReviewBoard {
  readonly #rows = new Map<string, ReaderRow>();
  readonly #bySession = new Map<string, ReaderRow>();
  /** Rows that ended, in the order in which they ended. */
  readonly #ended: ReaderRow[] = [];
  /** Half-steps per second at the last report. */
  rate = 0;
  isAsking = false;
  /** A warning that is shown, such as the seconds until a refused model call is tried again. */
  warning: string | undefined;

  /** Takes a report. The reports of a second process continue those of the first. */
  take(news: ReviewNews): void {
    switch (news.type) {
      case 'planned':
        for (const file of news.plan.files) {
          if (this.#rows.has(file.path)) continue;
          this.#rows.set(file.path, { file, state: 'waits', calls: 0, isSteered: false, note: '' });
        }
        break;
      case 'spawned': {
        const row = this.#rows.get(news.path);
        if (row !== undefined) this.#bySession.set(news.session, row);
        break;
      }
      case 'state':
        this.#state(news.session, news.state);
        break;
      case 'reported': {
        const row = this.#rows.get(news.path);
        if (row !== undefined) row.note = news.note;
        break;
      }
      case 'steered': {
        const row = this.#rows.get(news.path);
        if (row !== undefined) row.isSteered = true;
        break;
      }
      case 'ended':
        this.#end(news.path, news.reason);
        break;
      case 'rate':
        this.rate = news.halfStepsPerSecond;
        break;
      case 'warning':
        this.warning = news.text;
        break;
      case 'asking':
        this.isAsking = true;
        break;
      case 'accepted':
      case 'notice':
        break;
    }
  }

  #state(session: string, state: string): void {
    const row = this.#bySession.get(session);
    if (row === undefined || isOver(row)) return;
    if (state === 'awaiting') row.state = 'thinks';
    else if (state === 'executing') {
      row.state = 'reads';
      row.calls += 1;
    }
  }

  #end(path: string, reason: string): void {
    const row = this.#rows.get(path);
    if (row === undefined || isOver(row)) return;
    row.state = reason === 'completed' ? 'done' : 'failed';
    this.#ended.push(row);
  }

  get total(): number {
    return this.#rows.size;
  }

  get over(): number {
    return this.#ended.length;
  }

  /** Readers in the middle of a turn. */
  get working(): number {
    let count = 0;
    for (const row of this.#rows.values()) if (isWorking(row)) count += 1;
    return count;
  }

  /**
   * The rows to show, at most `count`: first the working readers, beginning with the steered one, then the readers that
   * ended last.
   */
  rows(count: number): readonly ReaderRow[] {
    const working: ReaderRow[] = [];
    for (const row of this.#rows.values()) {
      if (!isWorking(row)) continue;
      if (row.isSteered) working.unshift(row);
      else if (working.length < count) working.push(row);
    }
    const shown = working.slice(0, count);
    const left = count - shown.length;
    return [...shown, ...(left === 0 ? [] : this.#ended.slice(-left).toReversed())];
  }
}

function isWorking({ state }: ReaderRow): boolean {
  return state === 'thinks' || state === 'reads';
}

function isOver({ state }: ReaderRow): boolean {
  return state === 'done' || state === 'failed';
}
