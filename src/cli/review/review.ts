/**
 * The review: a reviewer and a reader for each file. Written so that running it again is going on with it: every step has a
 * key, the plan is the reviewer's first message, and what was answered is asked of the log.
 *
 * Owns: the order of the steps. Does not own: the runtime, what is shown meanwhile.
 *  V1 the plan is durable before the first reader is; a review that is started again reads the plan and not the directory;
 *  V2 the reviewer is paused from before its plan until every reader has ended, so the index is one answer over all reports;
 *  V3 a reader is spawned by the key of its path, the index is asked for by its key: nothing that was answered is asked again.
 */
import { REVIEW_ATTEMPTS_MAX } from '../../base/bounds.ts';
import { TurnFailedError } from '../../base/errors.ts';
import { textOf } from '../../base/messages.ts';
import type { Child, Receipt, Runtime, Session } from '../../index.ts';
import { INDEX_REQUEST, type PlannedFile, planMessage, planOf, type ReviewPlan, reviewAgents, taskOf } from './plan.ts';

/** Where a review stands when it is taken up. */
export type ReviewStanding = 'new' | 'continued' | 'finished';

/** Who is told how a review goes. None of it may throw. */
export interface ReviewListener {
  /** The plan is made, or was found in the log; `standing` says which. `before`: readers that had ended by then. */
  planned(plan: ReviewPlan, standing: ReviewStanding, before: number): void;
  /** A file has a reader; `child` is its session. */
  spawned(file: PlannedFile, child: Child): void;
  /** A reader ended. */
  ended(file: PlannedFile, reason: 'completed' | 'failed' | 'cancelled'): void;
  /** Something was accepted, `ms` after it was sent. */
  accepted(ms: number): void;
  /** All readers have ended; the index is asked for. */
  asking(): void;
}

/** How a review ended. */
export interface ReviewResult {
  readonly index: string;
  readonly plan: ReviewPlan;
  readonly standing: ReviewStanding;
  /** Readers that did not complete their task. */
  readonly failed: number;
}

/** The key of the plan's message. */
const PLAN_KEY = 'plan';
/** Spawns under way at once: they share flushes, and no receipt waits behind hundreds of others. */
const SPAWN_LANES = 16;

/**
 * Runs a review to its end, from wherever it stands. `makePlan` is called when the log has none. Rejects with
 * `TurnFailedError` when the reviewer's own turn fails; a reader that fails is part of the index.
 */
export async function runReview(
  runtime: Runtime,
  id: string,
  makePlan: () => Promise<ReviewPlan>,
  listener: ReviewListener,
): Promise<ReviewResult> {
  const agents = reviewAgents(id);
  const reviewer = runtime.session(id, agents.reviewer);
  // What stopped for want of a good key goes on: there may be one now.
  await runtime.resume();
  const known = await findPlan(reviewer);
  const standing = known === undefined ? 'new' : (await isAnswered(reviewer)) ? 'finished' : 'continued';
  const plan = known ?? (await startReview(reviewer, await makePlan(), listener));
  const { children } = await reviewer.state();
  listener.planned(plan, standing, children.filter(({ exited }) => exited !== undefined).length);
  // Finished: the log has the answer, and readers that failed on the way to it are part of it.
  const failed =
    standing === 'finished'
      ? await failedReaders(reviewer)
      : await readAll({ reviewer, agent: agents.reader, plan, listener });
  listener.asking();
  const index = await askForIndex(reviewer, listener);
  return { index, plan, standing, failed };
}

/** The plan: the reviewer's first message, or still in its mailbox. */
async function findPlan(reviewer: Session): Promise<ReviewPlan | undefined> {
  for (const { content } of [...(await reviewer.messages({ limit: 1 })), ...(await reviewer.pending())]) {
    const plan = planOf(content);
    if (plan !== undefined) return plan;
  }
  return undefined;
}

/** True when the log holds an answer behind the request for the index, and nothing is under way. */
async function isAnswered(reviewer: Session): Promise<boolean> {
  const { state } = await reviewer.state();
  if (state !== 'idle') return false;
  const messages = await reviewer.messages();
  const asked = messages.findIndex(({ type, content }) => type === 'user_message' && textOf(content) === INDEX_REQUEST);
  return asked !== -1 && messages.slice(asked).some(({ type }) => type === 'agent_message');
}

/** V1, V2: paused first, then the plan; a crash in between leaves a paused session without one, which is begun anew. */
async function startReview(reviewer: Session, plan: ReviewPlan, listener: ReviewListener): Promise<ReviewPlan> {
  await reviewer.pause();
  await timed(listener, () => reviewer.send(planMessage(plan), { key: PLAN_KEY, deliver: 'steer' }));
  return plan;
}

async function failedReaders(reviewer: Session): Promise<number> {
  const { children } = await reviewer.state();
  return children.filter(({ exited }) => exited !== 'completed').length;
}

interface Reading {
  readonly reviewer: Session;
  /** Name of the readers' agent. */
  readonly agent: string;
  readonly plan: ReviewPlan;
  readonly listener: ReviewListener;
}

/** A reader for each file; resolves to the number that failed when all have ended. */
async function readAll(reading: Reading): Promise<number> {
  const { children } = await reading.reviewer.state();
  const known = new Map(children.map((child) => [child.id, child.exited]));
  const waiting = reading.plan.files.values();
  const ends: Promise<string>[] = [];
  // Each lane spawns one after the other: the first readers work while the last are still to be spawned.
  const lane = async (): Promise<void> => {
    for (const file of waiting) {
      const child = await readerOf(reading, file, known);
      reading.listener.spawned(file, child);
      const end = endOf(reading, file, child);
      // Looked at when all are spawned, or never: what ends the spawning, a runtime that closes, ends the waiting too.
      end.catch(() => undefined);
      ends.push(end);
    }
  };
  await Promise.all(Array.from({ length: SPAWN_LANES }, lane));
  return (await Promise.all(ends)).filter((reason) => reason !== 'completed').length;
}

async function endOf({ listener }: Reading, file: PlannedFile, child: Child): Promise<string> {
  const { reason } = await child.exit();
  listener.ended(file, reason);
  return reason;
}

/** The reader of a file: the one it has, or another where that one failed before this process began. */
async function readerOf(
  { reviewer, agent, listener }: Reading,
  file: PlannedFile,
  known: ReadonlyMap<string, string | undefined>,
): Promise<Child> {
  for (let attempt = 1; ; attempt += 1) {
    const begun = performance.now();
    // A reader in place of one that failed is named by the runtime: its first name is taken.
    const name = attempt === 1 ? { name: file.reader } : {};
    const key = attempt === 1 ? `read:${file.path}` : `read:${file.path}:${attempt}`;
    const child = await reviewer.spawn({ agent, task: taskOf(file), ...name }, { key });
    if (!known.has(child.id)) listener.accepted(performance.now() - begun);
    if (known.get(child.id) !== 'failed' || attempt === REVIEW_ATTEMPTS_MAX) return child;
  }
}

/**
 * The answer to the request for the index. A request whose turn failed in an earlier run is made again under another key; a
 * failure of this run is the caller's.
 */
async function askForIndex(reviewer: Session, listener: ReviewListener): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const begun = performance.now();
    const receipt = await reviewer.send(INDEX_REQUEST, { key: `index:${attempt}`, deliver: 'steer' });
    if (!receipt.duplicate) listener.accepted(performance.now() - begun);
    await reviewer.resume();
    if (!(await failedBefore(receipt)) || attempt === REVIEW_ATTEMPTS_MAX) return answerOf(receipt);
  }
}

async function failedBefore(receipt: Receipt): Promise<boolean> {
  return receipt.duplicate && (await receipt.status()).status === 'dropped';
}

async function answerOf(receipt: Receipt): Promise<string> {
  const answer = await receipt.answer();
  if (answer.trim() === '') throw new TurnFailedError('the reviewer ended its turn without an index');
  return answer;
}

async function timed<T>(listener: ReviewListener, send: () => Promise<T>): Promise<T> {
  const begun = performance.now();
  const value = await send();
  listener.accepted(performance.now() - begun);
  return value;
}
