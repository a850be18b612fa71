/**
 * The mailbox's rules (contract §3): kinds of entries, validation, bounds, and the entries that a half-step promotes,
 * in order. Pure: the functions only read a state.
 */
import { BYTES_PER_TOKEN, LIMIT_DEFAULTS, PHANTOM_CALL_TOKENS } from '../../base/bounds.ts';
import { checkBlocks } from '../../base/content-rules.ts';
import { ContentError, describeValue, MailboxFullError } from '../../base/errors.ts';
import { isBlank, type PendingType } from '../../base/messages.ts';
import { hasEnded } from '../state/child-link.ts';
import type { Environment } from '../state/inputs.ts';
import type { MailboxEntry } from '../state/messages.ts';
import type { Entry } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { asksProvider } from './server-uses.ts';

/**
 * The kind of each type of entry (§3.1). `active` entries cause half-steps. `background` entries join a half-step that
 * another entry causes.
 */
export const KIND_OF: Readonly<Record<PendingType, 'active' | 'background'>> = Object.freeze({
  user_message: 'active',
  tool_response: 'active',
  subagent: 'active',
  from_mneme: 'background',
  from_melete_skill: 'background',
  from_melete_workflow: 'background',
  from_melete_goal: 'background',
});

/** Checks that an entry can be promoted later. Throws `ContentError` if it cannot (F013, F014). */
export function checkEntry(entry: Entry): void {
  if (!Object.hasOwn(KIND_OF, entry.type)) {
    throw new ContentError(`unknown type of mailbox entry: ${describeValue(entry.type)}`);
  }
  if (isBlank(entry.content)) throw new ContentError(`content of a ${entry.type} entry must not be blank`);
  if (typeof entry.content !== 'string') checkBlocks(entry.content, 'content', 'message');
  if (entry.type === 'tool_response' && (entry.toolUseId === undefined || entry.toolUseId === '')) {
    throw new ContentError('a tool_response entry needs a tool use id');
  }
  const { source } = entry;
  if (source !== undefined && source.type !== 'user' && (source.name === undefined || source.name.trim() === '')) {
    throw new ContentError(`a ${entry.type} entry from ${JSON.stringify(source.type)} needs a source name`);
  }
}

/**
 * Why the mailbox cannot accept another entry of this size; undefined if it can. Used for entries from outside. Results
 * of calls and replies of children are always accepted, because their senders cannot try again. Their bytes still count
 * when a later entry is checked. An empty mailbox accepts any message, so that full mailboxes of other sessions cannot
 * make this session unreachable.
 */
export function mailboxRefusal(
  state: SessionState,
  bytes: number,
  { limits, waitingBytes = 0 }: Pick<Environment, 'limits' | 'waitingBytes'>,
): MailboxFullError | undefined {
  const name = JSON.stringify(state.id);
  if (state.mailbox.length >= limits.mailbox) {
    const message = `the mailbox of ${name} holds ${limits.mailbox} entries (limits.mailbox)`;
    return new MailboxFullError(message, { data: { limit: 'mailbox' } });
  }
  if (state.mailboxBytes === 0) return undefined;
  if (state.mailboxBytes + bytes > limits.mailboxBytes) {
    const message = `${bytes} bytes do not fit into the mailbox of ${name}: ${state.mailboxBytes} bytes wait there already (limits.mailboxBytes: ${limits.mailboxBytes})`;
    return new MailboxFullError(message, { data: { limit: 'mailboxBytes', value: bytes } });
  }
  if (waitingBytes + bytes > limits.waitingBytes) {
    const message = `${bytes} bytes do not fit: ${waitingBytes} bytes wait in the mailboxes of all sessions already (limits.waitingBytes: ${limits.waitingBytes})`;
    return new MailboxFullError(message, { data: { limit: 'waitingBytes', value: bytes } });
  }
  return undefined;
}

/** True if every call of the round has its response, in the log or in the mailbox (§2). */
export function isRoundComplete(state: SessionState): boolean {
  return state.openCalls.size === 0;
}

/** True if the session's state allows the claim of a half-step (T1, T2). */
export function mayStart(state: SessionState): boolean {
  if (state.paused || state.blocked !== undefined || state.held !== undefined) return false;
  if (state.enrichment !== undefined) return false;
  return state.state === 'idle' || (state.state === 'executing' && isRoundComplete(state));
}

/** True if an active entry waits. Such an entry causes a half-step. */
export function hasActive(state: Pick<SessionState, 'mailbox'>): boolean {
  for (const entry of state.mailbox) if (entry.kind === 'active') return true;
  return false;
}

/** True if an idle session has something to begin. Only a user's message or `resume` continues a suspended run. */
export function mayBegin(state: Pick<SessionState, 'suspended' | 'revived' | 'mailbox'>): boolean {
  if (state.suspended === undefined) return hasActive(state);
  return state.revived === 'resumed' || state.mailbox.some((entry) => entry.type === 'user_message');
}

/** True for a child that is to work and has not begun: it waits for a place, or to be admitted. */
export function waitsToBegin(state: SessionState): boolean {
  if (state.parent === undefined || hasEnded(state) || state.state !== 'idle') return false;
  return state.queued || (state.restartAt === undefined && mayStart(state) && mayBegin(state));
}

/** The entries that one half-step promotes, in this order: responses, background, steers, riders. */
export interface Selection {
  readonly responses: readonly MailboxEntry[];
  readonly background: readonly MailboxEntry[];
  readonly steers: readonly MailboxEntry[];
  /** One entry, or all waiting sub-agent replies (Δ33), or the waiting `merge` entries that become one message. */
  readonly riders: readonly MailboxEntry[];
}

/** Bytes of the blank line between two texts. */
const MERGE_JOIN_BYTES = 2;

/** The empty list. It is not frozen, for the reason at `NO_RECORDS`. */
const NONE: readonly never[] = [];

/**
 * The selection of the next half-step (§4.2 with Δ33 and the delivery policies), or `undefined` if no active entry can
 * be promoted now. `mergeBytesMax`: UTF-8 bytes of one merged message; `merge` entries are taken in order while they
 * fit. `turn` and `interrupt` entries, and entries that ask for a form of answer, are taken only in idle, one at a
 * time. An `interrupt` entry is taken before all other waiting entries.
 */
export function selectEntries(
  state: SessionState,
  mergeBytesMax: number = LIMIT_DEFAULTS.messageBytes,
): Selection | undefined {
  if (asksProvider(state)) return selectResults(state);
  const only = state.mailbox[0];
  if (only !== undefined && state.mailbox.length === 1) return selectOnly(state, only);
  const responses: MailboxEntry[] = [];
  const background: MailboxEntry[] = [];
  const steers: MailboxEntry[] = [];
  const candidates: MailboxEntry[] = [];
  let task: MailboxEntry | undefined;
  for (const entry of state.mailbox) {
    if (entry.seed !== undefined) task = entry;
    else if (entry.type === 'tool_response') responses.push(entry);
    else if (entry.kind === 'background') background.push(entry);
    else if (entry.deliver === 'steer') steers.push(entry);
    else candidates.push(entry);
  }
  const fresh = state.state === 'idle' && responses.length === 0;
  // A task starts its turn before any waiting entry, because its message is already in the log and could not start a
  // turn later (R12).
  if (task !== undefined) return { responses, background, steers, riders: [task] };
  if (fresh) {
    const interrupting = candidates.find((entry) => entry.deliver === 'interrupt');
    if (interrupting !== undefined) return { responses, background, steers: [], riders: [interrupting] };
  }
  const riders =
    fresh && steers.length === 0
      ? ridersOf(candidates, candidates[0], mergeBytesMax)
      : ridersOf(
          candidates,
          candidates.find((entry) => !isAlone(entry)),
          mergeBytesMax,
        );
  if (responses.length === 0 && steers.length === 0 && riders.length === 0) return undefined;
  return { responses, background, steers, riders };
}

/** Selects only the results of the round (R52). All other entries wait for the request after the next one. */
function selectResults({ mailbox }: SessionState): Selection | undefined {
  const responses = mailbox.filter((entry) => entry.type === 'tool_response');
  return responses.length === 0 ? undefined : { responses, background: NONE, steers: NONE, riders: NONE };
}

/** True for an entry that needs a separate turn: by its delivery, or because it asks for a form of answer. */
function isAlone({ deliver, output }: MailboxEntry): boolean {
  return deliver === 'turn' || deliver === 'interrupt' || output !== undefined;
}

/** The selection of `selectEntries` if a single entry waits. This is the usual case, and it builds no lists. */
function selectOnly(state: SessionState, entry: MailboxEntry): Selection | undefined {
  const only = [entry];
  if (entry.seed !== undefined) return { responses: NONE, background: NONE, steers: NONE, riders: only };
  if (entry.type === 'tool_response') return { responses: only, background: NONE, steers: NONE, riders: NONE };
  if (entry.kind === 'background') return undefined;
  if (entry.deliver === 'steer') return { responses: NONE, background: NONE, steers: only, riders: NONE };
  if (isAlone(entry) && state.state !== 'idle') return undefined;
  return { responses: NONE, background: NONE, steers: NONE, riders: only };
}

function ridersOf(
  candidates: readonly MailboxEntry[],
  first: MailboxEntry | undefined,
  mergeBytesMax: number,
): readonly MailboxEntry[] {
  if (first === undefined) return [];
  if (first.type === 'subagent') return candidates.filter((entry) => entry.type === 'subagent');
  if (first.deliver !== 'merge') return [first];
  const merged: MailboxEntry[] = [];
  let bytes = 0;
  for (const entry of candidates) {
    if (entry.deliver !== 'merge') continue;
    // The JSON of a text that becomes a block beside other blocks is not counted.
    bytes += entry.bytes + (merged.length === 0 ? 0 : MERGE_JOIN_BYTES);
    if (merged.length > 0 && bytes > mergeBytesMax) break;
    merged.push(entry);
  }
  return merged;
}

/**
 * The user's entry that the session works on: the first entry that the running turn consumed, or else the entry that
 * the next half-step or turn will take. Undefined if there is none.
 */
export function entryAtWork(state: SessionState): number | undefined {
  const consumed = state.turn?.entries[0];
  if (consumed !== undefined) return consumed;
  const { steers, riders } = selectEntries(state) ?? { steers: NONE, riders: NONE };
  return [...steers, ...riders, ...state.mailbox].find(({ type }) => type === 'user_message')?.id;
}

/** Entry ids of a selection in promotion order. */
export function promotionOrder(selection: Selection): readonly number[] {
  const { responses, background, steers, riders } = selection;
  const only = responses[0] ?? background[0] ?? steers[0] ?? riders[0];
  const count = responses.length + background.length + steers.length + riders.length;
  if (only !== undefined && count === 1) return [only.id];
  return [...responses, ...background, ...steers, ...riders].map((entry) => entry.id);
}

/** Tokens that a selection is about to add to the log. */
export function incomingTokens({ responses, background, steers, riders }: Selection): number {
  return tokensOf(responses) + tokensOf(background) + tokensOf(steers) + tokensOf(riders);
}

function tokensOf(entries: readonly MailboxEntry[]): number {
  let tokens = 0;
  for (const { seed, type, bytes } of entries) {
    if (seed !== undefined) continue;
    tokens += Math.ceil(bytes / BYTES_PER_TOKEN);
    // Other entries become a phantom pair: a call of `PHANTOM_CALL_TOKENS`, and the content as its result.
    if (type !== 'user_message' && type !== 'tool_response') tokens += PHANTOM_CALL_TOKENS;
  }
  return tokens;
}
