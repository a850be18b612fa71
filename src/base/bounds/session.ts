/** Bounds of sessions and enrichers (`src/session`, `src/context`, `actors`). */

// ---- mailbox, turns and answers -----------------------------------------------------------------------------------

/** Characters of a main session's name: one line of a list. */
export const SESSION_NAME_CHARACTERS_MAX = 255;
/** Attempts of one model call that `settings.llm.retry.attempts` may allow, the first included: at the longest default wait, eight hours. */
export const MODEL_ATTEMPTS_MAX = 100;
/** Continuations of one paused assistant turn (`pause_turn`); a server tool that never ends must not loop for ever. */
export const PAUSE_CONTINUATIONS_MAX = 6;
/** Tokens counted for the call half of a phantom pair (contract §3.5). */
export const PHANTOM_CALL_TOKENS = 50;
/** Messages a dump of a refused request shows, the last ones: what was refused is nearly always the newest. */
export const REQUEST_DUMP_MESSAGES_MAX = 20;
/** UTF-8 bytes counted as one token (contract §6.1). */
export const BYTES_PER_TOKEN = 4;
/** Idempotency keys one session remembers, newest first: a retry comes soon or never. */
export const KEYS_REMEMBERED_MAX = 4_096;
/** Characters of one idempotency key. */
export const KEY_CHARACTERS_MAX = 256;
/** Finished receipts whose outcome a session keeps at hand; older ones are read from the log. */
export const RECEIPTS_REMEMBERED_MAX = 64;
/** Entries set aside because promoting them failed; the oldest is forgotten from memory, not from the log. */
export const DEAD_LETTERS_MAX = 100;
/** Tool calls of one round that run at once, per session; the others wait their turn in call order. */
export const PARALLEL_CALLS_MAX = 32;
/** Tool calls one model answer may ask for; a longer answer is cut, each cut call told so. */
export const CALLS_PER_ANSWER_MAX = 128;
/** Children listed in one `children.updated` event; a longer list is the business of `sessions.list`. */
export const CHILDREN_LISTED_MAX = 100;
/** Names offered for a tool name that does not exist. */
export const NEAREST_NAMES_MAX = 3;
/** History messages taken back from the end, at most, when a prompt was too long twice. */
export const PULLED_BACK_MAX = 64;
/** Tokens of a child's budget at most: far beyond any bill, and sums of them stay exact. */
export const BUDGET_TOKENS_MAX = 1_000_000_000_000;

// ---- approvals, guardrails and listeners --------------------------------------------------------------------------

/** Callbacks for the messages of one session. */
export const MESSAGE_CALLBACKS_MAX = 1_000;
/** Decisions about calls that waited for a person which a session remembers: a decision is repeated soon or never. */
export const APPROVALS_REMEMBERED_MAX = 256;
/** Guardrails one agent may have before, and after, a model call: each holds up every call. */
export const GUARDRAILS_MAX = 32;
/** Listeners of one session that its runs wait for: each holds up every message. */
export const WAITING_LISTENERS_MAX = 1_024;
/** Characters of the reason a person gives for a denial: the model reads it. */
export const APPROVAL_REASON_CHARACTERS_MAX = 10_000;

// ---- history, tasks and forks -------------------------------------------------------------------------------------

/** Titles of tasks one session remembers, newest last; an older task is named by its first message. */
export const TASK_TITLES_MAX = 1_000;
/** Tasks of one session that do not follow the one before them: each is an undo or a switch somebody went on from. */
export const TASK_BRANCHES_MAX = 10_000;
/** Starts of tasks kept beyond one a message in memory: turns whose messages were all taken back leave nothing else behind. */
export const TASK_STARTS_SPARE = 1_024;
/** Tasks one `taskHistory` tells of. */
export const TASK_HISTORY_MAX = 1_000;
/** Messages of other branches one session keeps in memory; the oldest beyond are in its log alone, and `messages()` reads them there. */
export const HIDDEN_MESSAGES_MAX = 10_000;
/** Forks one session's log is shared with; what each begins with is stored when the session is deleted. Further ones get a copy. */
export const FORKS_SHARED_MAX = 256;
/** Logs a fork's own may rest on, one on the other: each is read when the fork is. Further ones get a copy. */
export const FORK_DEPTH_MAX = 16;
/** Messages one history operation may bring: a history far larger than any context window. */
export const HISTORY_MESSAGES_MAX = 50_000;
/** History operations of one session that wait for a message boundary; a session waits for one model call at most. */
export const EDITS_WAITING_MAX = 1_000;
/** Keys of history operations one session remembers with their outcomes, newest first: a retry comes soon or never. */
export const EDIT_KEYS_REMEMBERED_MAX = 256;
/** Times a predicate is asked again because the history was changed under it, before the operation is refused. */
export const HISTORY_ATTEMPTS_MAX = 32;
/** Transient messages of one session: reminders of the day, not a second history. */
export const TRANSIENT_MESSAGES_MAX = 1_000;
/** Sessions of one shard that may be kept in memory by transient messages. */
export const TRANSIENT_SESSIONS_MAX = 10_000;
/** UTF-8 bytes of the JSON of one extension event of a message (contract §5.10). */
export const EXTENSION_EVENT_BYTES_MAX = 8_192;
/** Extension events one message keeps, the newest (contract §5.10). */
export const EXTENSION_EVENTS_MAX = 50;

// ---- compression --------------------------------------------------------------------------------------------------

/** Characters (code points) kept of a tool result among the messages a compression keeps: its beginning says what it was. */
export const KEPT_RESULT_CHARACTERS_MAX = 2_000;
/** Messages by which a log must have grown before a compression that failed is tried again. */
export const COMPRESSION_RETRY_MESSAGES = 20;
/** Archived chunks whose topics a session keeps at hand for its index card; of older ones it names the numbers alone. */
export const CHUNKS_AT_HAND_MAX = 100;
/** Characters kept of the topics of one archived chunk. */
export const CHUNK_TOPICS_CHARACTERS_MAX = 300;

// ---- memory, goals and enrichers ----------------------------------------------------------------------------------

/** Waiting entries Melete is shown, the oldest: a flooded mailbox would fill its window, and the turn has one of them. */
export const MELETE_PENDING_MAX = 100;
/** Characters of one line Melete is shown: a call's input may be a whole file. */
export const MELETE_LINE_CHARACTERS_MAX = 2_000;
/** Goals of one session that may be open: they are all shown before a window from which something has left. */
export const GOALS_ACTIVE_MAX = 64;
/** Goals one session remembers; beyond it the oldest completed one is forgotten from memory, not from the log. */
export const GOALS_MAX = 256;
/** Characters of a goal's description: a sentence or a paragraph, not a document. */
export const GOAL_DESCRIPTION_CHARACTERS_MAX = 1_000;
/** Characters of a goal shown before the window: a task may be longer, and its beginning says what it is. */
export const PREFIX_GOAL_CHARACTERS_MAX = 1_000;
/** Messages pinned in one session: more do not fit the part of the window that is kept for them. */
export const PINS_MAX = 1_000;
/** Characters shown of a pinned message (contract §1.6). */
export const PIN_TEXT_CHARACTERS_MAX = 200;
/** Characters of one snapshot (contract §1.5). */
export const SNAPSHOT_CHARACTERS_MAX = 32_768;
/** Snapshots of one level a session keeps: older ones are beyond any budget, and part of its state they would grow for ever. */
export const SNAPSHOTS_KEPT_MAX = 64;
/** Attempts at one summary before the window is cut without it (contract §6.5). */
export const SUMMARY_ATTEMPTS_MAX = 3;

// ---- supervision --------------------------------------------------------------------------------------------------

/** Children one supervisor watches at once: as many as one parent may have. */
export const SUPERVISED_CHILDREN_MAX = 100_000;
/** Requests to add or remove a child that wait while a supervisor restarts a group; a group is stopped and started in seconds. */
export const SUPERVISOR_REQUESTS_MAX = 1_024;
