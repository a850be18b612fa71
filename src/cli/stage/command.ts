/**
 * `troupe run --stage`: shows a review whose process kills itself in the middle and whose next process continues from
 * the log. This process only draws and has no runtime; another process works on the review.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { STAGE_PAUSE_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { TroupeError } from '../../base/errors.ts';
import { EXIT } from '../command.ts';
import { readStore } from '../places/stored-sessions.ts';
import { paceFor, type ReviewPace } from '../review/pace.ts';
import { findSourceFiles } from '../review/source-files.ts';
import type { Job } from '../run/job.ts';
import type { ReviewNews } from '../run/news.ts';
import { ReviewScreen } from '../run/screen.ts';
import { type StopWatch, stopSignal } from '../run/stop-signal.ts';
import { runHeader, stoppedText } from '../run/texts.ts';
import { writeIndex } from '../run/written-index.ts';
import { type Paint, paintFor, type StopSignal } from '../surroundings.ts';
import { printableJson } from '../text-layout.ts';
import { factsOf } from './facts.ts';
import type { Begin } from './protocol.ts';
import { type StageKill, type StageReport, stageJson, stageText } from './report.ts';
import { type ProcessEnd, ReviewProcess } from './review-process.ts';
import { beganText, COUNTING, continuedText, killedText, notKilledText, STANDSTILL, steeredText } from './texts.ts';

const MS_PER_SECOND = 1_000;

/** A staged review that reached its index. */
interface Performed {
  readonly done: Extract<ProcessEnd, { type: 'done' }>;
  readonly kill: StageKill | undefined;
  /** Readers that had ended before this command. */
  readonly before: number;
  /** The output of the processes on stderr. */
  readonly stderr: string;
}

/** Runs the stage. Resolves to the exit code: 1 if the log lacks something, or has something more than once. */
export async function runStage(job: Job): Promise<number> {
  const { surroundings, order, id, data, messages } = job;
  const { files } = await findSourceFiles(order.directory);
  const pace = paceFor(files.slice(0, order.limit));
  messages.write(runHeader(order, data, surroundings, paintFor(messages, surroundings.environment)));
  const screen = new ReviewScreen(id, messages, surroundings);
  const stop = stopSignal(surroundings);
  try {
    const performed = await new Stage(job, pace, screen, stop).perform();
    if (typeof performed !== 'string') return await conclude(job, screen, performed);
    screen.stop();
    messages.write(stoppedText(performed, job.again));
    return EXIT[performed];
  } finally {
    screen.stop();
    stop.forget();
  }
}

/** The processes of one staged review, one after the other. */
class Stage {
  readonly #job: Job;
  readonly #pace: ReviewPace;
  readonly #screen: ReviewScreen;
  readonly #stop: StopWatch;
  readonly #paint: Paint;
  /** The facts of the killed process. The next process adds the other facts of `StageKill`. */
  #killed: Pick<StageKill, 'pid' | 'working'> | undefined;
  #kill: StageKill | undefined;
  #before = 0;
  #stderr = '';

  constructor(job: Job, pace: ReviewPace, screen: ReviewScreen, stop: StopWatch) {
    this.#job = job;
    this.#pace = pace;
    this.#screen = screen;
    this.#stop = stop;
    this.#paint = paintFor(job.messages, job.surroundings.environment);
  }

  /**
   * Resolves to the finished review, or to the signal that stopped it. Rejects if a process fails or ends unexpectedly.
   */
  async perform(): Promise<Performed | StopSignal> {
    let end = await this.#act({ startsOver: this.#job.isFresh ? 'always' : 'finished', kills: true });
    if (typeof end !== 'string' && end.type === 'killed') {
      const stopped = await this.#standStill();
      if (stopped !== undefined) return stopped;
      end = await this.#act({ startsOver: 'never', kills: false });
    }
    if (typeof end === 'string') return end;
    if (end.type === 'done') return { done: end, kill: this.#kill, before: this.#before, stderr: this.#stderr };
    throw new TroupeError('internal', `a process of the review ended as "${end.type}" without an order to do so`);
  }

  /** Runs one process to its end, or until a signal. */
  async #act(how: Pick<Begin, 'startsOver' | 'kills'>): Promise<ProcessEnd | StopSignal> {
    const { order, id, data, surroundings } = this.#job;
    const { directory, limit } = order;
    const begun = performance.now();
    const begin: Begin = { type: 'begin', directory, limit, id, data, pace: this.#pace, ...how };
    const worker = new ReviewProcess(begin, (news) => this.#take(news, worker.pid, begun), surroundings);
    const end = await Promise.race([this.#stop.fired, worker.ended]);
    if (typeof end === 'string') await worker.stop();
    else if (end.type === 'killed') this.#killed = { pid: worker.pid, working: this.#screen.board.working };
    this.#stderr += worker.stderr;
    return end;
  }

  /** Shows the last picture of the killed process for a moment. Resolves to the signal if there is one. */
  async #standStill(): Promise<StopSignal | undefined> {
    const { board } = this.#screen;
    if (this.#killed !== undefined) this.#screen.note(this.#paint.red(killedText(this.#killed)));
    board.rate = 0;
    board.warning = STANDSTILL;
    const over = new AbortController();
    const pause = delay(STAGE_PAUSE_MS, undefined, { signal: over.signal }).catch(() => undefined);
    const stopped = await Promise.race([this.#stop.fired, pause]);
    over.abort();
    return stopped;
  }

  #take(news: ReviewNews, pid: number, begun: number): void {
    const { board } = this.#screen;
    const killed = this.#killed;
    if (news.type !== 'planned') {
      this.#screen.take(news);
      if (news.type === 'steered') this.#screen.note(this.#paint.yellow(steeredText(news)));
    } else if (killed === undefined) {
      this.#before = news.before;
      this.#screen.note(beganText(news, pid));
      this.#screen.take(news);
    } else {
      const recoverySeconds = (performance.now() - begun) / MS_PER_SECOND;
      this.#kill = { ...killed, next: pid, ended: news.before, recoverySeconds };
      board.warning = undefined;
      this.#screen.take(news);
      this.#screen.note(this.#paint.green(continuedText(this.#kill)));
    }
  }
}

/** Counts the entries of the log, and writes the index and the last screen. */
async function conclude(job: Job, screen: ReviewScreen, performed: Performed): Promise<number> {
  const { id, data, surroundings, result, isJson } = job;
  const { done, kill, before, stderr } = performed;
  const { planned, sends, seconds } = screen;
  if (planned === undefined) throw new TroupeError('internal', 'a staged review ended without a plan');
  screen.board.warning = COUNTING;
  const report: StageReport = {
    id,
    data,
    ...planned,
    index: done.index,
    indexFile: await writeIndex(data, id, done.index),
    failed: done.failed,
    seconds,
    sends,
    ...defined({ kill }),
    notKilled: notKilledText(planned.plan.files.length, before),
    facts: await readStore(data, (sessions) => factsOf(sessions, id, planned.plan)),
  };
  screen.stop();
  if (stderr !== '') surroundings.stderr.write(stderr);
  result.write(
    isJson
      ? `${printableJson(stageJson(report, surroundings))}\n`
      : stageText(report, surroundings, paintFor(result, surroundings.environment)),
  );
  return report.facts.faults.length === 0 ? EXIT.ok : EXIT.failed;
}
