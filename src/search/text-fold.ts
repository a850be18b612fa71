/**
 * Computes which searchable messages a session's records create, without the session's state. For a session that was
 * never edited, the seq of its next message and its waiting entries are enough. So a reader can follow the log of a
 * shard in its order. It holds only these facts for each session. Pure.
 *
 * Invariants:
 *  F1 a message has the same seq as in the state that `src/session/apply` makes of the same records. Folding stops at a
 *     record that removes or changes earlier messages. Then the session must be read as a whole, and folding continues
 *     from the session's state.
 */
import { z } from 'zod';
import type { HistoryMessage } from '../base/history-message.ts';
import { textOf } from '../base/messages.ts';
import { thoughtOf } from '../events/view-modes.ts';
import { loggedForm, ownSeq } from '../session/history/logged-form.ts';
import { answerText } from '../session/rules/answer.ts';
import { joinContents } from '../session/rules/promotion.ts';
import { withContent } from '../session/rules/waiting-content.ts';
import type { Entry, SessionRecord, TransitionRecords } from '../session/state/records.ts';
import type { SessionState } from '../session/state/state.ts';
import { foundText, type SearchableText, searchableText } from './searchable.ts';

/**
 * The number of seqs of a phantom pair: a call and its result, which stand in the log for an entry that no user sent.
 */
const PHANTOM_MESSAGES = 2;

/** The facts about a session between two transitions. The caller owns the object, and folding changes it. */
export interface TextFold {
  nextSeq: number;
  /**
   * Waiting entries by id. For an entry that a search cannot find, only the number of seqs that it will take is kept.
   */
  mailbox: Record<number, WaitingText>;
  /** The session's name; missing if it has none. */
  name?: string | undefined;
}

/**
 * A waiting entry. `takes`: the number of seqs that the entry will take, or `text` for an entry that a search can find.
 * Adjacent entries with `merges` become one message.
 */
export type WaitingText =
  | { readonly takes: 0 | 1 | 2 }
  | { readonly takes: 'text'; readonly content: Entry['content']; readonly merges: boolean };

/** The schema of a saved fold. */
export const textFoldSchema: z.ZodType<TextFold> = z.object({
  nextSeq: z.number().int().positive(),
  mailbox: z.record(
    z.coerce.number(),
    z.union([
      z.object({ takes: z.union([z.literal(0), z.literal(1), z.literal(2)]) }),
      // The blocks of a content are not checked, because `waitingOf` took them from a record that was checked before.
      z.object({ takes: z.literal('text'), content: z.custom<Entry['content']>(isContent), merges: z.boolean() }),
    ]),
  ),
  name: z.string().optional(),
});

function isContent(value: unknown): boolean {
  return typeof value === 'string' || Array.isArray(value);
}

/** The fold before the first record. */
export function newTextFold(): TextFold {
  return { nextSeq: 1, mailbox: {} };
}

/**
 * The fold that continues after a known state of a session. The state must have all contents of waiting entries in
 * memory.
 */
export function textFoldOf(state: SessionState): TextFold {
  const mailbox = Object.fromEntries(
    state.mailbox.map((entry) => [entry.id, waitingOf(withContent(entry, undefined))]),
  );
  return { nextSeq: state.nextMessageSeq, mailbox, name: state.name };
}

/**
 * Folds the records of a transition. Returns the searchable messages that they create, or `undefined` if the session
 * must be read as a whole (F1).
 */
export function foldTexts(fold: TextFold, { at, records }: TransitionRecords): readonly SearchableText[] | undefined {
  const found: SearchableText[] = [];
  for (const record of records) {
    if (!foldRecord(fold, record, at, found)) return undefined;
  }
  return found;
}

/** Folds one record. Returns false for a record at which the fold stops (F1). */
function foldRecord(fold: TextFold, record: SessionRecord, at: number, found: SearchableText[]): boolean {
  const said = (kind: SearchableText['kind'], text: string): void => {
    const message = foundText({ seq: fold.nextSeq, at, kind, text });
    if (message !== undefined) found.push(message);
    fold.nextSeq += 1;
  };
  switch (record.type) {
    case 'created':
      fold.name = record.name;
      if (record.task !== undefined) said('human', record.task);
      return true;
    case 'accepted':
      fold.mailbox[record.id] = waitingOf(record.entry);
      return true;
    case 'claimed':
    case 'gathered':
    case 'closed':
    case 'compacting':
      promote(fold, record.entries, said);
      return true;
    case 'dropped':
    case 'recalled':
    case 'poisoned':
      delete fold.mailbox[record.id];
      return true;
    case 'noted':
      said('system', record.content);
      return true;
    case 'corrected':
      if (record.text !== undefined) said('system', record.text);
      return true;
    case 'responded':
      foldAnswer(fold, record, said);
      return true;
    case 'failed':
      return !takesBack(record);
    case 'edited':
      if (takesBack(record)) return false;
      for (const { message } of record.added ?? []) addMessage(fold, message, at, found);
      return true;
    case 'compacted':
      said('anima', record.summary);
      // Each shortened result is a new message, which replaces the message with the whole result.
      fold.nextSeq += record.cut?.length ?? 0;
      return true;
    case 'restarted':
    case 'forked':
    case 'historyRemoved':
      return false;
    case 'epoch':
    case 'system':
    case 'evicted':
    case 'retried':
    case 'lost':
    case 'interrupted':
    case 'released':
    case 'spawned':
    case 'childRevived':
    case 'childStarted':
    case 'revived':
    case 'started':
    case 'childExited':
    case 'goalCompleted':
    case 'goalCreated':
    case 'goalUpdated':
    case 'goalDone':
    case 'pinned':
    case 'exited':
    case 'restartScheduled':
    case 'paused':
    case 'resumed':
    case 'recovered':
    case 'proceeded':
    case 'suspended':
    case 'continued':
    case 'asked':
    case 'misanswered':
    case 'decided':
    case 'blocked':
    case 'rolledBack':
    case 'upgraded':
    case 'taskStarted':
    case 'taskActivated':
    case 'forkMade':
    case 'compactionFailed':
    case 'budgetUsed':
    case 'budgetSet':
    case 'budgetShared':
    case 'childNamed':
    case 'preparing':
    case 'recalling':
    case 'prepared':
    case 'summaryBegun':
    case 'summaryAwaited':
    case 'summaryEnded':
    case 'remembered':
    case 'summaryFailed':
    case 'summaryDropped':
    case 'letterDropped':
      return true;
    case 'named':
      fold.name = record.name;
      return true;
  }
}

/** True for a record that may remove or change an earlier message. */
export function takesBack(record: SessionRecord): boolean {
  if (record.type === 'historyRemoved') return true;
  if (record.type === 'failed') return record.bounced !== undefined;
  return record.type === 'edited' && (record.removed ?? []).length + (record.updated ?? []).length > 0;
}

/** Adds a history message. Its parts take the next seqs, wherever the message is inserted. */
function addMessage(fold: TextFold, message: HistoryMessage, at: number, found: SearchableText[]): void {
  for (const part of loggedForm(message)) {
    const text = searchableText({ ...part, seq: fold.nextSeq, at });
    if (text !== undefined) found.push(text);
    fold.nextSeq += 1;
  }
  fold.nextSeq = Math.max(fold.nextSeq, ownSeq(message.id) + 1);
}

function waitingOf({
  type,
  content,
  seed,
  deliver,
}: Pick<Entry, 'type' | 'content' | 'seed' | 'deliver'>): WaitingText {
  if (seed !== undefined) return { takes: 0 };
  if (type === 'tool_response') return { takes: 1 };
  if (type !== 'user_message') return { takes: PHANTOM_MESSAGES };
  return { takes: 'text', content, merges: deliver === 'merge' };
}

function promote(
  fold: TextFold,
  ids: readonly number[],
  said: (kind: SearchableText['kind'], text: string) => void,
): void {
  for (let index = 0; index < ids.length; index += 1) {
    const entry = takeEntry(fold, ids[index]);
    if (entry === undefined) continue;
    if (entry.takes !== 'text') {
      fold.nextSeq += entry.takes;
      continue;
    }
    const contents = [entry.content];
    while (entry.merges) {
      const id = ids[index + 1];
      const next = id === undefined ? undefined : fold.mailbox[id];
      if (next?.takes !== 'text' || !next.merges) break;
      takeEntry(fold, id);
      contents.push(next.content);
      index += 1;
    }
    said('human', textOf(joinContents(contents)));
  }
}

function takeEntry(fold: TextFold, id: number | undefined): WaitingText | undefined {
  if (id === undefined) return undefined;
  const entry = fold.mailbox[id];
  delete fold.mailbox[id];
  return entry;
}

function foldAnswer(
  fold: TextFold,
  { content }: Extract<SessionRecord, { type: 'responded' }>,
  said: (kind: SearchableText['kind'], text: string) => void,
): void {
  const first = fold.nextSeq;
  const text = answerText(content);
  if (text.trim() !== '') said('anima', text);
  for (const block of content) {
    if (block.type !== 'tool_use') continue;
    if (block.name === 'think') said('thought', thoughtOf(block).content);
    else fold.nextSeq += 1;
  }
  // An answer without text and calls is one message, as in `src/session/apply/answer.ts`.
  if (fold.nextSeq === first && content.length > 0) fold.nextSeq += 1;
}
