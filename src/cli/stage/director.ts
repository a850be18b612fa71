/**
 * Directs a staged review in the process that works on it: steers one reader during its turn, and decides when the
 * process kills itself. The director watches the reports of the review.
 *  E1 the steering message always has the same key. So the message is in the log once, however many processes send it.
 */
import type { Runtime } from '../../index.ts';
import { type PlannedFile, STEER_REQUEST } from '../review/plan.ts';
import type { ReviewNews } from '../run/news.ts';
import type { Publish } from '../run/work.ts';
import { killAt, steeredFile } from './moments.ts';

const STEER_KEY = 'steer';

/** The parts that a director needs. */
export interface DirectorParts {
  readonly runtime: Runtime;
  /** The reviewer's session. */
  readonly id: string;
  /** Takes the report on the steer. */
  readonly publish: Publish;
  /** Kills the process. Missing: this process is not killed. */
  readonly kill?: (() => void) | undefined;
  /** Called when the steer was refused. */
  readonly onFailure: (error: unknown) => void;
}

/** See the head of the file. */
export class Director {
  readonly #parts: DirectorParts;
  #target: PlannedFile | undefined;
  #killAt: number | undefined;
  #ended = 0;

  constructor(parts: DirectorParts) {
    this.#parts = parts;
  }

  /** Takes a report of the review, in order. */
  take(news: ReviewNews): void {
    if (news.type === 'planned') {
      const { files } = news.plan;
      this.#target = steeredFile(files);
      const at = killAt(files.length);
      // If `at` readers had ended before this process began, too little work is left for a kill in the middle.
      this.#killAt = at === undefined || news.before >= at ? undefined : at;
    } else if (news.type === 'spawned' && news.path === this.#target?.path) {
      this.#steer(news.path, news.session).catch(this.#parts.onFailure);
    } else if (news.type === 'ended') {
      this.#ended += 1;
      if (this.#ended === this.#killAt) this.#parts.kill?.();
    }
  }

  /** Sends the steering message when the reader's model is called, so that more calls of the same turn follow. */
  async #steer(path: string, session: string): Promise<void> {
    const { runtime, id, publish } = this.#parts;
    const { children } = await runtime.session(id).state();
    if (children.some((child) => child.id === session && child.exited !== undefined)) return;
    const reader = runtime.session(session);
    for await (const event of reader.events({ after: 0, deltas: false })) {
      if (event.type === 'session.state' && event.state === 'awaiting') break;
    }
    const receipt = await reader.send(STEER_REQUEST, { key: STEER_KEY, deliver: 'steer' });
    if (!receipt.duplicate) publish({ type: 'steered', path, session, text: STEER_REQUEST });
  }
}
