/** `troupe run`: a review of a directory by a reviewer and one reader for each source file. */
import { REVIEW_FILES_DEFAULT, REVIEW_FILES_MAX, STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { TroupeError } from '../../base/errors.ts';
import { open, type Runtime } from '../../index.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { DATA_OPTION, dataDirectory, prepareDataDirectory, sourceDirectory } from '../places/data-directory.ts';
import { readStore } from '../places/stored-sessions.ts';
import { modelOf, reviewOptions } from '../review/agents.ts';
import { type ReviewOrder, reviewId } from '../review/plan.ts';
import { runStage } from '../stage/command.ts';
import { paintFor, plainOutput, type Surroundings } from '../surroundings.ts';
import { printableJson } from '../text-layout.ts';
import { RunMeter } from './figures.ts';
import type { Job } from './job.ts';
import { type RunReport, reportJson, reportText } from './report.ts';
import { logOf } from './review-log.ts';
import { ReviewScreen } from './screen.ts';
import { stopSignal } from './stop-signal.ts';
import { runAgain, runHeader, standingText, stoppedText } from './texts.ts';
import { type WorkDone, work } from './work.ts';
import { writeIndex } from './written-index.ts';

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
      help: `Review at most N files, in the order of their paths (default: ${REVIEW_FILES_DEFAULT})`,
    },
    fresh: { kind: 'flag', help: 'Discard an earlier run of the same review, and start over' },
    scripted: { kind: 'flag', help: 'Use the scripted model even if there is a key' },
    stage: { kind: 'flag', help: 'Demonstrate a crash: the process is killed halfway, and the next one continues' },
    plain: { kind: 'flag', help: 'Print lines without colours instead of the live tree' },
    json: { kind: 'flag', help: 'Print one JSON object at the end; progress goes to stderr' },
  },
  details: [
    'A reviewer session spawns a reader for each source file. Each reads its file with read_file, in a tool thread, and reports into the mailbox of the reviewer, which answers with a review index. The index is a file in the data directory.',
    'With ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) Claude answers. Without a key a scripted model does: fixed rules over the results of the tools. Its index says that no language model wrote it.',
    'Killed in the middle and started again with the same options, it continues where it was, repeats no finished call, and ends with the same index. Exit codes: 0, 1 it failed, 2 bad arguments, 130 or 143 stopped by a signal.',
    '--stage shows this in about 15 seconds, always with the scripted model: one reader is steered in its turn, the process that works is killed with kill -9, and the next one continues from the log. At its end it counts what the log holds, and exits with 1 if something is missing. If the last staged review finished, the next one starts over.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const isStaged = given.flag('stage');
  const order: ReviewOrder = {
    directory: await sourceDirectory(given.text('dir'), surroundings),
    // A staged review never calls a paid model.
    model: given.flag('scripted') || isStaged ? 'scripted' : modelOf(surroundings.environment),
    limit: given.count('limit') ?? REVIEW_FILES_DEFAULT,
    isStaged,
  };
  const data = dataDirectory(given, surroundings);
  await prepareDataDirectory(data);
  const isJson = given.flag('json');
  const messages = isJson ? surroundings.stderr : surroundings.stdout;
  const isPlain = given.flag('plain');
  const job: Job = {
    order,
    id: reviewId(order),
    data,
    isFresh: given.flag('fresh'),
    isJson,
    messages: isPlain ? plainOutput(messages) : messages,
    result: isPlain ? plainOutput(surroundings.stdout) : surroundings.stdout,
    again: runAgain(given, data, surroundings),
    surroundings,
  };
  return isStaged ? runStage(job) : review(job);
}

async function review(job: Job): Promise<number> {
  const { surroundings, order, id, data, messages, isFresh } = job;
  messages.write(runHeader(order, data, surroundings, paintFor(messages, surroundings.environment)));
  const meter = new RunMeter();
  const screen = new ReviewScreen(id, messages, surroundings);
  const stop = stopSignal(surroundings);
  let runtime: Runtime | undefined;
  try {
    // The tree on a terminal shows failures itself, and log lines would disturb its drawing.
    const logger = messages.isTerminal && surroundings.stderr.isTerminal ? false : commandLogger(surroundings);
    runtime = await open(data, { ...reviewOptions(id, order.directory, order.model), logger });
    meter.opened();
    const working = work({ order, id, startsOver: isFresh ? 'always' : 'never' }, runtime, meter, (news) => {
      if (news.type === 'planned') messages.write(standingText(news.plan, news.standing, news.before));
      screen.take(news);
    });
    const ended = await Promise.race([stop.fired, working]);
    const seconds = screen.seconds;
    screen.stop();
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
    if (typeof ended !== 'string') {
      await conclude(job, screen, ended, seconds);
      return EXIT.ok;
    }
    messages.write(stoppedText(ended, job.again));
    return EXIT[ended];
  } finally {
    screen.stop();
    stop.forget();
    meter.stop();
    await runtime?.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

/** Writes the index to its file, and the report to the result's stream. */
async function conclude(job: Job, screen: ReviewScreen, done: WorkDone, seconds: number): Promise<void> {
  const { id, order, data, surroundings, result, isJson } = job;
  const { planned, sends } = screen;
  if (planned === undefined) throw new TroupeError('internal', 'a review ended without a plan');
  const report: RunReport = {
    id,
    order,
    data,
    ...planned,
    index: done.index,
    indexFile: await writeIndex(data, id, done.index),
    failed: done.failed,
    figures: { ...done.figures, ...sends, sessions: 1 + planned.plan.files.length, seconds },
    log: await readStore(data, (sessions) => logOf(sessions, id)),
  };
  result.write(
    isJson
      ? `${printableJson(reportJson(report, surroundings))}\n`
      : reportText(report, surroundings, paintFor(result, surroundings.environment)),
  );
}
