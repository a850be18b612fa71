/** `troupe run`: a review of a directory by a reviewer and one reader for each source file. */
import { REVIEW_ENTRIES_MAX, REVIEW_FILES_DEFAULT, REVIEW_FILES_MAX, STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { errorFromShape, ModelAuthenticationError } from '../../base/errors.ts';
import { open, type Runtime } from '../../index.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { DATA_OPTION, dataDirectory, prepareDataDirectory, sourceDirectory } from '../places/data-directory.ts';
import { readStore, type StoredSessions } from '../places/stored-sessions.ts';
import { modelOf, reviewOptions } from '../review/agents.ts';
import { ReviewBoard } from '../review/board.ts';
import { type ReviewListener, runReview } from '../review/command.ts';
import { planReview, type ReviewOrder, type ReviewPlan, reviewId } from '../review/plan.ts';
import { findSourceFiles, SOURCE_KINDS } from '../review/source-files.ts';
import { type Output, paintFor, type StopSignal, type Surroundings } from '../surroundings.ts';
import { number, printableJson } from '../text-layout.ts';
import { RunMeter } from './figures.ts';
import { type Progress, showProgress } from './progress.ts';
import { type ReviewLog, type RunReport, reportJson, reportText } from './report.ts';
import { runAgain, runHeader, standingText, stoppedText } from './texts.ts';

/** See the head of the file. */
export const runCommand: Command = {
  positionals: [],
  options: {
    dir: { kind: 'text', value: 'DIR', help: 'Directory to review (default: the sources of this project)' },
    data: DATA_OPTION,
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: REVIEW_FILES_MAX,
      help: `Files at most, the first by path (default: ${REVIEW_FILES_DEFAULT})`,
    },
    fresh: { kind: 'flag', help: 'Discard an earlier run of the same review, and start over' },
    scripted: { kind: 'flag', help: 'Use the scripted model even if there is a key' },
    json: { kind: 'flag', help: 'Print one JSON object at the end; progress goes to stderr' },
  },
  details: [
    'A reviewer session spawns a reader for each source file. Each reads its file with read_file, in a tool thread, and reports into the mailbox of the reviewer, which answers with a review index.',
    'With ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) Claude answers. Without, a scripted model does: rules that work from the tool results they are given, and say so.',
    'Killed in the middle and started again with the same options, it continues where it was, repeats no finished call, and ends with the same index. Exit codes: 0, 1 it failed, 2 bad arguments, 130 or 143 stopped by a signal.',
  ],
  run,
};

type Ended = Omit<RunReport, 'log'>;

/** The input of a run. */
interface Job {
  readonly order: ReviewOrder;
  readonly id: string;
  readonly data: string;
  readonly isFresh: boolean;
  readonly isJson: boolean;
  /** The command that repeats this run. */
  readonly again: string;
  readonly surroundings: Surroundings;
}

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const order: ReviewOrder = {
    directory: await sourceDirectory(given.text('dir'), surroundings),
    model: given.flag('scripted') ? 'scripted' : modelOf(surroundings.environment),
    limit: given.count('limit') ?? REVIEW_FILES_DEFAULT,
  };
  const data = dataDirectory(given, surroundings);
  await prepareDataDirectory(data);
  return review({
    order,
    id: reviewId(order),
    data,
    isFresh: given.flag('fresh'),
    isJson: given.flag('json'),
    again: runAgain(given, data, surroundings),
    surroundings,
  });
}

async function review(job: Job): Promise<number> {
  const { surroundings, order, data, isJson } = job;
  const messages = isJson ? surroundings.stderr : surroundings.stdout;
  messages.write(runHeader(order, data, surroundings, paintFor(messages, surroundings.environment)));
  const meter = new RunMeter();
  const stop = stopSignal(surroundings);
  let runtime: Runtime | undefined;
  try {
    // The tree on a terminal shows failures itself, and log lines would disturb its drawing.
    const logger = messages.isTerminal && surroundings.stderr.isTerminal ? false : commandLogger(surroundings);
    runtime = await open(data, { ...reviewOptions(job.id, order.directory, order.model), logger });
    meter.opened();
    const ended = await Promise.race([stop.fired, work(job, runtime, meter, messages)]);
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
    if (typeof ended !== 'string') {
      write(job, { ...ended, log: await readStore(data, (sessions) => logOf(sessions, job.id)) });
      return EXIT.ok;
    }
    messages.write(stoppedText(ended, job.again));
    return EXIT[ended];
  } finally {
    stop.forget();
    meter.stop();
    await runtime?.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

/**
 * Runs the review with its displays. The displays are removed when the returned promise settles or a signal arrives.
 */
async function work(job: Job, runtime: Runtime, meter: RunMeter, messages: Output): Promise<Ended> {
  const { surroundings, order, id, data } = job;
  const board = new ReviewBoard();
  const watching = new AbortController();
  let progress: Progress | undefined;
  // A signal closes the runtime during the review, so the terminal is restored first.
  const unsubscribe = surroundings.onStop(() => progress?.stop());
  const listener: ReviewListener = {
    planned: (plan, standing, before) => {
      messages.write(standingText(plan, standing, before));
      board.planned(plan);
      const source = {
        board,
        id,
        rate: () => meter.rate(runtime.metrics().halfSteps),
        seconds: () => meter.seconds,
      };
      if (standing !== 'finished') progress = showProgress(messages, source, surroundings);
      void watchReviewer(runtime, id, board, watching.signal);
    },
    spawned: (file, child) => board.spawned(file, child.id),
    ended: (file, reason) => {
      board.ended(file, reason);
      progress?.changed();
    },
    accepted: (ms) => meter.accepted(ms),
    asking: () => {
      board.isAsking = true;
      progress?.changed();
    },
  };
  try {
    if (job.isFresh) await runtime.sessions.delete(id);
    const reviewing = runReview(runtime, id, () => makePlan(order, messages), listener);
    const result =
      order.model === 'claude'
        ? await Promise.race([reviewing, refusal(runtime, board, watching.signal)])
        : await reviewing;
    return { id, order, data, result, figures: meter.figures(runtime, 1 + result.plan.files.length) };
  } finally {
    watching.abort();
    progress?.stop();
    unsubscribe();
  }
}

async function makePlan(order: ReviewOrder, messages: Output): Promise<ReviewPlan> {
  const walk = await findSourceFiles(order.directory);
  if (walk.isCut) {
    messages.write(`The directory has more than ${number(REVIEW_ENTRIES_MAX)} entries; the rest was not read.\n`);
  }
  if (walk.files.length > 0) return planReview(order, walk);
  throw new UsageError(`--dir ${order.directory} has no source files (${SOURCE_KINDS}) to review`);
}

/** Feeds the board from the reviewer's events, which include the states of its children. */
async function watchReviewer(runtime: Runtime, id: string, board: ReviewBoard, signal: AbortSignal): Promise<void> {
  try {
    for await (const event of runtime.session(id).events({ deltas: false, signal })) board.event(event);
  } catch {
    // The display ends when the runtime is closed or the review stops.
  }
}

/** Rejects when the model refuses the credentials, and reports waits between attempts to the board. Never resolves. */
async function refusal(runtime: Runtime, board: ReviewBoard, signal: AbortSignal): Promise<never> {
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
      board.warning =
        event.type === 'llm.retry'
          ? `${event.session}: the model refused (${event.status ?? 'no connection'}); next attempt in ${Math.ceil(event.waitMs / 1_000)} s`
          : undefined;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return new Promise<never>(() => undefined);
}

/** The counts of a review, read from the log after the writer has closed. */
function logOf(sessions: StoredSessions, id: string): ReviewLog {
  let [messages, inputTokens, outputTokens] = [0, 0, 0];
  for (const each of sessions.list()) {
    const session = each.id === id || each.parent === id ? sessions.session(each.id) : undefined;
    messages += session?.messages ?? 0;
    inputTokens += session?.usage.input_tokens ?? 0;
    outputTokens += session?.usage.output_tokens ?? 0;
  }
  return { messages, inputTokens, outputTokens };
}

function write({ isJson, surroundings }: Job, report: RunReport): void {
  const { stdout, environment } = surroundings;
  stdout.write(
    isJson
      ? `${printableJson(reportJson(report, surroundings))}\n`
      : reportText(report, surroundings, paintFor(stdout, environment)),
  );
}

/** Resolves with the first signal. After that, and after `forget`, a signal ends the process as usual. */
function stopSignal(surroundings: Surroundings): { readonly fired: Promise<StopSignal>; forget(): void } {
  let forget = (): void => undefined;
  const fired = new Promise<StopSignal>((resolve) => {
    forget = surroundings.onStop((signal) => {
      forget();
      resolve(signal);
    });
  });
  return { fired, forget: () => forget() };
}
