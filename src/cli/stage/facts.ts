/**
 * The facts of a staged review, counted in its log after the process that wrote the log has closed the store. They say
 * what the log has once, what it lacks, and what it has twice. No fact comes from the process that did the work.
 */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { type Message, textOf } from '../../base/messages.ts';
import type { SessionEvent } from '../../index.ts';
import type { StoredSessions } from '../places/stored-sessions.ts';
import { INDEX_REQUEST, pathOfTask, planOf, type ReviewPlan, STEER_REQUEST } from '../review/plan.ts';
import { LONGEST_LINE } from '../review/source-report.ts';
import { type ReviewLog, sessionsOf } from '../run/review-log.ts';
import { counted, number } from '../text-layout.ts';

/** The reader that was steered. */
export interface SteeredReader {
  readonly session: string;
  readonly path: string;
  /** True if the log has the message after a tool's result and before another call of the same turn. */
  readonly isWithinTurn: boolean;
  /** The line of the reader's report that answers the message; missing: there is none. */
  readonly line?: string;
}

/** See the head of the file. */
export interface StageFacts {
  readonly log: ReviewLog;
  /** Planned files whose reader gave exactly one report. */
  readonly reports: number;
  /** The number of tool calls, and the number of tool calls that are in the log once and have exactly one result. */
  readonly calls: number;
  readonly results: number;
  /** The number of answers of the model, in all sessions. */
  readonly halfSteps: number;
  /** The number of half-steps and tool calls that were in flight at a kill, and began again. */
  readonly begunAgain: number;
  readonly steered?: SteeredReader;
  /** A sentence for each thing that the log lacks, or has more than once. Empty: nothing was lost. */
  readonly faults: readonly string[];
}

/** The input of `mark_goal_completed`. */
const reportSchema = z.object({ result: z.string() });
/** Events read at a time. */
const PAGE_EVENTS = 10_000;
/** Faults named one by one in a sentence. */
const FAULTS_NAMED = 3;

/** Counts the review `id` with this plan. */
export function factsOf(sessions: StoredSessions, id: string, plan: ReviewPlan): StageFacts {
  const faults: string[] = [];
  const once = (times: number, thing: string): boolean => {
    if (times !== 1) faults.push(`${thing} is in the log ${times === 0 ? 'not at all' : `${times} times`}`);
    return times === 1;
  };
  const reviewer = eventsOf(sessions, id);
  const requests = textsOfUser(messagesOf(reviewer));
  once(requests.filter((content) => planOf(content) !== undefined).length, 'the plan');
  once(requests.filter((content) => textOf(content) === INDEX_REQUEST).length, 'the request for the index');
  const received = reportsIn(reviewer);
  const readers = new Map<string, number>();
  const given = new Map<string, number>();
  let [calls, results, begunAgain] = [0, 0, begunAgainIn(reviewer)];
  const answers = messagesOf(reviewer).filter(isAnswer);
  let messagesInAll = messagesOf(reviewer).length;
  let steered: SteeredReader | undefined;
  for (const { id: session, name = '' } of sessionsOf(sessions, id)) {
    if (session === id) continue;
    const events = eventsOf(sessions, session);
    const messages = messagesOf(events);
    const texts = textsOfUser(messages).map(textOf);
    const path = pathOfTask(texts[0] ?? '') ?? session;
    readers.set(path, (readers.get(path) ?? 0) + 1);
    given.set(path, (given.get(path) ?? 0) + (received.get(name) ?? 0));
    for (const [call, { asked, answered }] of callsIn(messages)) {
      calls += 1;
      if (once(asked, `the call ${call}`) && once(answered, `the result of call ${call}`)) results += 1;
    }
    answers.push(...messages.filter(isAnswer));
    messagesInAll += messages.length;
    begunAgain += begunAgainIn(events);
    const steers = texts.filter((text) => text === STEER_REQUEST).length;
    if (steers > 0 && once(steers, `the message that steers ${session}`)) {
      steered = { session, path, isWithinTurn: isSteeredWithinTurn(events), ...defined({ line: lineIn(messages) }) };
    }
  }
  let reports = 0;
  for (const { path } of plan.files) {
    if (!once(readers.get(path) ?? 0, `the reader of ${path}`)) continue;
    if (once(given.get(path) ?? 0, `the report on ${path}`)) reports += 1;
  }
  return {
    log: {
      messages: messagesInAll,
      inputTokens: answers.reduce((sum, { usage }) => sum + (usage?.input_tokens ?? 0), 0),
      outputTokens: answers.reduce((sum, { usage }) => sum + (usage?.output_tokens ?? 0), 0),
    },
    reports,
    calls,
    results,
    halfSteps: answers.length,
    begunAgain,
    faults,
    ...defined({ steered }),
  };
}

/** The losses in one sentence. */
export function lossText({ faults }: StageFacts): string {
  const rest = faults.length > FAULTS_NAMED ? `; and ${number(faults.length - FAULTS_NAMED)} more` : '';
  return `${counted(faults.length, 'fault')}: ${faults.slice(0, FAULTS_NAMED).join('; ')}${rest}`;
}

function eventsOf(sessions: StoredSessions, id: string): readonly SessionEvent[] {
  const events: SessionEvent[] = [];
  for (;;) {
    const page = sessions.events(id, { after: events.at(-1)?.seq ?? 0, limit: PAGE_EVENTS });
    if (page.length === 0) return events;
    for (const event of page) events.push(event);
  }
}

function messagesOf(events: readonly SessionEvent[]): readonly Message[] {
  return events.flatMap((event) => (event.type === 'message.created' ? [event.message] : []));
}

function textsOfUser(messages: readonly Message[]): readonly Message['content'][] {
  return messages.flatMap(({ type, content }) => (type === 'user_message' ? [content] : []));
}

/** The calls of tools by id: how often each was asked for and answered. */
function callsIn(messages: readonly Message[]): ReadonlyMap<string, { asked: number; answered: number }> {
  const calls = new Map<string, { asked: number; answered: number }>();
  for (const { type, toolUseId } of messages) {
    if (toolUseId === undefined) continue;
    const call = calls.get(toolUseId) ?? { asked: 0, answered: 0 };
    if (type === 'tool_call') call.asked += 1;
    else if (type === 'tool_response') call.answered += 1;
    calls.set(toolUseId, call);
  }
  return calls;
}

/** True for the first message of an answer of the model, which has its usage. */
function isAnswer({ usage }: Message): boolean {
  return usage !== undefined;
}

function begunAgainIn(events: readonly SessionEvent[]): number {
  return events.reduce((sum, event) => sum + (event.type === 'session.recovered' ? event.redone.length : 0), 0);
}

/** The reports that a reviewer received, by the name of the reader. */
function reportsIn(events: readonly SessionEvent[]): ReadonlyMap<string, number> {
  const reports = new Map<string, number>();
  for (const event of events) {
    if (event.type !== 'pending.created' || event.pending.source.type !== 'subagent') continue;
    const { name = '' } = event.pending.source;
    reports.set(name, (reports.get(name) ?? 0) + 1);
  }
  return reports;
}

/** True if the steering message is between a tool's result and another call of the same turn. */
function isSteeredWithinTurn(events: readonly SessionEvent[]): boolean {
  const at = events.findIndex(
    (event) =>
      event.type === 'message.created' &&
      event.message.type === 'user_message' &&
      textOf(event.message.content) === STEER_REQUEST,
  );
  const before = events.slice(0, at);
  const turn = before.slice(before.findLastIndex(({ type }) => type === 'turn.finished') + 1);
  const after = events.slice(at);
  const end = after.findIndex(({ type }) => type === 'turn.finished');
  const rest = end === -1 ? after : after.slice(0, end);
  return (
    messagesOf(turn).some(({ type }) => type === 'tool_response') &&
    messagesOf(rest).some(({ type }) => type === 'tool_call')
  );
}

/** The longest line as the report of a reader names it. */
function lineIn(messages: readonly Message[]): string | undefined {
  for (const { type, input } of messages) {
    const report = type === 'tool_call' ? reportSchema.safeParse(input).data?.result : undefined;
    const line = report?.split('\n').find((each) => each.startsWith(`${LONGEST_LINE}: `));
    if (line !== undefined) return line;
  }
  return undefined;
}
