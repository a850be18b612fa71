/**
 * The history of a session as its embedder holds it: reading, changing, repairing. The handle is only an address, like
 * the session; every method asks the session's shard.
 *
 * An operation is one durable, atomic event: after a crash either all of it is there or nothing. While a model call is
 * in flight, an operation waits for the answer and runs before the next request. While tools run, an operation runs at
 * once, and cancels the calls whose messages it removes. Arguments are copied and cleaned (lone surrogates become
 * U+FFFD); results are copies.
 */
import { z } from 'zod';
import { HISTORY_ATTEMPTS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { describeValue, InvalidArgumentError, SessionBusyError } from '../../base/errors.ts';
import type {
  AssistantMessage,
  HistoryCall,
  HistoryDraft,
  HistoryMessage,
  MessageHandle,
} from '../../base/history-message.ts';
import { wellFormed } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
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
  incarnationOf,
  memberOf,
  plain,
} from './history-options.ts';
import * as tasks from './history-tasks.ts';

/** The parts of a history. */
export interface HistoryParts {
  readonly address: { readonly session: string; readonly agent?: string };
  readonly link: ShardLink;
  readonly callbacks: MessageCallbacks;
}

const textSchema = z.string().transform(wellFormed);
const timeSchema = z.union([z.string(), z.number()]);

/**
 * See the head of the file. Rejections: `InvalidArgumentError`, `LimitError`, `KeyReusedError`, and the errors of the
 * store.
 */
export class History {
  readonly #parts: HistoryParts;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
  }

  // ---- callbacks and adding -----------------------------------------------------------------------------------------

  /** Does the same as `session.onMessage`. */
  onMessage(callback: MessageCallback): this {
    this.#parts.callbacks.add(this.#parts.address.session, callback);
    return this;
  }

  /**
   * Adds a message at the end, whatever precedes it, and resolves to the added message. Callbacks receive it unless it
   * is silent.
   */
  async add(message: HistoryDraft | object, options: AddOptions = {}): Promise<HistoryMessage> {
    return (await this.#add('add', message, options)) as HistoryMessage;
  }

  /**
   * Adds a message at the end and resolves to its handle. If the last message has calls without results that will
   * get none, an appended user message replaces that message.
   */
  async append(message: HistoryDraft | object, options: AddOptions = {}): Promise<MessageHandle> {
    return (await this.#add('append', message, options)) as MessageHandle;
  }

  async #add(operation: 'add' | 'append', message: unknown, options: AddOptions): Promise<unknown> {
    const { key, by, silent = false, transient } = checkAddOptions(operation, options);
    const checked = checkMessage(plain(message, 'message'));
    const draft = transient === undefined ? checked : { ...checked, transient };
    return this.#edit({ operation, message: draft, silent }, { key, by });
  }

  // ---- all messages -------------------------------------------------------------------------------------------------

  /** Replaces all messages by the given ones. Pairs of call and result are not checked, and no callback is called. */
  async set(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'set', messages: checkMessages(messages) }, options);
    return this;
  }

  /** Does the same as `set`. */
  async replaceAll(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'replaceAll', messages: checkMessages(messages) }, options);
    return this;
  }

  /** Does the same as `set`, but without the interrupted exchanges among the messages (`settings.repair.onSeed`). */
  async seed(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'seed', messages: checkMessages(messages) }, options);
    return this;
  }

  /** Removes every message. */
  async unset(options: EditOptions = {}): Promise<this> {
    await this.#edit({ operation: 'unset' }, options);
    return this;
  }

  // ---- single messages ----------------------------------------------------------------------------------------------

  /**
   * Removes a message. If it is an assistant message, the results of its calls leave too. Resolves to the removed
   * message, or to null if it does not exist. Rejects with `tool_message_not_removable` for a result.
   */
  async remove(
    target: { readonly id: string } | MessageHandle,
    options: EditOptions = {},
  ): Promise<HistoryMessage | null> {
    const id = checkId(memberOf(target, 'id'));
    const incarnation = incarnationOf(target, 'optional', this.#parts.address.session);
    return (await this.#edit({ operation: 'remove', id }, options, incarnation)) as HistoryMessage | null;
  }

  /**
   * Changes fields of the message with an id, or of the result of a call, and resolves to the changed message. A field
   * that is not given stays as it is; null sets null. If the message loses calls, their results leave too. Rejects with
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
      ...defined({ id, toolCallId }),
      attributes: checkMembers(plain(attributes, 'attributes'), 'attributes'),
    };
    const incarnation = incarnationOf(target, 'optional', this.#parts.address.session);
    return (await this.#edit(request, options, incarnation)) as HistoryMessage;
  }

  /**
   * Replaces the first system message by a text with `extra` as its only other fields. Without a system message,
   * inserts the text as the first message.
   */
  async replaceSystemPrompt(text: string, extra: object = {}, options: EditOptions = {}): Promise<this> {
    if (typeof text !== 'string') throw wrong('text', 'a string', text);
    const fields = checkMembers(plain(extra, 'extra'), 'extra');
    await this.#edit({ operation: 'replaceSystemPrompt', text: String(plain(text, 'text')), extra: fields }, options);
    return this;
  }

  /** Removes the last message and resolves to that message, or to null if there is none. */
  async popLast(options: EditOptions = {}): Promise<HistoryMessage | null> {
    return (await this.#edit({ operation: 'popLast' }, options)) as HistoryMessage | null;
  }

  /**
   * Removes every message that matches the predicate. The predicate runs on this thread, and runs again if a message
   * before the end changed meanwhile.
   */
  async deleteWhere(predicate: (message: HistoryMessage) => unknown, options: EditOptions = {}): Promise<this> {
    checkFunction(predicate, 'predicate');
    await this.#onSnapshot(({ epoch, messages }) => {
      const ids = messages.filter((message) => Boolean(predicate(message))).map((message) => message.id);
      return ids.length === 0 ? undefined : { operation: 'deleteWhere', ids, epoch };
    }, options);
    return this;
  }

  /**
   * Passes the newest message that matches the predicate to `change`, which alters that message or returns another.
   * Without a match nothing happens. The id stays.
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

  // ---- truncating ---------------------------------------------------------------------------------------------------

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

  /** Keeps the messages before the first user message with this time. Without such a message nothing happens. */
  async truncateFromCreatedAt(createdAt: string | number, options: EditOptions = {}): Promise<this> {
    const time = parseOption(timeSchema, 'truncateFromCreatedAt.createdAt', createdAt);
    await this.#edit({ operation: 'truncateFromCreatedAt', createdAt: String(time) }, options);
    return this;
  }

  /**
   * Removes the message of a handle and everything after it. If the message is gone, nothing changes. Rejects with
   * `InvalidArgumentError` for a handle of another session, or of a deleted session with this id.
   */
  async rollbackBefore(handle: MessageHandle, options: EditOptions = {}): Promise<this> {
    const incarnation = incarnationOf(handle, 'required', this.#parts.address.session);
    await this.#edit({ operation: 'rollbackBefore', id: checkId(memberOf(handle, 'id')) }, options, incarnation);
    return this;
  }

  // ---- calls and their results --------------------------------------------------------------------------------------

  /** Answers each call without a result as interrupted; resolves to the calls' ids. Running calls are left alone. */
  async discardPendingToolCalls(options: EditOptions = {}): Promise<readonly string[]> {
    return (await this.#edit({ operation: 'discardPendingToolCalls' }, options)) as readonly string[];
  }

  /**
   * Sets a field of the newest result of a call. The field is kept and never sent to a model. Without a result nothing
   * happens.
   */
  async attachToToolResult(callId: string, key: string, value: unknown, options: EditOptions = {}): Promise<this> {
    const field = parseOption(textSchema, 'attachToToolResult.key', key);
    const call = parseOption(z.string(), 'attachToToolResult.callId', callId);
    const request = { operation: 'attachToToolResult', callId: call, key: field } as const;
    await this.#edit({ ...request, value: plain(value, 'value') }, options);
    return this;
  }

  /**
   * If the last message has calls and none of them runs, adds a result to each. The result says that the call was
   * interrupted, and has the call's entry of `trails`.
   */
  async settleInterrupted(trails: Readonly<Record<string, unknown>> = {}, options: EditOptions = {}): Promise<this> {
    const checked = checkMembers(plain(trails, 'trails'), 'trails');
    await this.#edit({ operation: 'settleInterrupted', trails: checked }, options);
    return this;
  }

  /**
   * Adds an event of an extension to the newest message. The event is kept and never sent to a model. Resolves to false
   * if the event was too large and was dropped.
   */
  async addExtensionEvent(event: unknown, options: EditOptions = {}): Promise<boolean> {
    const request: EditRequest = { operation: 'addExtensionEvent', event: plain(event, 'event') };
    return (await this.#edit(request, options)) as boolean;
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  /** All messages, including transient ones. */
  messages(): Promise<readonly HistoryMessage[]> {
    return this.#read({ name: 'messages' });
  }

  /** All stored messages. */
  toArray(): Promise<readonly HistoryMessage[]> {
    return this.#read({ name: 'toArray' });
  }

  /** The number of messages, including transient ones. */
  size(): Promise<number> {
    return this.#read({ name: 'size' });
  }

  /** True if there are no messages. */
  async isEmpty(): Promise<boolean> {
    return (await this.size()) === 0;
  }

  /** The ids of calls that have no result anywhere, in order. */
  orphanedToolCallIds(): Promise<readonly string[]> {
    return this.#read({ name: 'orphanedToolCallIds' });
  }

  /** The last assistant message, and those of its calls that have no result after it. */
  pendingToolCalls(): Promise<readonly [AssistantMessage | null, readonly HistoryCall[]]> {
    return this.#read({ name: 'pendingToolCalls' });
  }

  /** The number of assistant messages. */
  steps(): Promise<number> {
    return this.#read({ name: 'steps' });
  }

  /** The last assistant message; null without one. */
  finalAssistantMessage(): Promise<AssistantMessage | null> {
    return this.#read({ name: 'finalAssistantMessage' });
  }

  /** True if there is a system message. */
  hasSystemPrompt(): Promise<boolean> {
    return this.#read({ name: 'hasSystemPrompt' });
  }

  /** True if the last message is an assistant message with calls. */
  hasPendingToolCalls(): Promise<boolean> {
    return this.#read({ name: 'hasPendingToolCalls' });
  }

  /** The `sessionDate` of the newest message with `sessionContext`; null without one. */
  lastSessionContextDate(): Promise<string | null> {
    return this.#read({ name: 'lastSessionContextDate' });
  }

  /** The number of archives on the newest index card (the message that lists archives); 0 without a card. */
  lastInjectedChunkCount(): Promise<number> {
    return this.#read({ name: 'lastInjectedChunkCount' });
  }

  /** The user's own messages: not injected, and without results of calls. */
  realUserMessages(): Promise<readonly HistoryMessage[]> {
    return this.#read({ name: 'realUserMessages' });
  }

  /** The index of the last of `realUserMessages`; null without one. */
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

  /**
   * The messages in the form a model may receive. Messages outside `taskChain` and fields that are not sent are left
   * out. Each call has one result. Answers get an empty `reasoningContent` if other answers have one or `options` ask
   * for it.
   */
  async toApi(options: ToApiOptions = {}): Promise<readonly ApiMessage[]> {
    return this.#read({ name: 'toApi', options: checkToApiOptions(options) });
  }

  // ---- export and import --------------------------------------------------------------------------------------------

  /** The stored messages as lines of JSON: a head with the version of the format, then one line per message. */
  async *export(): AsyncGenerator<string, void, undefined> {
    yield* historyLines(this.#parts.address.session, await this.toArray());
  }

  /** Seeds the session with lines of `export`. Rejects with `invalid_argument` for other lines, and names the line. */
  async import(lines: Iterable<string> | AsyncIterable<string>, options: EditOptions = {}): Promise<this> {
    return this.seed(await readHistoryLines(lines), options);
  }

  // ---- tasks and compression ----------------------------------------------------------------------------------------

  /**
   * Begins a task below the active one; resolves with the new task's id. Each user turn also begins a task by itself.
   */
  startTask(title?: string): Promise<number> {
    return tasks.startTask(this.#parts, title);
  }

  /** Returns to the parent of the active task. */
  undo(): Promise<TaskMove> {
    return tasks.undo(this.#parts);
  }

  /** Switches to any task, even a later task or a task of another branch. */
  switchTo(id: number): Promise<TaskMove> {
    return tasks.switchTo(this.#parts, id);
  }

  /** The ids of the tasks begun below a task. */
  children(id: number): Promise<readonly number[]> {
    return tasks.children(this.#parts, id);
  }

  /** The last tasks, ascending by id; 10 by default. */
  taskHistory(limit?: number): Promise<readonly TaskSummary[]> {
    return tasks.taskHistory(this.#parts, limit);
  }

  /** The messages that a model would receive now. */
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
   * Compresses the conversation now, if that is worth it. Resolves when the compression has ended and is durable. If
   * the conversation was not compressed, it is unchanged. `reason` then is `disabled`, `busy` (the session is not
   * idle), `not_needed`, or the reason why the summary failed. Rejects with `ConfigError` (bad option), `LimitError`
   * (the budget is used up), `StoreFullError`, `CancelledError` (closed, deleted).
   */
  async compress(options: CompressOptions = {}): Promise<CompressionResult> {
    const { link, address } = this.#parts;
    return link.call('session.compress', { ...address, ...checkCompressOptions(options) }, false);
  }

  /** The archives of the conversation, oldest first. */
  chunks(): Promise<readonly ChunkInfo[]> {
    return this.#parts.link.call('session.chunks', this.#parts.address, true);
  }

  /**
   * The messages of an archive, as they were; `undefined` if no archive has this number (from 1). Rejects with
   * `InvalidArgumentError` (`invalid_index`) for an invalid number.
   */
  async chunk(number: number): Promise<readonly HistoryMessage[] | undefined> {
    checkChunkNumber(number);
    return this.#parts.link.call('session.chunk', { ...this.#parts.address, number }, true);
  }

  // ---- requests to the shard ----------------------------------------------------------------------------------------

  async #edit(
    edit: EditRequest,
    options: { readonly [Name in keyof EditOptions]?: EditOptions[Name] | undefined },
    incarnation?: number,
  ): Promise<unknown> {
    const { key, by } = checkEditOptions(edit.operation, options);
    const keyed = key === undefined ? {} : { key, fingerprint: fingerprintOf(edit) };
    const named = defined({ incarnation, by });
    const request = { ...this.#parts.address, edit, ...keyed, ...named };
    // A copy, because a shard on this thread answers with its own objects.
    return structuredClone(await this.#parts.link.call('history.edit', request, key !== undefined));
  }

  async #read<T>(query: HistoryQuery): Promise<T> {
    const request = { ...this.#parts.address, query };
    return structuredClone(await this.#parts.link.call('history.read', request, true)) as T;
  }

  /**
   * Makes a request from a snapshot of the history. If a message before the end changed in between, tries again, in at
   * most `HISTORY_ATTEMPTS_MAX` attempts.
   */
  async #onSnapshot(make: (snapshot: HistorySnapshot) => EditRequest | undefined, options: EditOptions): Promise<void> {
    // Checked even if there turns out to be nothing to change.
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
