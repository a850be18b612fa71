/**
 * `History`: the embedder's handle for reading, changing and repairing the history of a session. The handle is only an
 * address, like `Session`. Every method except `onMessage` sends a request to the session's thread.
 *
 * - An edit is one durable, atomic event: after a crash the log has the whole edit or nothing of it. Transient messages
 *   are the exception: they are never stored.
 * - While a model call is in flight, an edit waits for the answer and runs before the next request. While tools run, an
 *   edit runs at once, and cancels the calls whose messages it removes.
 * - A change of task during a turn takes effect when the turn has ended. `compress` does not wait for the end of a
 *   turn: in a busy session it does nothing and resolves with `busy`.
 * - Arguments are copied and cleaned (lone surrogates become U+FFFD). Messages that are returned are copies.
 * - Operations see the window of the active branch. They do not see messages that an eviction, a compression, an undo
 *   or a restart took out of this window.
 */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { describeValue, InvalidArgumentError } from '../../base/errors.ts';
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
  checkFunction,
  checkMessages,
  checkToApiOptions,
  type EditOptions,
  givenText,
  incarnationOf,
  memberOf,
  plain,
  type TaskOptions,
} from './history-options.ts';
import { editHistory, editOnSnapshot, readHistory } from './history-requests.ts';
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
 * The history of a session. Rejections: `InvalidArgumentError` for a bad argument, `ConfigError` for a bad option,
 * `LimitError`, `KeyReusedError`, `SessionBusyError` (the history was changed repeatedly while a predicate ran),
 * `CancelledError` (the runtime was closed, or the session deleted), and the errors of the store.
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
   * Adds a message at the end, whatever precedes it, and resolves to the added message. Callbacks receive the message
   * unless `silent` is true.
   */
  async add(message: HistoryDraft | object, options: AddOptions = {}): Promise<HistoryMessage> {
    return (await this.#add('add', message, options)) as HistoryMessage;
  }

  /**
   * Adds a message at the end and resolves to its handle. A user message replaces the last message if that message has
   * calls, none of these calls is open, and none has a result that waits in the mailbox.
   */
  async append(message: HistoryDraft | object, options: AddOptions = {}): Promise<MessageHandle> {
    return (await this.#add('append', message, options)) as MessageHandle;
  }

  async #add(operation: 'add' | 'append', message: unknown, options: AddOptions): Promise<unknown> {
    const { key, by, silent = false, transient } = checkAddOptions(operation, options);
    const checked = checkMessage(plain(message, 'message'));
    const draft = transient === undefined ? checked : { ...checked, transient };
    return editHistory(this.#parts, { operation, message: draft, silent }, { key, by });
  }

  // ---- the window ---------------------------------------------------------------------------------------------------

  /**
   * Replaces the messages of the window by `messages`. Those that are transient are left out. Pairs of call and result
   * are not checked, and no callback is called.
   */
  async set(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await editHistory(this.#parts, { operation: 'set', messages: checkMessages(messages) }, options);
    return this;
  }

  /** Does the same as `set`. */
  async replaceAll(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await editHistory(this.#parts, { operation: 'replaceAll', messages: checkMessages(messages) }, options);
    return this;
  }

  /**
   * Does the same as `set`, but leaves out incomplete rounds: an answer with a call that has no result, the results of
   * the answer's other calls, and results without a call. The last answer stays if only results follow it, because its
   * run can continue. With `settings.repair.onSeed: false` all messages stay.
   */
  async seed(messages: readonly (HistoryDraft | object)[], options: EditOptions = {}): Promise<this> {
    await editHistory(this.#parts, { operation: 'seed', messages: checkMessages(messages) }, options);
    return this;
  }

  /** Removes every message of the window. */
  async unset(options: EditOptions = {}): Promise<this> {
    await editHistory(this.#parts, { operation: 'unset' }, options);
    return this;
  }

  // ---- single messages ----------------------------------------------------------------------------------------------

  /**
   * Removes a message; for an assistant message, also the results of its calls. Resolves to the removed message, or to
   * null if it does not exist. Rejects with `tool_message_not_removable` for a result.
   */
  async remove(
    target: { readonly id: string } | MessageHandle,
    options: EditOptions = {},
  ): Promise<HistoryMessage | null> {
    const id = checkId(memberOf(target, 'id'));
    const incarnation = incarnationOf(target, 'optional', this.#parts.address.session);
    return (await editHistory(this.#parts, { operation: 'remove', id }, options, incarnation)) as HistoryMessage | null;
  }

  /**
   * Changes fields of one message, and resolves to the changed message. `id` names a message, `toolCallId` the result
   * of that call. Fields without a new value stay as they are; null sets null. If the message loses calls, the results
   * of these calls are removed too. Rejects with `lookup_key_required`, `lookup_key_ambiguous`, `message_not_found`.
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
    return (await editHistory(this.#parts, request, options, incarnation)) as HistoryMessage;
  }

  /**
   * Replaces the first system message by `text` and the fields of `extra`. The old message keeps its id and loses all
   * its other fields; `createdAt` becomes the current time. A `content` in `extra` takes the place of `text`. Without a
   * system message, inserts one as the first message.
   */
  async replaceSystemPrompt(text: string, extra: object = {}, options: EditOptions = {}): Promise<this> {
    if (typeof text !== 'string') throw wrong('text', 'a string', text);
    const fields = checkMembers(plain(extra, 'extra'), 'extra');
    await editHistory(
      this.#parts,
      { operation: 'replaceSystemPrompt', text: String(plain(text, 'text')), extra: fields },
      options,
    );
    return this;
  }

  /** Removes the last message and resolves to that message, or to null if there is none. */
  async popLast(options: EditOptions = {}): Promise<HistoryMessage | null> {
    return (await editHistory(this.#parts, { operation: 'popLast' }, options)) as HistoryMessage | null;
  }

  /**
   * Removes every message that matches the predicate. The predicate runs on this thread. It runs again if a new epoch
   * was opened meanwhile, for example by an eviction or by an edit before the end. After `HISTORY_ATTEMPTS_MAX`
   * attempts the operation rejects with `SessionBusyError`.
   */
  async deleteWhere(predicate: (message: HistoryMessage) => unknown, options: EditOptions = {}): Promise<this> {
    checkFunction(predicate, 'predicate');
    await editOnSnapshot(
      this.#parts,
      ({ epoch, messages }) => {
        const ids = messages.filter((message) => Boolean(predicate(message))).map((message) => message.id);
        return ids.length === 0 ? undefined : { operation: 'deleteWhere', ids, epoch };
      },
      options,
    );
    return this;
  }

  /**
   * Passes a copy of the newest message that matches the predicate to `change`, which alters the copy or returns
   * another message. Without a match nothing happens. The id stays. Both functions run again as in `deleteWhere`.
   */
  async mutateLastMatching(
    predicate: (message: HistoryMessage) => unknown,
    change: (draft: Record<string, unknown>) => unknown,
    options: EditOptions = {},
  ): Promise<this> {
    checkFunction(predicate, 'predicate');
    checkFunction(change, 'change');
    await editOnSnapshot(
      this.#parts,
      ({ epoch, messages }) => {
        const found = messages.findLast((message) => Boolean(predicate(message)));
        if (found === undefined) return undefined;
        const draft = structuredClone(found) as unknown as Record<string, unknown>;
        const changed = change(draft);
        const next = typeof changed === 'object' && changed !== null ? changed : draft;
        const message = checkMessage(plain(next, 'message'));
        return { operation: 'mutateLastMatching', id: found.id, message, epoch };
      },
      options,
    );
    return this;
  }

  // ---- truncating ---------------------------------------------------------------------------------------------------

  /** Removes all messages from an index on. Rejects with `invalid_index`. */
  async truncateFrom(index: number, options: EditOptions = {}): Promise<this> {
    if (!Number.isSafeInteger(index) || index < 0) {
      throw new InvalidArgumentError(
        'invalid_index',
        `index must be a whole number from 0, got ${describeValue(index)}`,
      );
    }
    await editHistory(this.#parts, { operation: 'truncateFrom', index }, options);
    return this;
  }

  /**
   * Removes the first user message with this `createdAt`, and all messages after it. Without such a message nothing
   * happens.
   */
  async truncateFromCreatedAt(createdAt: string | number, options: EditOptions = {}): Promise<this> {
    const time = parseOption(timeSchema, 'truncateFromCreatedAt.createdAt', createdAt);
    await editHistory(this.#parts, { operation: 'truncateFromCreatedAt', createdAt: String(time) }, options);
    return this;
  }

  /**
   * Removes the message of a handle and everything after it. If the message is gone, nothing changes. Rejects with
   * `InvalidArgumentError` for a handle of another session, or of a deleted session with this id.
   */
  async rollbackBefore(handle: MessageHandle, options: EditOptions = {}): Promise<this> {
    const incarnation = incarnationOf(handle, 'required', this.#parts.address.session);
    await editHistory(
      this.#parts,
      { operation: 'rollbackBefore', id: checkId(memberOf(handle, 'id')) },
      options,
      incarnation,
    );
    return this;
  }

  // ---- calls and their results --------------------------------------------------------------------------------------

  /**
   * Adds a result to each call that has none; the result says that the call was interrupted. Resolves to the ids of
   * these calls. Running calls are left alone. The open calls of a suspended run do not count as running.
   */
  async discardPendingToolCalls(options: EditOptions = {}): Promise<readonly string[]> {
    return (await editHistory(this.#parts, { operation: 'discardPendingToolCalls' }, options)) as readonly string[];
  }

  /**
   * Sets a field of the newest result of a call. The field is stored, but never sent to a model. If the call has no
   * result, nothing happens.
   */
  async attachToToolResult(callId: string, key: string, value: unknown, options: EditOptions = {}): Promise<this> {
    const field = parseOption(textSchema, 'attachToToolResult.key', key);
    const call = parseOption(z.string(), 'attachToToolResult.callId', callId);
    const request = { operation: 'attachToToolResult', callId: call, key: field } as const;
    await editHistory(this.#parts, { ...request, value: plain(value, 'value') }, options);
    return this;
  }

  /**
   * Adds a result for each call of the last message; if one of these calls runs, no result is added. Each result says
   * that its call was interrupted. The field `trail` of a result is the entry of `trails` for its call.
   */
  async settleInterrupted(trails: Readonly<Record<string, unknown>> = {}, options: EditOptions = {}): Promise<this> {
    const checked = checkMembers(plain(trails, 'trails'), 'trails');
    await editHistory(this.#parts, { operation: 'settleInterrupted', trails: checked }, options);
    return this;
  }

  /**
   * Adds an event of an extension to the newest message. The event is stored, but never sent to a model. Resolves to
   * false if the event was dropped: it was too large, or there is no message.
   */
  async addExtensionEvent(event: unknown, options: EditOptions = {}): Promise<boolean> {
    const request: EditRequest = { operation: 'addExtensionEvent', event: plain(event, 'event') };
    return (await editHistory(this.#parts, request, options)) as boolean;
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  /** The messages of the window, including transient ones. */
  messages(): Promise<readonly HistoryMessage[]> {
    return readHistory(this.#parts, { name: 'messages' });
  }

  /** The stored messages of the window, that is, without transient ones. */
  toArray(): Promise<readonly HistoryMessage[]> {
    return readHistory(this.#parts, { name: 'toArray' });
  }

  /** The number of messages, including transient ones. */
  size(): Promise<number> {
    return readHistory(this.#parts, { name: 'size' });
  }

  /** True if there are no messages. */
  async isEmpty(): Promise<boolean> {
    return (await this.size()) === 0;
  }

  /** The ids of calls that have no result anywhere, in order. */
  orphanedToolCallIds(): Promise<readonly string[]> {
    return readHistory(this.#parts, { name: 'orphanedToolCallIds' });
  }

  /** The last assistant message, and those of its calls that have no result after the message. */
  pendingToolCalls(): Promise<readonly [AssistantMessage | null, readonly HistoryCall[]]> {
    return readHistory(this.#parts, { name: 'pendingToolCalls' });
  }

  /** The number of assistant messages. */
  steps(): Promise<number> {
    return readHistory(this.#parts, { name: 'steps' });
  }

  /** The last assistant message; null if there is none. */
  finalAssistantMessage(): Promise<AssistantMessage | null> {
    return readHistory(this.#parts, { name: 'finalAssistantMessage' });
  }

  /** True if there is a system message. */
  hasSystemPrompt(): Promise<boolean> {
    return readHistory(this.#parts, { name: 'hasSystemPrompt' });
  }

  /** True if the last message is an assistant message with calls; false as soon as one of these calls has a result. */
  hasPendingToolCalls(): Promise<boolean> {
    return readHistory(this.#parts, { name: 'hasPendingToolCalls' });
  }

  /** The `sessionDate` of the newest message with `sessionContext`; null without one. */
  lastSessionContextDate(): Promise<string | null> {
    return readHistory(this.#parts, { name: 'lastSessionContextDate' });
  }

  /** The number of archives on the newest index card (the message that lists archives); 0 without a card. */
  lastInjectedChunkCount(): Promise<number> {
    return readHistory(this.#parts, { name: 'lastInjectedChunkCount' });
  }

  /** The user's own messages: without injected messages and results of calls. */
  realUserMessages(): Promise<readonly HistoryMessage[]> {
    return readHistory(this.#parts, { name: 'realUserMessages' });
  }

  /** The index in `messages()` of the user's last own message; null without one. */
  lastRealUserIndex(): Promise<number | null> {
    return readHistory(this.#parts, { name: 'lastRealUserIndex' });
  }

  /** The first message that instructs a sub-agent; null without one. */
  subagentInstructionMessage(): Promise<HistoryMessage | null> {
    return readHistory(this.#parts, { name: 'subagentInstructionMessage' });
  }

  /** An estimate of the tokens that `messages()` cost. */
  estimateTokens(): Promise<number> {
    return readHistory(this.#parts, { name: 'estimateTokens' });
  }

  /**
   * The messages in a general form, for a caller who calls a model without this runtime. They include transient
   * messages and system messages. `activeMessages` returns what this runtime itself would send. Messages outside
   * `taskChain` and fields that are not sent are left out. Each call has one result. An answer without
   * `reasoningContent` gets an empty one if another answer has one, or if `options` ask for it.
   */
  async toApi(options: ToApiOptions = {}): Promise<readonly ApiMessage[]> {
    return readHistory(this.#parts, { name: 'toApi', options: checkToApiOptions(options) });
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
  startTask(title?: string, options: TaskOptions = {}): Promise<number> {
    return tasks.startTask(this.#parts, title, options);
  }

  /** Returns to the parent of the active task. */
  undo(options: TaskOptions = {}): Promise<TaskMove> {
    return tasks.undo(this.#parts, options);
  }

  /** Switches to any task but the root (0), even a later task or a task of another branch. */
  switchTo(id: number, options: TaskOptions = {}): Promise<TaskMove> {
    return tasks.switchTo(this.#parts, id, options);
  }

  /** The ids of the tasks begun below a task. */
  children(id: number): Promise<readonly number[]> {
    return tasks.children(this.#parts, id);
  }

  /** The last tasks, ascending by id; 10 by default. */
  taskHistory(limit?: number): Promise<readonly TaskSummary[]> {
    return tasks.taskHistory(this.#parts, limit);
  }

  /**
   * The messages of the active branch as a request would have them now. Transient messages and entries that wait in the
   * mailbox are left out; `session.request()` also has the transient messages.
   */
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
   * Compresses the conversation now, if it is long enough. Resolves when the compression has ended and is durable. If
   * the conversation was not compressed, it is unchanged, and `reason` says why: `disabled`, `busy` (the session is not
   * idle, or may not begin work now), `not_needed`, or the failure of the summary. Rejects with `ConfigError` (bad
   * option), `LimitError` (the budget is used up), `StoreFullError`, `CancelledError` (closed, deleted).
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
}
