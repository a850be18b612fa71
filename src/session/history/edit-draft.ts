/**
 * An edit of a history while it is planned: the logged and transient messages that it removes, changes or adds. The
 * draft reads a state and never changes that state. The result is one record, or no record if nothing would change.
 */
import { HISTORY_MESSAGES_MAX, TRANSIENT_MESSAGES_MAX } from '../../base/bounds.ts';
import { InvalidArgumentError, LimitError } from '../../base/errors.ts';
import type { HistoryDraft, HistoryMessage } from '../../base/history-message.ts';
import type { TransientMessage } from '../state/edit-request.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import type { HistoryEntry } from './history-form.ts';
import { loggedForm, ownSeq } from './logged-form.ts';
import { visibleEntries } from './transient.ts';

/** The record of an edit. */
export type EditRecord = Extract<SessionRecord, { type: 'edited' }>;

/** The result of planning an edit. */
export interface EditPlan {
  /** The record to append; missing if nothing in the log changes. */
  readonly record?: EditRecord;
  /** The transient messages after the edit; missing: they stay as they are. */
  readonly transients?: readonly TransientMessage[];
  /** The value returned to the caller; plain data. */
  readonly value: unknown;
}

/** A message with its position in the log. */
export interface NamedMessage {
  readonly message: HistoryMessage;
  /** The message's handle without session and incarnation, which the shard adds. */
  readonly handle: { readonly id: string; readonly seq: number };
}

const NONE: readonly TransientMessage[] = [];

/** An edit while it is planned (see the head of the file). A draft is used for one operation and dropped. */
export class EditDraft {
  readonly state: SessionState;
  readonly now: number;
  /** The visible history, transient messages included. */
  readonly entries: readonly HistoryEntry[];
  readonly #messageBytesMax: number;
  readonly #removed: number[] = [];
  readonly #updated: { readonly seq: number; readonly message: HistoryMessage }[] = [];
  readonly #annotated: { readonly seq: number; readonly message: HistoryMessage }[] = [];
  readonly #added: { readonly message: HistoryMessage; readonly after?: number }[] = [];
  #transients: readonly TransientMessage[];
  #changesTransients = false;
  readonly #ids: Set<string>;
  #nextSeq: number;

  constructor(
    state: SessionState,
    world: {
      readonly now: number;
      readonly messageBytesMax: number;
      readonly transients: readonly TransientMessage[] | undefined;
    },
  ) {
    this.state = state;
    this.now = world.now;
    this.#messageBytesMax = world.messageBytesMax;
    this.#transients = world.transients ?? NONE;
    this.entries = visibleEntries(state, this.#transients);
    this.#ids = new Set(this.entries.map((entry) => entry.message.id));
    this.#nextSeq = state.nextMessageSeq;
  }

  /** Removes one message. Results of its calls stay. */
  remove(entry: HistoryEntry): void {
    this.#ids.delete(entry.message.id);
    if (isTransient(entry)) this.#setTransients(this.#transients.filter((each) => each.message !== entry.message));
    else for (const { seq } of entry.logged) this.#removed.push(seq);
  }

  /** Removes the results of calls, wherever they are. */
  removeResults(callIds: ReadonlySet<string>): void {
    if (callIds.size === 0) return;
    for (const entry of this.entries) {
      if (entry.message.role === 'tool' && callIds.has(entry.message.toolCallId)) this.remove(entry);
    }
  }

  /** Replaces one message by another. */
  update(entry: HistoryEntry, message: HistoryMessage): void {
    this.#checkBytes(message);
    if (isTransient(entry)) this.#replaceTransient(entry, message);
    else this.#updated.push({ seq: entry.seq, message: stored(message) });
  }

  /** Replaces the metadata of a message. Requests do not change. */
  annotate(entry: HistoryEntry, message: HistoryMessage): void {
    this.#checkBytes(message);
    if (isTransient(entry)) this.#replaceTransient(entry, message);
    else this.#annotated.push({ seq: entry.seq, message: stored(message) });
  }

  /**
   * Adds a message, at the end or directly after the logged message `after` (0: before all). Throws
   * `InvalidArgumentError` for an id that is taken.
   */
  add(draft: HistoryDraft, after?: number): NamedMessage {
    const named = this.#named(draft);
    this.#added.push(after === undefined ? { message: named.message } : { message: named.message, after });
    return named;
  }

  /** Adds a transient message, which is not stored, at the end. */
  addTransient(draft: HistoryDraft): NamedMessage {
    if (this.#transients.length >= TRANSIENT_MESSAGES_MAX) {
      throw new LimitError(`a session has at most ${TRANSIENT_MESSAGES_MAX} transient messages`, {
        data: { limit: 'transientMessages', value: this.#transients.length },
      });
    }
    let count = this.#transients.length + 1;
    while (draft.id === undefined && this.#ids.has(`t${count}`)) count += 1;
    const id = this.#claim(draft.id ?? `t${count}`);
    const message = complete(draft, id, this.now);
    this.#checkBytes(message);
    const removed = new Set(this.#removed);
    const anchor = this.state.messages.findLast(({ seq }) => !removed.has(seq))?.seq ?? 0;
    this.#setTransients([...this.#transients, { message, anchor }]);
    return { message, handle: { id, seq: 0 } };
  }

  /** Removes every message, including transient ones. */
  clear(): void {
    for (const entry of this.entries) this.remove(entry);
  }

  /** The plan of the edit. `notifies`: whether callbacks for new messages are called; default false. */
  plan(
    operation: string,
    value: unknown,
    more: { readonly reason?: string; readonly notifies?: boolean } = {},
  ): EditPlan {
    if (this.#added.length > HISTORY_MESSAGES_MAX) {
      throw new LimitError(`an operation brings at most ${HISTORY_MESSAGES_MAX} messages`, {
        data: { limit: 'historyMessages', value: this.#added.length },
      });
    }
    const changes = this.#removed.length + this.#updated.length + this.#annotated.length + this.#added.length;
    const transients = this.#changesTransients ? { transients: this.#transients } : {};
    if (changes === 0) return { value, ...transients };
    const record: EditRecord = {
      type: 'edited',
      operation,
      ...(this.#removed.length === 0 ? {} : { removed: this.#removed }),
      ...(this.#updated.length === 0 ? {} : { updated: this.#updated }),
      ...(this.#annotated.length === 0 ? {} : { annotated: this.#annotated }),
      ...(this.#added.length === 0 ? {} : { added: this.#added }),
      ...(more.reason === undefined ? {} : { reason: more.reason }),
      ...(more.notifies === true ? { silent: false } : {}),
    };
    return { record, value, ...transients };
  }

  /** The message with its id and time, and with the seq that `applyEdit` will give it. */
  #named(draft: HistoryDraft): NamedMessage {
    const seq = this.#nextSeq;
    let own = `m${seq}`;
    for (let copy = 2; draft.id === undefined && this.#ids.has(own); copy += 1) own = `m${seq}.${copy}`;
    const id = this.#claim(draft.id ?? own);
    const message = stored(complete(draft, id, this.now));
    this.#checkBytes(message);
    this.#nextSeq = Math.max(seq + loggedForm(message).length, ownSeq(id) + 1);
    return { message, handle: { id, seq } };
  }

  /** Reserves the ids that given messages have, so that none of these ids is generated for another message. */
  reserve(drafts: readonly HistoryDraft[]): void {
    const given = new Set<string>();
    for (const { id } of drafts) {
      if (id === undefined) continue;
      if (this.#ids.has(id) || given.has(id)) throw taken(id);
      given.add(id);
    }
    this.#reserved = given;
    for (const id of given) this.#ids.add(id);
  }

  #reserved: Set<string> | undefined;

  #claim(id: string): string {
    if (this.#reserved?.delete(id) === true) return id;
    if (this.#ids.has(id)) throw taken(id);
    this.#ids.add(id);
    return id;
  }

  #replaceTransient(entry: HistoryEntry, message: HistoryMessage): void {
    this.#setTransients(
      this.#transients.map((each) => (each.message === entry.message ? { message, anchor: each.anchor } : each)),
    );
  }

  #setTransients(list: readonly TransientMessage[]): void {
    this.#transients = list;
    this.#changesTransients = true;
  }

  #checkBytes(message: HistoryMessage): void {
    const bytes = Buffer.byteLength(JSON.stringify(message));
    if (bytes <= this.#messageBytesMax) return;
    throw new LimitError(`a message has at most ${this.#messageBytesMax} bytes, got ${bytes}`, {
      data: { limit: 'messageBytes', value: bytes },
    });
  }
}

/** True if the message is not in the log. */
export function isTransient(entry: HistoryEntry): boolean {
  return entry.logged.length === 0;
}

function complete(draft: HistoryDraft, id: string, now: number): HistoryMessage {
  return { ...draft, id, createdAt: draft.createdAt ?? now } as HistoryMessage;
}

/** The message as the log stores it, without the field `transient`. */
function stored(message: HistoryMessage): HistoryMessage {
  if (message.transient === undefined) return message;
  const { transient: _transient, ...rest } = message;
  return rest as HistoryMessage;
}

function taken(id: string): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', `there is a message with the id ${JSON.stringify(id)} already`, {
    data: { id },
  });
}
