/**
 * Applies the records of a compression. During a compression the session awaits a model call, as during a half-step.
 * Afterwards it returns to its earlier state, whether or not the compression succeeded. Changes the given state in
 * place, as `apply` does; otherwise pure.
 *
 * Invariants:
 *  C1 a compression is atomic: summary, archived and shortened messages, numbers and tokens all change together, or not
 *     at all;
 *  C2 no message leaves the log: archived messages are hidden, and return to their position on a branch that does not
 *     have the compression;
 *  C3 an archive's number is one more than the last number given; a level counts the compressions that succeeded.
 */
import { CHUNKS_AT_HAND_MAX, COMPRESSION_RETRY_MESSAGES } from '../../base/bounds.ts';
import type { Draft } from '../../base/draft.ts';
import type { AssistantMessage } from '../../base/history-message.ts';
import { addUsage, textOf, type Usage } from '../../base/messages.ts';
import { showBranch } from '../history/branch.ts';
import { chunkName } from '../history/chunk-card.ts';
import { INTERRUPTED, inRanges, isSummary } from '../history/compression-plan.ts';
import { messageId } from '../history/history-form.ts';
import { loggedForm, placeOf } from '../history/logged-form.ts';
import { withDeparture } from '../rules/eviction.ts';
import type { MessageDraft } from '../rules/promotion.ts';
import { type LoggedMessage, publicMessage } from '../state/messages.ts';
import type { RecordOf, SessionRecord } from '../state/records.ts';
import type { ChunkNote, CompactionCall, CompressionState, SessionState } from '../state/state.ts';
import { estimateContent } from '../state/tokens.ts';
import type { Fold } from './fold.ts';
import { promoteAll } from './mailbox.ts';

/**
 * A compression begins. Like a claim, this record promotes entries and starts a model call, but it begins no turn. If
 * the compression replaces a call whose prompt was too long, the session is `awaiting` already and stays `awaiting`.
 */
export function applyCompacting(fold: Fold, record: RecordOf<'compacting'>): void {
  const { state } = fold;
  const { halfStep, overflow, tail } = record;
  const { current: suspended, state: returnsTo } = state;
  if (returnsTo === 'awaiting' && (overflow === undefined || suspended === undefined)) {
    throw new Error('T1/T2: compacting while awaiting');
  }
  if (returnsTo !== 'awaiting') fold.enter('awaiting');
  promoteAll(fold, record.entries);
  const compaction: Draft<CompactionCall> = { returnsTo, through: state.nextMessageSeq - 1, at: fold.at };
  if (tail !== undefined) compaction.tail = tail;
  if (overflow !== undefined && suspended !== undefined) compaction.overflow = { ...overflow, suspended };
  state.current = { halfStep, attempt: 1, compaction };
  state.nextHalfStep = halfStep + 1;
}

/** The summary replaces the summed-up messages. */
export function applyCompacted(fold: Fold, record: RecordOf<'compacted'>): void {
  const { state } = fold;
  const compaction = endCompaction(state, record.halfStep, record.usage);
  const { archived, created } = applyCompaction(state, record, fold.at);
  fold.openEpoch();
  if (fold.counts()) {
    const { number, level, chunk } = record;
    const body = {
      type: 'compaction.applied',
      number,
      level,
      archived,
      created: created.map(publicMessage),
    } as const;
    fold.publish(chunk === undefined ? body : { ...body, chunk: chunk.number });
  }
  goBack(fold, compaction);
}

/** The compression failed. It changed no message; the entries promoted at its beginning stay promoted. */
export function applyCompactionFailed(fold: Fold, record: RecordOf<'compactionFailed'>): void {
  const compaction = endCompaction(fold.state, record.halfStep, record.usage);
  noteFailedCompaction(fold.state, record);
  if (fold.counts()) fold.publish({ type: 'compaction.failed', reason: record.reason });
  goBack(fold, compaction);
}

/** Counts the tokens of the compression for the session, but for no turn, and returns the compression that ends. */
function endCompaction(state: SessionState, halfStep: number, usage: Usage | undefined): CompactionCall {
  const compaction = state.current?.compaction;
  if (compaction === undefined || state.current?.halfStep !== halfStep) {
    throw new Error('S3: the end of no current compression');
  }
  if (usage !== undefined) state.usage = addUsage(state.usage, usage);
  return compaction;
}

/** Returns the session to its state before the compression, or to the model call that the compression replaced. */
function goBack(fold: Fold, { returnsTo, overflow }: CompactionCall): void {
  const { state } = fold;
  if (overflow === undefined) {
    state.current = undefined;
    fold.enter(returnsTo);
    return;
  }
  const { halfStep, attempt, bouncing, keeps } = overflow.suspended;
  state.current = {
    halfStep,
    attempt,
    overflowed: true,
    ...(bouncing === undefined ? {} : { bouncing }),
    ...(keeps === undefined ? {} : { keeps }),
  };
}

type Compacted = Extract<SessionRecord, { type: 'compacted' }>;

/** The messages that a compression changed, for events. */
export interface CompactionOutcome {
  readonly archived: readonly number[];
  /** The messages that the compression created, the summary first. */
  readonly created: readonly LoggedMessage[];
}

/** Replaces the summed-up messages by a summary. Throws an Error if the first kept message does not exist. */
function applyCompaction(state: SessionState, record: Compacted, at: number): CompactionOutcome {
  const isArchived = inRanges(record.archived);
  const { number } = record;
  state.compactions.set(number, { task: record.task, at });
  state.departures = withDeparture(state.departures, at);
  const summary = summaryMessage(state, record, isArchived, at);
  const cut = new Map((record.cut ?? []).map(({ seq, content }) => [seq, content]));
  const archived: number[] = [];
  const created: LoggedMessage[] = [];
  const messages: LoggedMessage[] = [];
  for (const message of state.messages) {
    if (message.seq === record.kept) {
      messages.push(summary);
      created.unshift(summary);
    }
    const content = cut.get(message.seq);
    const leaves = message.prompt !== true && (content !== undefined || isArchived(message.seq));
    messages.push(leaves ? { ...message, archivedBy: [...(message.archivedBy ?? []), number] } : message);
    if (leaves) archived.push(message.seq);
    if (content === undefined) continue;
    const shortened = shortenedMessage(state, message, content, record.task);
    messages.push(shortened);
    created.push(shortened);
  }
  if (created[0] !== summary) throw new Error(`C1: a summary before message ${record.kept}, which is not there`);
  for (const message of created) state.tokens += message.tokens;
  state.messages = messages;
  showBranch(state);
  note(state, record);
  return { archived, created };
}

function summaryMessage(
  state: SessionState,
  record: Compacted,
  isArchived: (seq: number) => boolean,
  at: number,
): LoggedMessage {
  const keptAt = state.messages.findIndex((message) => message.seq === record.kept);
  const next = state.messages[keptAt];
  const before = state.messages[keptAt - 1];
  const high = next === undefined ? state.nextMessageSeq : placeOf(next);
  const low = before === undefined ? high - 1 : placeOf(before);
  const superseded = state.messages.flatMap((each) => (isSummary(each) && isArchived(each.seq) ? chunksOf(each) : []));
  const message: AssistantMessage = {
    id: '',
    createdAt: at,
    role: 'assistant',
    content: record.summary,
    compressedSummary: true,
    ...(record.chunk === undefined ? {} : { chunkPath: chunkName(record.chunk.number) }),
    ...(superseded.length === 0 ? {} : { earlierChunks: superseded.slice(-CHUNKS_AT_HAND_MAX) }),
    ...(record.task === undefined ? {} : { taskId: record.task }),
  };
  const [part] = loggedForm(message);
  return placed(state, part, at, low + (high - low) / 2);
}

/** The names of the archives that a summary covers. Archives of the summaries that this summary replaced come first. */
function chunksOf({ history }: LoggedMessage): readonly string[] {
  const earlier = history?.['earlierChunks'];
  const own = history?.['chunkPath'];
  return [...(Array.isArray(earlier) ? (earlier as readonly string[]) : []), ...(typeof own === 'string' ? [own] : [])];
}

/** The short form of a result that stays in the window. It has the history id of the whole result, which is hidden. */
function shortenedMessage(
  state: SessionState,
  whole: LoggedMessage,
  content: LoggedMessage['content'],
  task: number | undefined,
): LoggedMessage {
  const { archivedBy: _archivedBy, history, seq: _seq, at, ...rest } = whole;
  const base = { id: messageId(whole), createdAt: history?.createdAt ?? at, shortened: true };
  const taskId = task ?? history?.taskId;
  const shortened: MessageDraft = {
    ...rest,
    content,
    tokens: estimateContent(content),
    shortens: whole.shortens ?? whole.seq,
    history: {
      ...(history?.role === 'tool' ? history : toolForm(whole, content)),
      ...base,
      content,
      ...(taskId === undefined ? {} : { taskId }),
    },
  };
  return placed(state, shortened, at, placeOf(whole));
}

function toolForm(
  message: LoggedMessage,
  content: LoggedMessage['content'],
): {
  readonly role: 'tool';
  readonly toolCallId: string;
  readonly name: string;
  readonly error?: string;
  readonly errorType?: string;
} {
  const failed = message.success === false ? { error: textOf(content), errorType: 'execution_error' } : {};
  return { role: 'tool', toolCallId: message.toolUseId ?? '', name: message.toolName ?? '', ...failed };
}

function placed(state: SessionState, draft: MessageDraft, at: number, place: number): LoggedMessage {
  const message: LoggedMessage = { ...draft, seq: state.nextMessageSeq, at, place };
  state.nextMessageSeq += 1;
  return message;
}

function note(state: SessionState, record: Compacted): void {
  const compression = compressionOf(state);
  const { halfStep, number, level, chunk } = record;
  compression.number = number;
  compression.level = level;
  compression.hasFailed = false;
  compression.last = { halfStep, compressed: true, level, ...(chunk === undefined ? {} : { chunk: chunk.number }) };
  compression.since = state.nextMessageSeq;
  if (chunk === undefined) return;
  const noted: Draft<ChunkNote> = { number: chunk.number, messageCount: chunk.messageCount };
  if (chunk.topics !== undefined) noted.topics = chunk.topics;
  compression.chunk = chunk.number;
  compression.notes = [...compression.notes, noted].slice(-CHUNKS_AT_HAND_MAX);
}

/** Remembers that a compression failed. No automatic compression begins before there are more messages. */
function noteFailedCompaction(state: SessionState, record: Extract<SessionRecord, { type: 'compactionFailed' }>): void {
  const compression = compressionOf(state);
  // A compression that was interrupted may succeed the next time, so it does not count as failed.
  if (record.reason !== INTERRUPTED) compression.hasFailed = true;
  compression.last = { halfStep: record.halfStep, compressed: false, reason: record.reason };
  compression.restsUntil = state.nextMessageSeq + COMPRESSION_RETRY_MESSAGES;
}

function compressionOf(state: SessionState): CompressionState {
  state.compression ??= {
    number: 0,
    level: 0,
    chunk: 0,
    notes: [],
    since: 0,
    restsUntil: 0,
    hasFailed: false,
    last: undefined,
  };
  return state.compression;
}
