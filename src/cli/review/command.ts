/**
 * Runs a review: a reviewer, and a reader for each file. A review that runs again continues: every step has a key, the
 * plan is the reviewer's first message, and earlier answers are read from the log.
 *
 * Owns: the order of the steps. Does not own: the runtime, the display.
 *  V1 the plan is durable before the first reader exists; a review that is started again reads the plan and not the
 *     directory;
 *  V2 the reviewer is paused from before its plan until every reader has ended, so the index is one answer over all
 *     reports;
 *  V3 the key of a spawned reader has its file's path and its attempt; the key of a request for the index has its
 *     attempt. So no request that was answered is made again.
 */
import { REVIEW_ATTEMPTS_MAX } from '../../base/bounds.ts';
import { TurnFailedError } from '../../base/errors.ts';
import { textOf } from '../../base/messages.ts';
import type { Child, Receipt, Runtime, Session } from '../../index.ts';
import { INDEX_REQUEST, type PlannedFile, planMessage, planOf, type ReviewPlan, reviewAgents, taskOf } from './plan.ts';

/** How far a review had come when this run started. */
export type ReviewStanding = 'new' | 'continued' | 'finished';

/** A listener for the progress of a review. Its methods must not throw. */
export interface ReviewListener {
  /**
   * Called when the plan was made, or found in the log; `standing` says which. `before`: the number of readers that had
   * ended before this call.
   */
  planned(plan: ReviewPlan, standing: ReviewStanding, before: number): void;
  /** Called when a file has a reader; `child` is the reader's session. */
  spawned(file: PlannedFile, child: Child): void;
  /** Called when a reader ended. */
  ended(file: PlannedFile, reason: 'completed' | 'failed' | 'cancelled'): void;
  /** Called when a message or spawn was accepted, `ms` after it was sent. */
  accepted(ms: number): void;
  /** Called when all readers have ended and the index is requested. */
  asking(): void;
}

/** The result of a review. */
export interface ReviewResult {
  readonly index: string;
  readonly plan: ReviewPlan;
  readonly standing: ReviewStanding;
  /** Readers that did not complete their task. */
  readonly failed: number;
}

/** The key of the plan's message. */
const PLAN_KEY = 'plan';
/** Maximum concurrent spawns: enough to share flushes, and so few that no receipt waits behind hundreds of others. */
const SPAWN_LANES = 16;

/**
 * Runs a review to its end, however far it had come. `makePlan` is called when the log has no plan. Rejects with
 * `TurnFailedError` when the reviewer's own turn fails; the failure of a reader is part of the index.
 */
export async function runReview(
  runtime: Runtime,
  id: string,
  makePlan: () => Promise<ReviewPlan>,
  listener: ReviewListener,
): Promise<ReviewResult> {
  const agents = reviewAgents(id);
  const reviewer = runtime.session(id, agents.reviewer);
  // Sessions that a bad key blocked continue, because there may be a good key now.
  await runtime.resume();
  const known = await findPlan(reviewer);
  const standing = known === undefined ? 'new' : (await isAnswered(reviewer)) ? 'finished' : 'continued';
  const plan = known ?? (await startReview(reviewer, await makePlan(), listener));
  const { children } = await reviewer.state();
  listener.planned(plan, standing, children.filter(({ exited }) => exited !== undefined).length);
  // In a finished review no reader runs again: the answer in the log also covers the failed readers.
  const failed =
    standing === 'finished'
      ? await failedReaders(reviewer)
      : await readAll({ reviewer, agent: agents.reader, plan, listener });
  listener.asking();
  const index = await askForIndex(reviewer, listener);
  return { index, plan, standing, failed };
}

/** True for a review whose index is in the log. */
export function isFinishedReview(runtime: Runtime, id: string): Promise<boolean> {
  return isAnswered(runtime.session(id, reviewAgents(id).reviewer));
}

/** The plan, from the reviewer's first message or its mailbox. */
async function findPlan(reviewer: Session): Promise<ReviewPlan | undefined> {
  for (const { content } of [...(await reviewer.messages({ limit: 1 })), ...(await reviewer.pending())]) {
    const plan = planOf(content);
    if (plan !== undefined) return plan;
  }
  return undefined;
}

/** True when the log holds an answer after the request for the index, and no work is in flight. */
async function isAnswered(reviewer: Session): Promise<boolean> {
  const { state } = await reviewer.state();
  if (state !== 'idle') return false;
  const messages = await reviewer.messages();
  const asked = messages.findIndex(({ type, content }) => type === 'user_message' && textOf(content) === INDEX_REQUEST);
  return asked !== -1 && messages.slice(asked).some(({ type }) => type === 'agent_message');
}

/**
 * Pauses the session first, then sends the plan (V1, V2). After a crash in between, the session is paused and has no
 * plan, so the review starts over.
 */
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

/** Runs a reader for each file; resolves to the number of failed readers when all have ended. */
async function readAll(reading: Reading): Promise<number> {
  const { children } = await reading.reviewer.state();
  const known = new Map(children.map((child) => [child.id, child.exited]));
  const waiting = reading.plan.files.values();
  const ends: Promise<string>[] = [];
  // Each lane spawns one reader after the other: the first readers work while the last are not spawned yet.
  const lane = async (): Promise<void> => {
    for (const file of waiting) {
      const child = await readerOf(reading, file, known);
      reading.listener.spawned(file, child);
      const end = endOf(reading, file, child);
      // `end` is awaited when all readers are spawned. If spawning fails, for example because the runtime closes, `end`
      // is never awaited. The same failure may reject `end`, and that must not be an unhandled rejection.
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

/** The reader of a file: the existing reader, or a new one if the existing reader failed before this process began. */
async function readerOf(
  { reviewer, agent, listener }: Reading,
  file: PlannedFile,
  known: ReadonlyMap<string, string | undefined>,
): Promise<Child> {
  for (let attempt = 1; ; attempt += 1) {
    const begun = performance.now();
    // The runtime chooses the name of the replacement, because the failed reader still holds the first name.
    const name = attempt === 1 ? { name: file.reader } : {};
    const key = attempt === 1 ? `read:${file.path}` : `read:${file.path}:${attempt}`;
    const child = await reviewer.spawn({ agent, task: taskOf(file), ...name }, { key });
    if (!known.has(child.id)) listener.accepted(performance.now() - begun);
    if (known.get(child.id) !== 'failed' || attempt === REVIEW_ATTEMPTS_MAX) return child;
  }
}

/**
 * The answer to the request for the index. If the turn of a request failed in an earlier run, the request is sent again
 * under another key. A failure in this run is thrown to the caller.
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
