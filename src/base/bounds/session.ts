/** Bounds of sessions and enrichers (`src/session`, `src/context`, `actors`). */

// ---- mailbox, turns and answers -----------------------------------------------------------------------------------

/** Characters of a main session's name: one line of a list. */
export const SESSION_NAME_CHARACTERS_MAX = 255;
/**
 * Highest value of `settings.llm.retry.attempts`: attempts of one model call, the first included. With the longest
 * default wait between them, the attempts take eight hours.
 */
export const MODEL_ATTEMPTS_MAX = 100;
/** Continuations of one paused assistant turn (`pause_turn`). A server tool that never ends must not loop for ever. */
export const PAUSE_CONTINUATIONS_MAX = 6;
/** Tokens counted for the call of a phantom pair: a call that the runtime adds beside a result (contract §3.5). */
export const PHANTOM_CALL_TOKENS = 50;
/** Messages that the dump of a refused request shows: the newest, since a refusal nearly always concerns the newest. */
export const REQUEST_DUMP_MESSAGES_MAX = 20;
/** UTF-8 bytes counted as one token (contract §6.1). */
export const BYTES_PER_TOKEN = 4;
/** Idempotency keys that one session remembers, newest first. A retry usually comes soon. */
export const KEYS_REMEMBERED_MAX = 4_096;
/** Characters of one idempotency key. */
export const KEY_CHARACTERS_MAX = 256;
/** Finished receipts whose outcome a session keeps in memory. Older ones are read from the log. */
export const RECEIPTS_REMEMBERED_MAX = 64;
/**
 * Dead letters of one session: entries set aside because their promotion failed. Beyond this number the oldest letter
 * is dropped. A session also remembers at most this many letters that were sent again.
 */
export const DEAD_LETTERS_MAX = 100;
/**
 * UTF-8 bytes of one session's dead letters: the default of `limits.mailboxBytes`. Beyond this bound the oldest letters
 * are dropped, but the newest always stays.
 */
export const DEAD_LETTER_BYTES_MAX: number = 16 * 1024 * 1024;
/**
 * Sessions that one page of dead letters looks at. Reading the summary of a session takes microseconds, and a page must
 * be complete soon.
 */
export const DEAD_LETTER_SCAN_MAX = 20_000;
/** Tool calls of one round that run at once, per session. Further calls wait in call order. */
export const PARALLEL_CALLS_MAX = 32;
/** Tool calls in one model answer. A longer answer is cut, and each cut call is answered with the reason. */
export const CALLS_PER_ANSWER_MAX = 128;
/**
 * UTF-8 bytes of the JSON Schema of a structured answer. Each request has one, and each waiting message may have one.
 */
export const ANSWER_SCHEMA_BYTES_MAX: number = 64 * 1024;
/** Reasons kept when a structured answer does not fit its schema: enough to correct it, few enough to read. */
export const ANSWER_ISSUES_MAX = 10;
/**
 * Characters of one reason why an answer does not fit. A reason may quote the answer, or all values of an enumeration.
 */
export const ANSWER_ISSUE_CHARACTERS_MAX = 300;
/** Levels of a schema that are read. A schema that a program made may be endlessly deep. */
export const ANSWER_SCHEMA_DEPTH_MAX = 64;
/** Forms of structured answers whose request fields a session thread keeps. The agents' own forms do not count. */
export const ANSWER_FORMS_KEPT_MAX = 256;
/** Children listed in one `children.updated` event. `sessions.list` returns longer lists. */
export const CHILDREN_LISTED_MAX = 100;
/** Names suggested for a tool name that does not exist. */
export const NEAREST_NAMES_MAX = 3;
/** If a request for a summary was too long, the second request leaves out at most this many of the newest messages. */
export const PULLED_BACK_MAX = 64;
/**
 * Most tokens of a budget: more than anyone would pay for, yet small enough that sums of such budgets stay exact.
 */
export const BUDGET_TOKENS_MAX = 1_000_000_000_000;
/** Descendants of a session that join its first budget. One transition reads and changes all of them. */
export const BUDGET_JOINS_MAX = 1_000;

// ---- approvals, guardrails and listeners --------------------------------------------------------------------------

/** Callbacks for the messages of one session. */
export const MESSAGE_CALLBACKS_MAX = 1_000;
/** Decisions of persons about held calls that a session remembers. A repeated decision usually comes soon. */
export const APPROVALS_REMEMBERED_MAX = 256;
/** Guardrails of one agent before a model call, and as many after it. Each delays every call. */
export const GUARDRAILS_MAX = 32;
/** Listeners of one session whose verdicts its runs wait for. Each delays every message. */
export const WAITING_LISTENERS_MAX = 1_024;
/** Characters of the reason a person gives for a denial: the model reads it. */
export const APPROVAL_REASON_CHARACTERS_MAX = 10_000;
/** UTF-16 units of the name of a decision's author: a name, an address, or an id of another system. */
export const AUTHOR_CHARACTERS_MAX = 256;

/** Characters of a question that a model asks, with its choices. A person or another model reads it whole. */
export const QUESTION_CHARACTERS_MAX = 20_000;
/** Questions that an MCP server may ask in one call. Each costs a person's attention, and a server may ask for ever. */
export const ELICITATIONS_MAX = 10;
/** Answers that a model may propose with a question: more cannot be surveyed. */
export const QUESTION_CHOICES_MAX = 50;

// ---- history, tasks and forks -------------------------------------------------------------------------------------

/** Task titles that one session remembers, newest last. An older task is named by its first message. */
export const TASK_TITLES_MAX = 1_000;
/** Tasks of one session that do not continue the previous task. Each begins after an undo or a switch. */
export const TASK_BRANCHES_MAX = 10_000;
/**
 * The newest starts of tasks that are kept although no message in memory belongs to them. Older starts are kept only
 * while a message in memory belongs to them.
 */
export const TASK_STARTS_SPARE = 1_024;
/** Tasks that one `taskHistory` returns. */
export const TASK_HISTORY_MAX = 1_000;
/**
 * Messages of other branches that one session keeps in memory. Older messages are only in the session's log, where
 * `messages()` reads them.
 */
export const HIDDEN_MESSAGES_MAX = 10_000;
/**
 * A session remembers at most this many times at which messages left its window. By these times it removes old history.
 * With more of them, the removal would be more punctual.
 */
export const DEPARTURES_MAX = 16;
/**
 * Forks that share one session's log. When the session is deleted, the shared beginning of each fork is stored with the
 * fork. Further forks get a copy.
 */
export const FORKS_SHARED_MAX = 256;
/**
 * Depth of shared logs below a fork's own log: a fork of a fork shares two. A read of the fork reads all of them. A
 * fork beyond this depth gets a copy.
 */
export const FORK_DEPTH_MAX = 16;
/** Messages that one history operation may add: a history far larger than any context window. */
export const HISTORY_MESSAGES_MAX = 50_000;
/** History operations of one session that wait for a message boundary, which is the end of the model call in flight. */
export const EDITS_WAITING_MAX = 1_000;
/**
 * Keys of history operations that one session remembers with their outcomes, newest first. A retry usually comes soon.
 */
export const EDIT_KEYS_REMEMBERED_MAX = 256;
/**
 * If the history changes while the predicate of an operation runs, the operation is attempted again. After this many
 * attempts it is refused.
 */
export const HISTORY_ATTEMPTS_MAX = 32;
/** Transient messages of one session. They are meant for reminders of the day, not for a second history. */
export const TRANSIENT_MESSAGES_MAX = 1_000;
/** Sessions of one shard that may be kept in memory by transient messages. */
export const TRANSIENT_SESSIONS_MAX = 10_000;
/** UTF-8 bytes of the JSON of one extension event of a message (contract §5.10). */
export const EXTENSION_EVENT_BYTES_MAX = 8_192;
/** Extension events that one message keeps: the newest ones (contract §5.10). */
export const EXTENSION_EVENTS_MAX = 50;

// ---- compression --------------------------------------------------------------------------------------------------

/**
 * Code points kept of a tool result that stays after a compression. The beginning of a result says what the result was.
 */
export const KEPT_RESULT_CHARACTERS_MAX = 2_000;
/** New messages that a session must have before a failed compression is tried again. */
export const COMPRESSION_RETRY_MESSAGES = 20;
/**
 * Archives whose topics a session keeps in memory for its index card, the message that lists the archives. For older
 * archives the card lists only the numbers.
 */
export const CHUNKS_AT_HAND_MAX = 100;
/** Characters kept of the topics of one archive. */
export const CHUNK_TOPICS_CHARACTERS_MAX = 300;

// ---- memory, goals and enrichers ----------------------------------------------------------------------------------

/**
 * Waiting entries shown to Melete, the enricher that prepares a turn: the oldest ones. The entries of a flooded mailbox
 * would fill Melete's window, although the turn takes only one entry.
 */
export const MELETE_PENDING_MAX = 100;
/** Characters of one line shown to Melete: a call's input may be a whole file. */
export const MELETE_LINE_CHARACTERS_MAX = 2_000;
/**
 * Open goals of one session. Once messages have left the window, all open goals are shown at the start of the window.
 */
export const GOALS_ACTIVE_MAX = 64;
/**
 * Goals that one session remembers. Beyond this number the oldest completed goal is dropped from memory but stays in
 * the log.
 */
export const GOALS_MAX = 256;
/** Characters of a goal's description: a sentence or a paragraph, not a document. */
export const GOAL_DESCRIPTION_CHARACTERS_MAX = 1_000;
/** Characters of a goal shown before the window. A longer goal is cut, since its beginning says what it is. */
export const PREFIX_GOAL_CHARACTERS_MAX = 1_000;
/** Messages pinned in one session. More do not fit into the part of the window that is reserved for pins. */
export const PINS_MAX = 1_000;
/** Characters shown of a pinned message (contract §1.6). */
export const PIN_TEXT_CHARACTERS_MAX = 200;
/** Characters of one snapshot: a summary of messages that left the window (contract §1.5). */
export const SNAPSHOT_CHARACTERS_MAX = 32_768;
/**
 * Snapshots of one level that a session keeps. More snapshots would exceed any token budget, and the session's state
 * would grow for ever.
 */
export const SNAPSHOTS_KEPT_MAX = 64;
/** Attempts at one summary before the window is cut without it (contract §6.5). */
export const SUMMARY_ATTEMPTS_MAX = 3;

// ---- supervision --------------------------------------------------------------------------------------------------

/** Children that one supervisor watches at once: the default of `limits.children`. */
export const SUPERVISED_CHILDREN_MAX = 100_000;
/** Requests to add or remove a child that wait while a supervisor restarts a group. A restart takes seconds. */
export const SUPERVISOR_REQUESTS_MAX = 1_024;

// ---- redaction ----------------------------------------------------------------------------------------------------

/**
 * UTF-16 units that `redact` may return for a text of any length. A short text may have a longer replacement, such as a
 * token.
 */
export const REDACTED_CHARACTERS_MIN = 1_024;
/**
 * A redacted text with more than `REDACTED_CHARACTERS_MIN` units may have at most this many times the units of the
 * original text. The limits of messages and results are checked before the redaction.
 */
export const REDACTED_GROWTH_MAX = 2;
