/** Runs a review in the process that has its runtime, and reports on it. */
import { REDRAW_INTERVAL_MS, REVIEW_ENTRIES_MAX } from '../../base/bounds.ts';
import { errorFromShape, ModelAuthenticationError } from '../../base/errors.ts';
import { textOf } from '../../base/messages.ts';
import type { Runtime } from '../../index.ts';
import { UsageError } from '../command.ts';
import { isFinishedReview, type ReviewListener, runReview } from '../review/command.ts';
import { planReview, type ReviewOrder, type ReviewPlan } from '../review/plan.ts';
import { findSourceFiles, SOURCE_KINDS } from '../review/source-files.ts';
import { parseReport } from '../review/source-report.ts';
import { counted, number, oneLine } from '../text-layout.ts';
import type { RunMeter, WorkFigures } from './figures.ts';
import type { ReviewNews } from './news.ts';

/** The review to run. */
export interface Task {
  readonly order: ReviewOrder;
  /** The reviewer's session. */
  readonly id: string;
  /** When an earlier run of the review is deleted first. `finished`: only if that run has ended. */
  readonly startsOver: 'always' | 'finished' | 'never';
}

/** The outcome of a review. */
export interface WorkDone {
  readonly index: string;
  /** Readers that did not complete their task. */
  readonly failed: number;
  readonly figures: WorkFigures;
}

/** Takes a report on the review. It must not throw. */
export type Publish = (news: ReviewNews) => void;

/** Runs the review. The reports end when the returned promise settles. */
export async function work(task: Task, runtime: Runtime, meter: RunMeter, publish: Publish): Promise<WorkDone> {
  const { order, id } = task;
  const watching = new AbortController();
  const rate = (): void => publish({ type: 'rate', halfStepsPerSecond: meter.rate(runtime.metrics().halfSteps) });
  const listener: ReviewListener = {
    planned: (plan, standing, before) => {
      publish({ type: 'planned', plan: { ...plan, files: [...plan.files] }, standing, before });
      void watchReviewer(runtime, id, publish, watching.signal);
    },
    spawned: ({ path }, { id: session }) => publish({ type: 'spawned', path, session }),
    ended: ({ path }, reason) => {
      rate();
      publish({ type: 'ended', path, reason });
    },
    accepted: (ms) => publish({ type: 'accepted', ms }),
    asking: () => publish({ type: 'asking' }),
  };
  const timer = setInterval(rate, REDRAW_INTERVAL_MS);
  try {
    if (await startsOver(task, runtime)) await runtime.sessions.delete(id);
    const reviewing = runReview(runtime, id, () => makePlan(order, publish), listener);
    const { index, failed } =
      order.model === 'claude'
        ? await Promise.race([reviewing, refusal(runtime, publish, watching.signal)])
        : await reviewing;
    return { index, failed, figures: meter.figures(runtime) };
  } finally {
    clearInterval(timer);
    watching.abort();
  }
}

async function startsOver({ startsOver: when, id }: Task, runtime: Runtime): Promise<boolean> {
  return when === 'always' || (when === 'finished' && (await isFinishedReview(runtime, id)));
}

async function makePlan(order: ReviewOrder, publish: Publish): Promise<ReviewPlan> {
  const walk = await findSourceFiles(order.directory);
  if (walk.isCut) {
    const text = `The directory has more than ${number(REVIEW_ENTRIES_MAX)} entries; the rest was not read.`;
    publish({ type: 'notice', text });
  }
  if (walk.files.length > 0) return planReview(order, walk);
  throw new UsageError(`--dir ${order.directory} has no source files (${SOURCE_KINDS}) to review`);
}

/** Reports the reviewer's events, which include the states of its children. */
async function watchReviewer(runtime: Runtime, id: string, publish: Publish, signal: AbortSignal): Promise<void> {
  try {
    for await (const event of runtime.session(id).events({ deltas: false, signal })) {
      if (event.type === 'child.state') publish({ type: 'state', session: event.child, state: event.state });
      else if (event.type === 'pending.created' && event.pending.source.type === 'subagent') {
        const news = reported(textOf(event.pending.content));
        if (news !== undefined) publish(news);
      }
    }
  } catch {
    // The display ends when the runtime is closed or the review stops.
  }
}

function reported(text: string): ReviewNews | undefined {
  const report = parseReport(text);
  if (report === undefined) return undefined;
  const note =
    'error' in report
      ? oneLine(report.error)
      : `${counted(report.lines, 'line')}, ${counted(report.exports.count, 'name')}`;
  return { type: 'reported', path: report.path, note };
}

/** Rejects when the model refuses the credentials, and reports waits between attempts. Never resolves. */
async function refusal(runtime: Runtime, publish: Publish, signal: AbortSignal): Promise<never> {
  try {
    const events = runtime.events({
      filter: ({ type }) => type === 'authentication_required' || type === 'llm.retry' || type === 'turn.finished',
      signal,
    });
    for await (const event of events) {
      if (event.type === 'authentication_required') {
        const why = errorFromShape(event.error);
        throw new ModelAuthenticationError(
          `the model refused the credentials: ${why.message}. With a valid ANTHROPIC_API_KEY the same command continues from here.`,
          { cause: why },
        );
      }
      if (event.type !== 'llm.retry') publish({ type: 'warning' });
      else {
        const wait = `next attempt in ${Math.ceil(event.waitMs / 1_000)} s`;
        const text = `${event.session}: the model refused (${event.status ?? 'no connection'}); ${wait}`;
        publish({ type: 'warning', text });
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return new Promise<never>(() => undefined);
}
