/**
 * Applies the records about entries and dead letters. Entries are accepted, promoted into the log, recalled, dropped,
 * or set aside as dead letters. Dead letters are sent again or dropped. Changes the given state in place, as `apply`
 * does; otherwise pure. Keeps S2 and S9 of `state.ts`: an entry waits, or has left the mailbox in exactly one way (A7).
 */
import { DEAD_LETTER_BYTES_MAX, DEAD_LETTERS_MAX, KEYS_REMEMBERED_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import type { Source } from '../../base/messages.ts';
import { imagesIn } from '../rules/images.ts';
import { KIND_OF } from '../rules/mailbox.ts';
import { joinContents, promote } from '../rules/promotion.ts';
import { isStored, withContent } from '../rules/waiting-content.ts';
import type { FilledEntry } from '../state/messages.ts';
import { hasReceipt, type MailboxEntry, publicEntry } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { BouncingMessage, CurrentCall, ReceiptState, SessionState } from '../state/state.ts';
import { contentBytes, formBytes } from '../state/tokens.ts';
import { publishActive } from './activation.ts';
import { showChild } from './children.ts';
import { forgetPrepared } from './enrichment.ts';
import { type Fold, forgetOldest } from './fold.ts';

/** The fate of promoted messages if their half-step fails. `bouncing`: those that leave; `keeps`: others stay. */
type Bouncing = { readonly [Field in 'bouncing' | 'keeps']?: NonNullable<CurrentCall[Field]> };

/** The source of an entry that names no source. */
const USER: Source = Object.freeze({ type: 'user' });
const NOTHING_PROMOTED: Bouncing = Object.freeze({});
const KEPT: Bouncing = Object.freeze({ keeps: true as const });
const ACCEPTED: ReceiptState = Object.freeze({ status: 'accepted' });

/** An entry begins to wait. If it is the response of a call, the call is no longer open. */
export function applyAccepted(fold: Fold, record: RecordOf<'accepted'>): void {
  const { state } = fold;
  const { entry } = record;
  const source = entry.source ?? USER;
  const waiting: Draft<MailboxEntry> = {
    id: record.id,
    type: entry.type,
    kind: KIND_OF[entry.type],
    content: entry.content,
    bytes: contentBytes(entry.content),
    at: fold.at,
    source,
  };
  const images = imagesIn(entry.content);
  if (images !== undefined) waiting.images = images;
  if (entry.toolUseId !== undefined) waiting.toolUseId = entry.toolUseId;
  if (entry.success !== undefined) waiting.success = entry.success;
  if (entry.deliver !== undefined) waiting.deliver = entry.deliver;
  if (entry.bounceBack !== undefined) waiting.bounceBack = entry.bounceBack;
  if (entry.seed !== undefined) waiting.seed = entry.seed;
  if (entry.key !== undefined) waiting.key = entry.key;
  if (entry.letter !== undefined) {
    waiting.letter = entry.letter;
    removeLetter(fold, entry.letter, 'resent', record.id);
  }
  if (entry.output !== undefined) {
    waiting.output = entry.output;
    waiting.bytes += formBytes(entry.output);
  }
  state.mailbox.push(waiting);
  if (entry.seed === undefined) state.mailboxBytes += waiting.bytes;
  state.nextPendingId = record.id + 1;
  if (hasReceipt(entry)) state.receipts.set(record.id, ACCEPTED);
  const { toolUseId } = entry;
  const isResult = entry.type === 'tool_response' && toolUseId !== undefined;
  if (isResult) state.openCalls.delete(toolUseId);
  if (fold.counts())
    fold.publish({ type: 'pending.created', pending: publicEntry({ ...waiting, content: entry.content }) });
  if (entry.letter !== undefined) rememberResent(state, entry.letter, record.id);
  if (isResult && fold.counts()) {
    fold.publish({
      type: 'tool.finished',
      toolUseId,
      toolName: source.name ?? '',
      success: entry.success ?? true,
      ...(entry.ms === undefined ? {} : { ms: entry.ms }),
    });
  }
  if (waiting.kind === 'background') publishActive(fold);
  if (entry.key !== undefined) {
    state.keys.set(entry.key, { id: record.id, fingerprint: entry.fingerprint ?? '', seq: state.eventSeq });
    forgetOldest(state.keys, KEYS_REMEMBERED_MAX);
  }
}

/** Promotes entries in the given order. Returns what happens to their messages if the half-step fails. */
export function promoteAll(fold: Fold, ids: readonly number[]): Bouncing {
  const chosen = takeEntries(fold.state, ids).map((entry) => filled(fold, entry));
  let bouncing: BouncingMessage[] | undefined;
  let keeps: true | undefined;
  for (let index = 0; index < chosen.length; index += 1) {
    const entry = chosen[index];
    if (entry === undefined) break;
    const group: [FilledEntry, ...FilledEntry[]] = [entry];
    if (entry.deliver === 'merge') {
      for (let next = chosen[index + 1]; next?.deliver === 'merge'; next = chosen[index + 1]) {
        group.push(next);
        index += 1;
      }
    }
    const messageSeq = promoteGroup(fold, group);
    if (entry.kind === 'active' && entry.type !== 'tool_response') {
      const asking = group.find(({ bounceBack }) => bounceBack === true);
      if (asking === undefined) keeps = true;
      else {
        const content = group.length === 1 ? entry.content : joinContents(group.map((each) => each.content));
        bouncing ??= [];
        bouncing.push({ entry: asking.id, content, ...(messageSeq === undefined ? {} : { messageSeq }) });
      }
    }
  }
  if (bouncing === undefined) return keeps === undefined ? NOTHING_PROMOTED : KEPT;
  return keeps === undefined ? { bouncing } : { bouncing, keeps };
}

/**
 * Promotes one entry, or `merge` entries together (§3.5). Returns the seq of the message, if there is exactly one. The
 * entry of a child's task adds no message: the message is in the log already, and `seed` is its seq.
 */
function promoteGroup(fold: Fold, group: readonly [FilledEntry, ...FilledEntry[]]): number | undefined {
  const { state } = fold;
  const drafts = promote(group);
  for (const entry of group) {
    if (fold.counts()) fold.publish({ type: 'pending.removed', pendingId: entry.id, reason: 'promoted' });
  }
  const firstSeq = state.nextMessageSeq;
  for (const draft of drafts) fold.append(draft);
  if (group[0].type === 'tool_response') fold.said(1);
  if (group[0].type === 'subagent') showChild(fold, group[0].source.name);
  const messageSeq = drafts.length === 1 ? firstSeq : group[0].seed;
  for (const entry of group) {
    if (!hasReceipt(entry)) continue;
    const turn = state.turn?.id ?? 0;
    state.turn?.entries.push(entry.id);
    if (entry.output !== undefined && state.turn !== undefined) state.turn.form = entry.output;
    state.receipts.set(
      entry.id,
      messageSeq === undefined ? { status: 'promoted', turn } : { status: 'promoted', turn, messageSeq },
    );
    fold.observer?.promoted?.(entry.id);
  }
  return messageSeq;
}

/** The runtime removed an entry; its sender receives the reason. */
export function applyDropped(fold: Fold, record: RecordOf<'dropped'>): void {
  discard(fold, record.id, 'dropped', record.reason);
  if (fold.state.active !== undefined) publishActive(fold);
}

/** The sender recalled an entry. */
export function applyRecalled(fold: Fold, record: RecordOf<'recalled'>): void {
  discard(fold, record.id, 'recalled', 'recalled');
}

function discard(fold: Fold, id: number, reason: 'recalled' | 'dropped', detail: string): void {
  if (fold.state.prepared !== undefined) forgetPrepared(fold.state, [id]);
  const entry = takeEntry(fold.state, id);
  if (fold.counts()) fold.publish({ type: 'pending.removed', pendingId: id, reason });
  if (hasReceipt(entry)) fold.settle(id, { status: 'dropped', reason: detail });
}

/**
 * An entry that cannot be promoted is set aside as a dead letter. Beyond the bounds the oldest letters are dropped:
 * their senders already know that the delivery failed.
 */
export function applyPoisoned(fold: Fold, record: RecordOf<'poisoned'>): void {
  const { state } = fold;
  const entry = takeEntry(state, record.id);
  state.deadLetters.push({ entry, error: record.error, at: fold.at });
  if (fold.counts()) fold.publish({ type: 'pending.removed', pendingId: record.id, reason: 'dropped' });
  const isAnnounced = record.announced === true;
  if (isAnnounced) fold.countAndPublish({ type: 'dead_letter.created', letter: record.id, error: record.error });
  evictLetters(fold, isAnnounced);
  if (hasReceipt(entry)) {
    fold.settle(record.id, { status: 'dropped', reason: `dead letter: ${record.error.message}` });
  }
  if (state.active !== undefined) publishActive(fold);
}

/** A dead letter was dropped on request. */
export function applyLetterDropped(fold: Fold, record: RecordOf<'letterDropped'>): void {
  removeLetter(fold, record.id, 'dropped');
}

/** Keeps the dead letters within their bounds. `isAnnounced`: events report the letters that leave. */
function evictLetters(fold: Fold, isAnnounced: boolean): void {
  const { deadLetters } = fold.state;
  let bytes = 0;
  for (const { entry } of deadLetters) bytes += entry.bytes;
  while (deadLetters.length > 1 && (deadLetters.length > DEAD_LETTERS_MAX || bytes > DEAD_LETTER_BYTES_MAX)) {
    const oldest = deadLetters.shift();
    if (oldest === undefined) return;
    bytes -= oldest.entry.bytes;
    if (isAnnounced) {
      fold.countAndPublish({ type: 'dead_letter.removed', letter: oldest.entry.id, reason: 'evicted' });
    }
  }
}

/** Takes a dead letter out of the list. Throws an Error for an unknown letter, because then the log is broken. */
function removeLetter(fold: Fold, letter: number, reason: 'resent' | 'dropped', pendingId?: number): void {
  const { deadLetters } = fold.state;
  const index = deadLetters.findIndex(({ entry }) => entry.id === letter);
  if (index === -1) throw new Error(`S9: there is no dead letter ${letter}`);
  deadLetters.splice(index, 1);
  fold.countAndPublish({ type: 'dead_letter.removed', letter, reason, ...defined({ pendingId }) });
}

/** Remembers the entry that a letter became, so that sending the letter again returns the same receipt. */
function rememberResent(state: SessionState, letter: number, pendingId: number): void {
  state.resentLetters ??= [];
  state.resentLetters.push({ letter, pendingId, seq: state.eventSeq });
  if (state.resentLetters.length > DEAD_LETTERS_MAX) state.resentLetters.shift();
}

/** Adjusts the byte count of the mailbox for an entry that left it (S8). */
function left(state: SessionState, { seed, bytes }: MailboxEntry): void {
  if (seed === undefined) state.mailboxBytes -= bytes;
}

/** The entry with its content in memory. Most entries already have their content in memory: they are returned as is. */
function filled(fold: Fold, entry: MailboxEntry): FilledEntry {
  return isStored(entry.content) ? withContent(entry, fold.readContent) : (entry as FilledEntry);
}

/**
 * Up to this many entries are removed one by one. More entries are removed in one pass, so that the work is not
 * quadratic.
 */
const TAKEN_SINGLY_MAX = 8;

/**
 * Removes entries from the mailbox and returns them in the order of `ids`. Throws an Error for an unknown id, because
 * then the log is broken.
 */
function takeEntries(state: SessionState, ids: readonly number[]): readonly MailboxEntry[] {
  const first = ids[0];
  if (first !== undefined && ids.length === 1) return [takeEntry(state, first)];
  if (ids.length <= TAKEN_SINGLY_MAX) return ids.map((id) => takeEntry(state, id));
  const wanted = new Map<number, MailboxEntry | undefined>(ids.map((id) => [id, undefined]));
  state.mailbox = state.mailbox.filter((entry) => {
    if (!wanted.has(entry.id)) return true;
    left(state, entry);
    wanted.set(entry.id, entry);
    return false;
  });
  return ids.map((id) => {
    const entry = wanted.get(id);
    if (entry === undefined) throw new Error(`S2: entry ${id} is not waiting`);
    return entry;
  });
}

function takeEntry(state: SessionState, id: number): MailboxEntry {
  const { mailbox } = state;
  let index = 0;
  while (index < mailbox.length && mailbox[index]?.id !== id) index += 1;
  const entry = mailbox[index];
  if (entry === undefined) throw new Error(`S2: entry ${id} is not waiting`);
  left(state, entry);
  // A single entry is removed without the list that `splice` would allocate.
  if (mailbox.length === 1) mailbox.pop();
  else mailbox.splice(index, 1);
  return entry;
}
