/**
 * Pages of a session's contents: messages of its log, its mailbox, its viewport, its request. Runs on the session's
 * thread. A page is bounded in bytes while it is read, and has at least one item if there is one.
 */

import type { SessionActor } from '../../../actors/session-actor.ts';
import type { Message, Pending } from '../../base/messages.ts';
import { checkRequest } from '../../context/legality/legality.ts';
import { charactersOfContent } from '../../events/reading/event-buffer.ts';
import type { Journal } from '../../journal/journal.ts';
import type { ModelRequest } from '../../models/provider.ts';
import { bodyOf } from '../../models/request-body.ts';
import { bySeq, everyMessage } from '../../session/history/branch.ts';
import { withContent } from '../../session/rules/waiting-content.ts';
import type { ReadContent } from '../../session/state/messages.ts';
import { type LoggedMessage, type MailboxEntry, publicEntry, publicMessage } from '../../session/state/messages.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { Page, PageBounds, RequestPage } from '../protocol/pages.ts';
import { beginningOf } from './log-beginning.ts';
import { foldLog } from './session-reader.ts';

/**
 * Maximum violations reported of one request. More would add nothing for a program that breaks the same rule with each
 * message.
 */
const VIOLATIONS_MAX = 100;

/** A page of a list, by the index of its items. If the list changes between two pages, its items may shift. */
export function pageByPlace<Item>(list: readonly Item[], bounds: PageBounds): Page<Item> {
  const from = Math.min(Number(bounds.after ?? 0), list.length);
  const items = fitting(list, from, bounds);
  const end = from + items.length;
  return { items, ...(end < list.length ? { next: String(end) } : {}) };
}

/** A page of the messages of a log, by their numbers. Messages that have left the memory are read from the log. */
export function messagePage(journal: Journal, actor: SessionActor, bounds: PageBounds): Page<Message> {
  for (let after = Number(bounds.after ?? 0); ; ) {
    const { floor, hiddenFloor } = actor.state;
    const isInMemory = after + 1 >= Math.max(floor, hiddenFloor);
    const { state, end } = isInMemory
      ? { state: everyMessage(actor.state), end: undefined }
      : messagesFrom(journal, actor, after, bounds.bytesMax);
    const later = bySeq(state).filter(({ seq }) => seq > after && (end === undefined || seq <= end));
    const found = fitting(later, 0, bounds);
    const isCut = found.length < later.length || end !== undefined;
    const last = found.length < later.length ? found.at(-1)?.seq : end;
    // All messages of this part of the log have since been removed from the history. The page continues after the part.
    if (found.length === 0 && end !== undefined) {
      after = end;
      continue;
    }
    return { items: found.map(publicMessage), ...(isCut && last !== undefined ? { next: String(last) } : {}) };
  }
}

/**
 * A page of the mailbox in drain order. `next` names an entry by its group in this order and by its id. Both stay the
 * same when other entries leave or arrive.
 */
export function pendingPage(state: SessionState, bounds: PageBounds, read: ReadContent): Page<Pending> {
  const [rankAfter = -1, idAfter = 0] = (bounds.after ?? '').split('-').filter(Boolean).map(Number);
  const left = inDrainOrder(state).filter((entry) => {
    const rank = rankOf(entry);
    return rank > rankAfter || (rank === rankAfter && entry.id > idAfter);
  });
  const entries = fitting(left, 0, bounds, ({ bytes }) => bytes);
  const last = entries.at(-1);
  const isCut = entries.length < left.length && last !== undefined;
  const items = entries.map((entry) => publicEntry(withContent(entry, read)));
  return { items, ...(isCut ? { next: `${rankOf(last)}-${last.id}` } : {}) };
}

/** A page of a request. */
export function requestPage(request: ModelRequest, bounds: PageBounds): RequestPage {
  const { messages, ...head } = request;
  const page = pageByPlace(messages, bounds);
  if (bounds.after !== undefined) return page;
  return { ...page, head, violations: checkRequest(bodyOf(request)).slice(0, VIOLATIONS_MAX) };
}

/** The whole mailbox in drain order. `read` fetches contents that are only in the log. */
export function pendingOf(state: SessionState, read: ReadContent): readonly Pending[] {
  return inDrainOrder(state).map((entry) => publicEntry(withContent(entry, read)));
}

/**
 * The mailbox in drain order: tool responses, background entries, interrupts, steers, then the other entries. The
 * entries of each group are in order of arrival (§4.2).
 */
function inDrainOrder({ mailbox }: SessionState): readonly MailboxEntry[] {
  return mailbox.toSorted((a, b) => rankOf(a) - rankOf(b) || a.id - b.id);
}

function rankOf(entry: MailboxEntry): number {
  if (entry.type === 'tool_response') return 0;
  if (entry.kind === 'background') return 1;
  if (entry.deliver === 'interrupt') return 2;
  return entry.deliver === 'steer' ? 3 : 4;
}

function fitting<Item>(
  list: readonly Item[],
  from: number,
  { limit, bytesMax }: PageBounds,
  bytesOf: (item: Item) => number = charactersOfContent,
): readonly Item[] {
  let end = from;
  for (let bytes = 0; end < list.length && end - from < limit; end += 1) {
    const item = list[end];
    if (item !== undefined) bytes += bytesOf(item);
    if (end > from && bytes > bytesMax) break;
  }
  return list.slice(from, end);
}

/**
 * Folds the log without evictions and with every branch: the result has all messages that were not removed. A log may
 * be larger than memory. So contents are kept only for messages after `after`, until `bytesMax` is used up. `end`: the
 * last number whose content was kept; undefined: all were kept.
 */
function messagesFrom(
  journal: Journal,
  actor: SessionActor,
  after: number,
  bytesMax: number,
): { readonly state: readonly LoggedMessage[]; readonly end: number | undefined } {
  const { state, position } = beginningOf(journal, actor.id, actor.key, true);
  const fresh: number[] = [];
  let bytes = 0;
  let last = after;
  let isCut = false;
  const letGo = (): void => {
    for (const seq of fresh.splice(0)) {
      const index = state.messages.findLastIndex((message) => message.seq === seq);
      const message = state.messages[index];
      if (message === undefined) continue;
      if (seq > after) {
        bytes += charactersOfContent(message.content) + charactersOfContent(message.input);
        isCut ||= last > after && bytes > bytesMax;
        if (!isCut) {
          last = Math.max(last, seq);
          continue;
        }
      }
      const { input: _input, ...kept } = message;
      state.messages[index] = { ...kept, content: '' };
    }
  };
  foldLog(journal, actor.key, state, position, {
    // Called between two transitions, when the state is complete.
    turn: letGo,
    event: (body) => {
      if (body.type === 'message.created') fresh.push(body.message.seq);
    },
  });
  letGo();
  return { state: state.messages, end: isCut ? last : undefined };
}
