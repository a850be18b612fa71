/**
 * The history of a session as its embedder holds it: read, changed, repaired. An address, as the session is; every method asks
 * the session's shard.
 *
 * An operation is one durable event and whole: after a crash all of it is there or none. While a model call is out it waits for
 * the answer and comes before the next request; while tools run it is done at once, and calls whose message it takes are
 * cancelled. What is given is copied and cleaned (lone surrogates become U+FFFD), what is returned is a copy.
 */
import { z } from 'zod';
import { HISTORY_ATTEMPTS_MAX } from '../../base/bounds.ts';
import { describeValue, InvalidArgumentError, SessionBusyError } from '../../base/errors.ts';
import type {
  AssistantMessage,
  HistoryCall,
  HistoryDraft,
  HistoryMessage,
  MessageHandle,
} from '../../base/history-message.ts';
import { wellFormed } from '../../base/json.ts';
import { parseOption } from '../../base/settings.ts';
import type { RequestMessage } from '../../models/provider.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import type { HistoryQuery, HistorySnapshot } from '../../session/history/history-query.ts';
import { checkId, checkMembers, checkMessage, wrong } from '../../session/history/message-check.ts';
import type { TaskSummary } from '../../session/history/task-view.ts';
import type { ApiMessage, ToApiOptions } from '../../session/history/to-api.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import type { MessageCallback, MessageCallbacks } from '../events/message-callbacks.ts';
import type { ShardLink } from '../host/shard-link.ts';
import type { ChunkInfo, CompressionResult } from '../protocol/protocol.ts';
import { historyLines, readHistoryLines } from './history-lines.ts';
import {
  type AddOptions,
  type CompressOptions,
  checkAddOptions,
  checkChunkNumber,
  checkCompressOptions,
  checkEditOptions,
  checkFunction,
  checkMessages,
  checkToApiOptions,
  type EditOptions,
  fingerprintOf,
  givenText,
  memberOf,
  plain,
} from './history-options.ts';
import * as tasks from './history-tasks.ts';

/** What a history is made of. */
export interface HistoryParts {
  readonly address: { readonly session: string; readonly agent?: string };
  readonly link: ShardLink;
  readonly callbacks: MessageCallbacks;
}

const textSchema = z.string().transform(wellFormed);
const timeSchema = z.union([z.string(), z.number()]);

/** See the head of the file. Rejections: `InvalidArgumentError`, `LimitError`, `KeyReusedError`, and those of the store. */
export class History {
  readonly #parts: HistoryParts;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
  }

  // ---- hearing and adding -------------------------------------------------------------------------------------------

  /** As `session.onMessage`. */
  onMessage(callback: MessageCallback): this {
    this.#parts.callbacks.add(this.#parts.address.session, callback);
    return this;
  }

  /** Adds a message at the end, whatever stands there, and resolves to it. Callbacks hear of it unless it is silent. */
  async add(message: HistoryDraft | object, options: AddOptions = {}): Promise<HistoryMessage> {
    return (await this.#add('add', message, options)) as HistoryMessage;
  }

  /**
   * Adds a message at the end and resolves to its handle. Words of the user take the place of a last assistant message with
   * calls that nobody answered.
   */
  async append(message: HistoryDraft | object, options: AddOptions = {}): Promise<MessageHandle> {
    return (await this.#add('append', message, options)) as MessageHandle;
  }

  async #add(operation: 'add' | 'append', message: unknown, options: AddOptions): Promise<unknown> {
    const { key, silent = false, transient } = checkAddOptions(operation, options);
    const checked = checkMessage(plain(message, 'message'));
    const draft = transient === undefined ? checked : { ...checked, transient };
    return this.#edit({ operation, message: draft, silent }, { key });
  }

  // ---- the whole of it ----------------------------------------------------------------------------------------------

  /** Puts these messages in the place of all that are there. Nothing is checked for pairs, nobody hears of it. */
  async set(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'set', messages: checkMessages(messages) }, options);
    return this;
  }

  /** As `set`. */
  async replaceAll(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'replaceAll', messages: checkMessages(messages) }, options);
    return this;
  }

  /** As `set`, with exchanges that were cut off taken out first (`settings.repair.onSeed`). */
  async seed(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'seed', messages: checkMessages(messages) }, options);
    return this;
  }

  /** Takes out every message. */
  async unset(options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'unset' }, options);
    return this;
  }

  // ---- single messages ----------------------------------------------------------------------------------------------

  /**
   * Takes out a message, and with an assistant message the results of its calls; resolves to it, or to null where there is none.
   * Rejects with `tool_message_not_removable` for a result.
   */
  async remove(
    target: { readonly id: string } | MessageHandle,
    options: EditOptions = {},
  ): Promise<HistoryMessage | null> {
    const id = checkId(memberOf(target, 'id'));
    const incarnation = this.#incarnationOf(target, 'optional');
    return (await this.#edit({ operation: 'remove', id }, options, incarnation)) as HistoryMessage | null;
  }

  /**
   * Changes fields of the message with an id, or of the result of a call, and resolves to the message as it is then. A missing
   * field stays, null sets null. Results of calls that the message no longer has leave with them. Rejects with
   * `lookup_key_required`, `lookup_key_ambiguous`, `message_not_found`.
   */
  async update(
    target: { readonly id?: string | null; readonly toolCallId?: string | null } | MessageHandle,
    attributes: Readonly<Record<string, unknown>>,
    options: EditOptions = {},
  ): Promise<HistoryMessage> {
    const id = givenText(memberOf(target, 'id'), 'id');
    const toolCallId = givenText(memberOf(target, 'toolCallId'), 'toolCallId');
    const request: EditRequest = {
      operation: 'update',
      ...(id === undefined ? {} : { id }),
      ...(toolCallId === undefined ? {} : { toolCallId }),
      attributes: checkMembers(plain(attributes, 'attributes'), 'attributes'),
    };
    const incarnation = this.#incarnationOf(target, 'optional');
    return (await this.#edit(request, options, incarnation)) as HistoryMessage;
  }

  /** Puts a text in the place of the first system message, with `extra` fields and no others; or before all messages. */
  async replaceSystemPrompt(text: string, extra: object = {}, options: EditOptions = {}): Promise<this> {
    if (typeof text !== 'string') throw wrong('text', 'a string', text);
    const fields = checkMembers(plain(extra, 'extra'), 'extra');
    await this.#edit({ operation: 'replaceSystemPrompt', text: String(plain(text, 'text')), extra: fields }, options);
    return this;
  }

  /** Takes out the last message and resolves to it; null where there is none. */
  async popLast(options: EditOptions = {}): Promise<HistoryMessage | null> {
    return (await this.#edit({ operation: 'popLast' }, options)) as HistoryMessage | null;
  }

  /** Takes out every message the predicate is true of. It is asked on this thread, again if the history changes meanwhile. */
  async deleteWhere(predicate: (message: HistoryMessage) => unknown, options: EditOptions = {}): Promise<this> {
    checkFunction(predicate, 'predicate');
    await this.#onSnapshot(({ epoch, messages }) => {
      const ids = messages.filter((message) => Boolean(predicate(message))).map((message) => message.id);
      return ids.length === 0 ? undefined : { operation: 'deleteWhere', ids, epoch };
    }, options);
    return this;
  }

  /**
   * Hands the newest message the predicate is true of to `change`, which alters it or returns another; without one nothing
   * happens. The id stays.
   */
  async mutateLastMatching(
    predicate: (message: HistoryMessage) => unknown,
    change: (draft: Record<string, unknown>) => unknown,
    options: EditOptions = {},
  ): Promise<this> {
    checkFunction(predicate, 'predicate');
    checkFunction(change, 'change');
    await this.#onSnapshot(({ epoch, messages }) => {
      const found = messages.findLast((message) => Boolean(predicate(message)));
      if (found === undefined) return undefined;
      const draft = structuredClone(found) as unknown as Record<string, unknown>;
      const changed = change(draft);
      const next = typeof changed === 'object' && changed !== null ? changed : draft;
      const message = checkMessage(plain(next, 'message'));
      return { operation: 'mutateLastMatching', id: found.id, message, epoch };
    }, options);
    return this;
  }

  // ---- cutting back -------------------------------------------------------------------------------------------------

  /** Keeps the messages before an index. Rejects with `invalid_index`. */
  async truncateFrom(index: number, options: EditOptions = {}): Promise<this> {
    if (!Number.isSafeInteger(index) || index < 0) {
      throw new InvalidArgumentError(
        'invalid_index',
        `index must be a whole number from 0, got ${describeValue(index)}`,
      );
    }
    await this.#edit({ operation: 'truncateFrom', index }, options);
    return this;
  }

  /** Keeps what comes before the first user message of this time; without one nothing happens. */
  async truncateFromCreatedAt(createdAt: string | number, options: EditOptions = {}): Promise<this> {
    const time = parseOption(timeSchema, 'truncateFromCreatedAt.createdAt', createdAt);
    await this.#edit({ operation: 'truncateFromCreatedAt', createdAt: String(time) }, options);
    return this;
  }

  /**
   * Takes out the message of a handle and everything after it; one that is gone changes nothing. Rejects with
   * `InvalidArgumentError` for a handle of another session, or of a deleted one of this id.
   */
  async rollbackBefore(handle: MessageHandle, options: EditOptions = {}): Promise<this> {
    const incarnation = this.#incarnationOf(handle, 'required');
    await this.#edit({ operation: 'rollbackBefore', id: checkId(memberOf(handle, 'id')) }, options, incarnation);
    return this;
  }

  // ---- calls and their results --------------------------------------------------------------------------------------

  /** Answers every call without a result that it was interrupted, and resolves to their ids. Calls that run are left alone. */
  async discardPendingToolCalls(options: EditOptions = {}): Promise<readonly string[]> {
    return (await this.#edit({ operation: 'discardPendingToolCalls' }, options)) as readonly string[];
  }

  /** Sets a field of the newest result of a call: kept, never sent. Without one nothing happens. */
  async attachToToolResult(callId: string, key: string, value: unknown, options: EditOptions = {}): Promise<this> {
    const field = parseOption(textSchema, 'attachToToolResult.key', key);
    const call = parseOption(z.string(), 'attachToToolResult.callId', callId);
    const request = { operation: 'attachToToolResult', callId: call, key: field } as const;
    await this.#edit({ ...request, value: plain(value, 'value') }, options);
    return this;
  }

  /** Where the last message has calls: a result for each that says it was interrupted, with what `trails` has for it. */
  async settleInterrupted(trails: Readonly<Record<string, unknown>> = {}, options: EditOptions = {}): Promise<this> {
    const checked = checkMembers(plain(trails, 'trails'), 'trails');
    await this.#edit({ operation: 'settleInterrupted', trails: checked }, options);
    return this;
  }

  /** Notes an event of an extension on the newest message: kept, never sent. False: it is too large and was dropped. */
  async addExtensionEvent(event: unknown, options: EditOptions = {}): Promise<boolean> {
    const request: EditRequest = { operation: 'addExtensionEvent', event: plain(event, 'event') };
    return (await this.#edit(request, options)) as boolean;
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  /** All messages, transient ones too. */
  messages(): Promise<readonly HistoryMessage[]> {
    return this.#read({ name: 'messages' });
  }

  /** All messages that are stored. */
  toArray(): Promise<readonly HistoryMessage[]> {
    return this.#read({ name: 'toArray' });
  }

  /** How many messages there are, transient ones too. */
  size(): Promise<number> {
    return this.#read({ name: 'size' });
  }

  /** There is none. */
  async isEmpty(): Promise<boolean> {
    return (await this.size()) === 0;
  }

  /** Ids of calls without a result anywhere, in order. */
  orphanedToolCallIds(): Promise<readonly string[]> {
    return this.#read({ name: 'orphanedToolCallIds' });
  }

  /** The last assistant message, and its calls without a result after it. */
  pendingToolCalls(): Promise<readonly [AssistantMessage | null, readonly HistoryCall[]]> {
    return this.#read({ name: 'pendingToolCalls' });
  }

  /** How many assistant messages there are. */
  steps(): Promise<number> {
    return this.#read({ name: 'steps' });
  }

  /** The last assistant message; null without one. */
  finalAssistantMessage(): Promise<AssistantMessage | null> {
    return this.#read({ name: 'finalAssistantMessage' });
  }

  /** There is a system message. */
  hasSystemPrompt(): Promise<boolean> {
    return this.#read({ name: 'hasSystemPrompt' });
  }

  /** The last message is an assistant's with calls. */
  hasPendingToolCalls(): Promise<boolean> {
    return this.#read({ name: 'hasPendingToolCalls' });
  }

  /** The date of the newest session context; null without one. */
  lastSessionContextDate(): Promise<string | null> {
    return this.#read({ name: 'lastSessionContextDate' });
  }

  /** How many chunks the newest index of chunks names; 0 without one. */
  lastInjectedChunkCount(): Promise<number> {
    return this.#read({ name: 'lastInjectedChunkCount' });
  }

  /** The user's own messages: neither injected nor carriers of results. */
  realUserMessages(): Promise<readonly HistoryMessage[]> {
    return this.#read({ name: 'realUserMessages' });
  }

  /** Index of the last of them; null without one. */
  lastRealUserIndex(): Promise<number | null> {
    return this.#read({ name: 'lastRealUserIndex' });
  }

  /** The first message that instructs a sub-agent; null without one. */
  subagentInstructionMessage(): Promise<HistoryMessage | null> {
    return this.#read({ name: 'subagentInstructionMessage' });
  }

  /** An estimate of the tokens all messages cost. */
  estimateTokens(): Promise<number> {
    return this.#read({ name: 'estimateTokens' });
  }

  /** The messages as they may leave for a model: filtered by the chain of tasks, stripped, each call with one result, padded. */
  async toApi(options: ToApiOptions = {}): Promise<readonly ApiMessage[]> {
    return this.#read({ name: 'toApi', options: checkToApiOptions(options) });
  }

  // ---- going elsewhere ----------------------------------------------------------------------------------------------

  /** The stored messages as lines of JSON: a head with the version of the form, then a message a line. */
  async *export(): AsyncGenerator<string, void, undefined> {
    yield* historyLines(this.#parts.address.session, await this.toArray());
  }

  /** Seeds the session with lines of `export`. Rejects with `invalid_argument` for others, naming the line. */
  async import(lines: Iterable<string> | AsyncIterable<string>, options: EditOptions = {}): Promise<this> {
    return this.seed(await readHistoryLines(lines), options);
  }

  // ---- tasks and compression ----------------------------------------------------------------------------------------

  /** Begins a task below the active one; resolves with its id. Every user turn begins one by itself. */
  startTask(title?: string): Promise<number> {
    return tasks.startTask(this.#parts, title);
  }

  /** Goes back to the parent of the active task. */
  undo(): Promise<TaskMove> {
    return tasks.undo(this.#parts);
  }

  /** Goes to any task: forward again, or to another branch. */
  switchTo(id: number): Promise<TaskMove> {
    return tasks.switchTo(this.#parts, id);
  }

  /** Ids of the tasks begun below one. */
  children(id: number): Promise<readonly number[]> {
    return tasks.children(this.#parts, id);
  }

  /** The last tasks, ascending by id; 10 by default. */
  taskHistory(limit?: number): Promise<readonly TaskSummary[]> {
    return tasks.taskHistory(this.#parts, limit);
  }

  /** What a model would be sent now. */
  activeMessages(): Promise<readonly RequestMessage[]> {
    return tasks.activeMessages(this.#parts);
  }

  /** The highest id given to a task. */
  currentTaskId(): Promise<number> {
    return tasks.currentTaskId(this.#parts);
  }

  /** The active task; 0 is the root. */
  activeTaskId(): Promise<number> {
    return tasks.activeTaskId(this.#parts);
  }

  /**
   * Compresses the conversation now, if it is worth it; resolves when that is over and durable. `reason` of one that was not made:
   * `disabled`, `busy` (the session is not idle), `not_needed`, or why the summary failed; the history is then as it was. Rejects
   * with `ConfigError` (bad option), `StoreFullError`, `CancelledError` (closed, deleted).
   */
  async compress(options: CompressOptions = {}): Promise<CompressionResult> {
    const { link, address } = this.#parts;
    return link.call('session.compress', { ...address, ...checkCompressOptions(options) }, false);
  }

  /** The archived parts of the conversation, oldest first. */
  chunks(): Promise<readonly ChunkInfo[]> {
    return this.#parts.link.call('session.chunks', this.#parts.address, true);
  }

  /**
   * The messages of an archived part, as they were; `undefined` when there is none of this number (from 1). Rejects with
   * `InvalidArgumentError` (`invalid_index`) for what is no such number.
   */
  async chunk(number: number): Promise<readonly HistoryMessage[] | undefined> {
    checkChunkNumber(number);
    return this.#parts.link.call('session.chunk', { ...this.#parts.address, number }, true);
  }

  // ---- the line to the shard ----------------------------------------------------------------------------------------

  async #edit(
    edit: EditRequest,
    options: EditOptions | { readonly key: string | undefined },
    incarnation?: number,
  ): Promise<unknown> {
    const { key } = checkEditOptions(edit.operation, options);
    const keyed = key === undefined ? {} : { key, fingerprint: fingerprintOf(edit) };
    const named = incarnation === undefined ? {} : { incarnation };
    const request = { ...this.#parts.address, edit, ...keyed, ...named };
    // A copy: a shard on this thread answers with its own objects.
    return structuredClone(await this.#parts.link.call('history.edit', request, key !== undefined));
  }

  /** Of the session a handle names. An id alone is no handle: it names a message in whatever session it is looked up. */
  #incarnationOf(handle: unknown, need: 'required' | 'optional'): number | undefined {
    const session = memberOf(handle, 'session');
    const incarnation = memberOf(handle, 'incarnation');
    if (need === 'optional' && session === undefined && incarnation === undefined) return undefined;
    if (typeof session !== 'string' || typeof incarnation !== 'number') {
      throw wrong('handle', 'a handle, as append() resolves to', handle);
    }
    const mine = this.#parts.address.session;
    if (session === mine) return incarnation;
    throw new InvalidArgumentError(
      'invalid_argument',
      `the handle is of session ${JSON.stringify(session)}, this is the history of ${JSON.stringify(mine)}`,
      { data: { session, expected: mine } },
    );
  }

  async #read<T>(query: HistoryQuery): Promise<T> {
    const request = { ...this.#parts.address, query };
    return structuredClone(await this.#parts.link.call('history.read', request, true)) as T;
  }

  /** Makes a request of the history as it is now, until one is taken before the history changes again. */
  async #onSnapshot(make: (snapshot: HistorySnapshot) => EditRequest | undefined, options: EditOptions): Promise<void> {
    // Checked also where nothing is found to be changed.
    checkEditOptions('history', options);
    for (let attempt = 1; ; attempt += 1) {
      const edit = make(await this.#read<HistorySnapshot>({ name: 'snapshot' }));
      if (edit === undefined) return;
      try {
        await this.#edit(edit, options);
        return;
      } catch (error) {
        const isMoved = error instanceof SessionBusyError && error.data['moved'] === true;
        if (!isMoved || attempt >= HISTORY_ATTEMPTS_MAX) throw error;
      }
    }
  }
}
