/** The codes of all errors, and the form of an error as plain data. */

/** Stable, documented codes. A program may switch on them; a message is for people. */
export type ErrorCode =
  | 'config'
  | 'unknown_agent'
  | 'agent_mismatch'
  | 'agent_missing'
  | 'upgrade_failed'
  | 'unknown_session'
  | 'invalid_name'
  | 'content'
  | 'session_busy'
  | 'key_reused'
  | 'redaction_failed'
  | 'mailbox_full'
  | 'limit'
  | 'store_locked'
  | 'store_corrupt'
  | 'store_full'
  | 'store_lost'
  | 'store_not_writable'
  | 'store_version'
  | 'store_key'
  | 'shard_moved'
  | 'turn_failed'
  | AnswerErrorCode
  | 'cancelled'
  | 'timeout'
  | 'model_authentication'
  | 'model_rate_limited'
  | 'model_overloaded'
  | 'model_invalid_request'
  | 'model_protocol'
  | 'model_timeout'
  | 'model_connection'
  | 'out_of_memory'
  | 'internal'
  | InvalidArgumentCode;

/**
 * Codes of a turn that ended without the structured answer that was asked for: the answer did not fit its schema after
 * all corrections, the model refused, or the answer was cut by a token limit.
 */
export type AnswerErrorCode = 'answer_invalid' | 'answer_refused' | 'answer_cut';

/** Codes of `InvalidArgumentError`: the fault in the arguments of a method. */
export type InvalidArgumentCode =
  | 'callback_required'
  | 'lookup_key_required'
  | 'lookup_key_ambiguous'
  | 'message_not_found'
  | 'letter_not_found'
  | 'tool_message_not_removable'
  | 'files_require_prompt'
  | 'invalid_index'
  | 'invalid_task'
  | 'invalid_argument';

/** An error inside an event, a record or a state: plain data, safe to store. */
export interface ErrorShape {
  readonly name: string;
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable?: boolean;
  readonly data?: Readonly<Record<string, unknown>>;
}
