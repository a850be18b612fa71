/**
 * `Receipt`: reports the outcome of an accepted message. A caller can wait until the message is in the log, and until
 * it is answered, also after a restart.
 */
import { z } from 'zod';
import { KEY_CHARACTERS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import {
  type AnswerErrorCode,
  CancelledError,
  describeValue,
  type ErrorShape,
  errorFromShape,
  InvalidNameError,
  TroupeError,
  TurnFailedError,
} from '../../base/errors.ts';
import { checkSessionId } from '../../base/ids.ts';
import type { Json } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { ReceiptName } from '../protocol/addresses.ts';
import { type OutputSchema, typedAnswer } from '../protocol/output-option.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import { type Closing, forgivenAtClose } from './at-close.ts';

/** The outcome of a message so far. */
export interface ReceiptStatus {
  /**
   * `accepted`: the message waits. `promoted`: the message is in the log. `dropped`: the message left the mailbox and
   * never entered the log. Every other status says how the message's turn ended.
   */
  readonly status: 'accepted' | 'promoted' | 'answered' | 'failed' | 'interrupted' | 'suspended' | 'dropped';
  /** Why the message was dropped, or why its turn ended without an answer. */
  readonly reason?: string;
  /** The structured answer with which the turn ended. It fits the JSON Schema that the message asked for. */
  readonly output?: Json;
}

/**
 * An object that is the same for all receipts of one session in one runtime. The receipts of another runtime have
 * another object.
 */
export let runtimeOf: (receipt: Receipt<unknown>) => object;

/**
 * See the head of the file. A receipt holds no resources: it may be kept, passed on, or looked up again by its `id`.
 * `Answer`: text, or the type that the schema of a structured answer describes.
 */
export class Receipt<Answer = string> {
  static {
    runtimeOf = (receipt) => receipt.#link;
  }

  /**
   * Names the message: `<session>/<incarnation>.<pending id>`. An incarnation number is used only once: a new session
   * with the id of a deleted session has another incarnation.
   */
  readonly id: string;
  readonly session: string;
  /** The seq of the event that reported the acceptance. */
  readonly seq: number;
  /** True if the key was known, so that nothing new was accepted. */
  readonly duplicate: boolean;
  readonly pendingId: number;
  /** A new session with the id of a deleted one has another number. */
  readonly incarnation: number;
  readonly #link: ShardCaller & Closing;
  readonly #followed: Promise<ReceiptState | undefined> | undefined;
  readonly #output: OutputSchema | undefined;

  /**
   * `followed`: a promise of the outcome, which the shard sends without a request; `undefined` if the outcome must be
   * requested. `output`: the schema of a structured answer; `undefined`: the answer is text.
   */
  constructor(
    link: ShardCaller & Closing,
    accepted: {
      readonly session: string;
      readonly pendingId: number;
      readonly incarnation: number;
      readonly seq: number;
      readonly duplicate: boolean;
    },
    followed?: Promise<ReceiptState | undefined>,
    output?: OutputSchema,
  ) {
    this.#link = link;
    this.#output = output;
    this.#followed = followed;
    this.session = accepted.session;
    this.pendingId = accepted.pendingId;
    this.seq = accepted.seq;
    this.duplicate = accepted.duplicate;
    this.incarnation = accepted.incarnation;
    this.id = `${accepted.session}/${accepted.incarnation}.${accepted.pendingId}`;
  }

  get #name(): ReceiptName & { readonly session: string } {
    return { session: this.session, incarnation: this.incarnation, pendingId: this.pendingId };
  }

  /**
   * The current status. Like the other methods, it rejects with `TroupeError` (`unknown_session`) if the session was
   * deleted.
   */
  async status(): Promise<ReceiptStatus> {
    const state = await this.#link.call('receipt.status', this.#name, true);
    if (state === undefined) throw new TroupeError('unknown_session', `the session of receipt ${this.id} was deleted`);
    return publicStatus(state);
  }

  /**
   * Resolves when the message is in the log. Rejects with `CancelledError` if the message was withdrawn or replaced,
   * and with `TurnFailedError` if it was dropped for another reason.
   */
  promoted(): Promise<void> {
    return forgivenAtClose(this.#link, this.#promoted());
  }

  async #promoted(): Promise<void> {
    const state = await this.#wait('promoted');
    if (state.status === 'dropped') throw droppedError(state.reason);
  }

  /**
   * The last assistant text of the turn that consumed the message; `''` if the turn ended without text. Rejects with
   * `TurnFailedError` if that turn failed or bounced the message. If the turn reached the agent's step limit, the code
   * of this error is `limit` and its `data.reason` is `max_steps`. If a guardrail blocked the turn, `data.reason` is
   * `guardrail`. Rejects with `CancelledError` if the turn was interrupted (`data.reason` is the reason given to
   * `interrupt`), or if the message was withdrawn or replaced.
   *
   * If the message asked for a structured answer, resolves to the value of that answer. If the turn ended without one,
   * the code of the `TurnFailedError` is `answer_invalid` (`data.issues` says what did not fit), `answer_refused` or
   * `answer_cut`.
   */
  answer(): Promise<Answer> {
    return forgivenAtClose(this.#link, this.#answer());
  }

  async #answer(): Promise<Answer> {
    // Without a follower the request is posted at once, so that it precedes later requests of the caller, such as a
    // deletion.
    const followed = this.#followed === undefined ? undefined : await this.#followed;
    const state = followed ?? (await this.#wait('settled'));
    switch (state.status) {
      case 'answered':
        return this.#output === undefined ? (state.text as Answer) : await typedAnswer(this.#output, state.output);
      case 'cancelled':
        throw new CancelledError(interruptedText(state), {
          data: { turn: state.turn, ...defined({ reason: state.reason }) },
        });
      case 'suspended':
        throw suspendedError(state);
      case 'dropped':
        throw droppedError(state.reason);
      case 'failed': {
        const cause = errorFromShape(state.error);
        throw new TurnFailedError(`the turn failed: ${state.error.message}`, {
          cause,
          ...codeOf(state.error),
          data: { turn: state.turn, error: state.error, ...reasonOf(state.error), ...issuesOf(state.error) },
        });
      }
      case 'accepted':
      case 'promoted':
        throw new TurnFailedError('the turn has not ended');
    }
  }

  #wait(until: 'promoted' | 'settled'): Promise<ReceiptState> {
    return this.#link.call('receipt.wait', { ...this.#name, until }, true);
  }
}

const RECEIPT_ID = /^([^/]+)\/(?:([1-9]\d{0,14})\.)?([1-9]\d{0,14})$/;

/**
 * The parts of a receipt's id. Earlier versions gave ids without an incarnation. Such an id refers to the current
 * session of that name. Throws `InvalidNameError` for anything else.
 */
function parseReceiptId(id: unknown): {
  readonly session: string;
  readonly pendingId: number;
  readonly incarnation?: number;
} {
  // Only plain decimal is accepted. `Number` accepts more forms (`1e3`, `0x10`), and each would be another name of the
  // same receipt.
  const found = typeof id === 'string' ? RECEIPT_ID.exec(id) : null;
  if (found === null) {
    throw new InvalidNameError(`a receipt id has the form <session>/<incarnation>.<number>, got ${describeValue(id)}`);
  }
  const incarnation = found[2] === undefined ? {} : { incarnation: Number(found[2]) };
  return { session: checkSessionId(found[1]), pendingId: Number(found[3]), ...incarnation };
}

const keySchema = z.strictObject({ key: z.string().min(1).max(KEY_CHARACTERS_MAX) });

/**
 * The id, or the key, of the receipt that is wanted. For an id, the result has the session of the id. Throws
 * `InvalidNameError` for a text that is not an id, and `ConfigError` for anything else.
 */
export function wantedReceipt(
  named: unknown,
): ReturnType<typeof parseReceiptId> | { readonly key: string; readonly session?: undefined } {
  return typeof named === 'object' && named !== null ? parseOption(keySchema, 'receipt', named) : parseReceiptId(named);
}

function publicStatus(state: ReceiptState): ReceiptStatus {
  switch (state.status) {
    case 'accepted':
      return { status: 'accepted' };
    case 'promoted':
      return { status: 'promoted' };
    case 'answered':
      return { status: 'answered', ...defined({ output: state.output }) };
    case 'failed':
      return { status: 'failed', reason: state.error.message };
    case 'cancelled':
      return { status: 'interrupted', reason: interruptedText(state) };
    case 'suspended':
      return { status: 'suspended', reason: state.reason };
    case 'dropped':
      return { status: 'dropped', reason: state.reason };
  }
}

/** The machine-readable reason of an error, if it has one (`guardrail`). */
function reasonOf({ data }: ErrorShape): { readonly reason?: string } {
  const reason = data?.['reason'];
  return typeof reason === 'string' ? { reason } : {};
}

/** The code of a turn that ended without a valid structured answer; none for another error. */
export function codeOf({ code }: ErrorShape): { readonly code?: AnswerErrorCode } {
  return code === 'answer_invalid' || code === 'answer_refused' || code === 'answer_cut' ? { code } : {};
}

/** The issues of a structured answer that does not fit. */
export function issuesOf({ data }: ErrorShape): { readonly issues?: unknown } {
  return data?.['issues'] === undefined ? {} : { issues: data['issues'] };
}

/**
 * The error for a run that stopped at a boundary. `data.content` is the text of the run's last answer. A message or
 * `resume()` continues the run.
 */
function suspendedError({ turn, reason, detail, text }: Extract<ReceiptState, { status: 'suspended' }>): Error {
  if (reason === 'interrupted') {
    const data = { turn, reason: detail ?? null, content: text };
    return new CancelledError('the turn was interrupted at a message', { data });
  }
  const data = { turn, reason, content: text };
  return new TurnFailedError('the turn reached its step limit (maxSteps)', { code: 'limit', data });
}

/** The text for an interrupted turn, with the reason that was given to `interrupt`. */
function interruptedText({ reason }: { readonly reason?: string }): string {
  return reason === undefined ? 'the turn was interrupted' : `the turn was interrupted: ${reason}`;
}

function droppedError(reason: string): Error {
  if (reason === 'recalled' || reason === 'replaced') {
    return new CancelledError(`the message was ${reason} before it was promoted`, { data: { reason } });
  }
  return new TurnFailedError(`the message was dropped: ${reason}`, { data: { reason } });
}
