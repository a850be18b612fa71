/**
 * The display of a running review. It takes the reports of the process that works on the review: this process or
 * another one.
 *
 * Owns: the board, the times of sends, the progress on the terminal. Does not own: the review, the final report.
 *  D1 the terminal is restored when the screen stops, and before a signal closes the review.
 */
import type { ReviewStanding } from '../review/command.ts';
import type { ReviewPlan } from '../review/plan.ts';
import type { Output, Surroundings } from '../surroundings.ts';
import { ReviewBoard } from './board.ts';
import { type SendFigures, sendFigures } from './figures.ts';
import type { ReviewNews } from './news.ts';
import { type Progress, showProgress } from './progress.ts';

/** See the head of the file. `stop` must be called when the screen is no longer needed. */
export class ReviewScreen {
  readonly board: ReviewBoard = new ReviewBoard();
  readonly #id: string;
  readonly #output: Output;
  readonly #surroundings: Surroundings;
  readonly #begun: number = performance.now();
  readonly #sends: number[] = [];
  readonly #unsubscribe: () => void;
  #progress: Progress | undefined;
  #planned: { readonly plan: ReviewPlan; readonly standing: ReviewStanding } | undefined;

  /** `id`: the reviewer's session. */
  constructor(id: string, output: Output, surroundings: Surroundings) {
    this.#id = id;
    this.#output = output;
    this.#surroundings = surroundings;
    this.#unsubscribe = surroundings.onStop(() => this.#progress?.stop());
  }

  /** The plan, and how far the review had come when the plan was first reported; undefined before that report. */
  get planned(): { readonly plan: ReviewPlan; readonly standing: ReviewStanding } | undefined {
    return this.#planned;
  }

  /** Seconds since the start. */
  get seconds(): number {
    return (performance.now() - this.#begun) / 1_000;
  }

  get sends(): SendFigures {
    return sendFigures(this.#sends);
  }

  /** Takes a report. */
  take(news: ReviewNews): void {
    this.board.take(news);
    if (news.type === 'accepted') this.#sends.push(news.ms);
    else if (news.type === 'notice') this.note(news.text);
    else if (news.type === 'planned') this.#plan(news.plan, news.standing);
    else if (news.type === 'ended' || news.type === 'asking') this.#progress?.changed();
  }

  /** Writes a line that stays above the progress. */
  note(text: string): void {
    if (this.#progress === undefined) this.#output.write(`${text}\n`);
    else this.#progress.note(text);
  }

  stop(): void {
    this.#unsubscribe();
    this.#progress?.stop();
  }

  #plan(plan: ReviewPlan, standing: ReviewStanding): void {
    this.#planned ??= { plan, standing };
    if (standing === 'finished') return;
    const { board } = this;
    this.#progress ??= showProgress(
      this.#output,
      { board, id: this.#id, seconds: () => this.seconds },
      this.#surroundings,
    );
  }
}
