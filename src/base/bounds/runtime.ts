/**
 * Bounds of session threads, their host and the readers of events (`src/runtime`, `src/threads`, `src/events`), and of
 * errors and plain values (`src/base`).
 */
import type { RestartIntensity } from '../restart-intensity.ts';

// ---- sessions in memory, and their turns --------------------------------------------------------------------------

/**
 * UTF-8 bytes from which a waiting content is kept in the log only. A smaller content costs less to hold in memory than
 * to read back.
 */
export const STORED_CONTENT_BYTES_MIN = 1_024;
/**
 * Milliseconds of one tick for notifying callers whose transitions were flushed, and for resuming interrupted sessions.
 * A thousand callers or sessions at once must not block sockets.
 */
export const RESUME_BUDGET_MS = 4;
/**
 * Milliseconds between checkpoints. A checkpoint writes the heads of changed sessions. A head is a summary of a
 * session's state, for long logs with a snapshot of the whole state.
 */
export const CHECKPOINT_INTERVAL_MS = 1_000;
/**
 * If a session has made this many transitions since its last snapshot, its whole state is stored when it leaves memory.
 * So a later load rebuilds the state from few records.
 */
export const SNAPSHOT_TURNS = 500;
/**
 * Journalled transitions after which a checkpoint is due, however little time has passed. This bounds the tail that a
 * recovery replays.
 */
export const CHECKPOINT_TURNS = 10_000;
/**
 * Milliseconds from the timeout of a session's calls until the session checks whether their results will still come.
 * By then the tool pool has answered (`TOOL_GRACE_MS`), and a busy session thread has read the answer.
 */
export const CALL_CHECK_GRACE_MS = 5_000;
/**
 * A `pure` tool may start while its call waits for the disk. At most this many transitions of its session may wait
 * there at that time: those of two half-steps.
 */
export const RUN_AHEAD_TURNS_MAX = 8;
/** Idle sessions kept resident per shard, so that a conversation's next message need not read the disk. */
export const HOT_SESSIONS_MAX = 10_000;
/** Ended children among the idle resident sessions. Few are kept, because they have delivered their results. */
export const ENDED_SESSIONS_MAX = 256;
/**
 * Tokens of the conversations of all idle resident sessions of a shard: about 256 MB. A token has four characters.
 * The characters are held twice, within objects whose keys take space too.
 */
export const HOT_TOKENS_MAX = 16_000_000;
/**
 * Milliseconds an idle session stays in memory after its last use. Reading the session again costs a fraction of a
 * millisecond.
 */
export const SESSION_IDLE_MS = 10_000;

/** The bounds of a shard that only tests have a reason to change. A small bound makes a rare event happen often. */
export interface ShardBounds {
  /** See `HOT_SESSIONS_MAX`. */
  readonly hotSessions: number;
  /** See `SNAPSHOT_TURNS`. */
  readonly snapshotTurns: number;
  /** See `CHECKPOINT_TURNS`. */
  readonly checkpointTurns: number;
  /** See `STORED_CONTENT_BYTES_MIN`. */
  readonly storedContentBytes: number;
  /** Tokens from which a prompt counts as cached by the provider; missing: as the model's traits say. */
  readonly cachedPromptTokens?: number;
}

/** The bounds of a shard outside tests. */
export const SHARD_BOUNDS: ShardBounds = Object.freeze({
  hotSessions: HOT_SESSIONS_MAX,
  snapshotTurns: SNAPSHOT_TURNS,
  checkpointTurns: CHECKPOINT_TURNS,
  storedContentBytes: STORED_CONTENT_BYTES_MIN,
});

// ---- session threads and their host -------------------------------------------------------------------------------

/** UTF-16 units of requests in flight from the host to one session thread. Each text is copied about three times. */
export const REQUEST_BYTES_UNDER_WAY_MAX: number = 8 * 1024 * 1024;
/**
 * UTF-16 units from which a request waits until `REQUEST_BYTES_UNDER_WAY_MAX` has room. Smaller requests do not wait,
 * because a service has at most one of them in flight for each of its callers.
 */
export const REQUEST_LARGE_BYTES_MIN: number = 16 * 1024;
/**
 * Milliseconds `close()` waits by default for running half-steps. Half-steps that take longer resume at the next open.
 */
export const CLOSE_DEADLINE_MS = 10_000;
/**
 * Milliseconds `close()` waits for the commits that have begun, beyond its deadline. A device that syncs at all does so
 * within this time. The messages of a commit that takes longer are refused, although the store may have them.
 */
export const LAST_COMMITS_MS = 5_000;
/**
 * Milliseconds a session thread has after the deadline of `close()`, to flush to a slow device and to end its pools.
 */
export const SHARD_CLOSE_MS = 30_000;
/** Session threads of one runtime. */
export const SHARDS_MAX = 64;
/**
 * Restarts of one session thread before its sessions are given up. OTP's default is one restart in five seconds; this
 * bound leaves room for a burst.
 */
export const SHARD_RESTARTS: RestartIntensity = { intensity: 5, periodMs: 60_000 };
/**
 * Restarts of one session whose transitions throw, before the session is blocked. A session thread has the same bound.
 */
export const SESSION_RESTARTS: RestartIntensity = { intensity: 5, periodMs: 60_000 };
/**
 * Megabytes of young heap of a session thread. The objects of a transition live until its flush and its answer. In a
 * small young heap, the objects of a thousand transitions at once are taken for long-lived ones. Collecting them then
 * takes a quarter of the thread's time.
 */
export const SESSION_THREAD_YOUNG_HEAP_MB = 192;
/** Sessions whose loggers are kept: those that logged most recently. */
export const SESSION_LOGGERS_MAX = 1_024;
/** Milliseconds a readiness probe waits to learn whether the sessions that a crash interrupted have been read. */
export const READY_WAIT_MS = 1_000;

// ---- pages --------------------------------------------------------------------------------------------------------

/** Messages shown before and after the requested one (contract §11.2). */
export const VIEW_MESSAGES_AROUND = 10;
/** Characters shown of a tool call's input. */
export const VIEW_INPUT_CHARACTERS = 200;
/** Approximate bytes of one page besides its first item. Two threads hold a page whole in memory before it is sent. */
export const PAGE_BYTES_MAX: number = 1024 * 1024;

// ---- webhooks -----------------------------------------------------------------------------------------------------

/**
 * UTF-8 bytes of a text or an input in a notice, the body of a webhook request. Receivers commonly accept bodies of
 * 64 kB, and a notice has at most two such texts and a few names.
 */
export const NOTICE_BYTES_MAX: number = 16 * 1024;
/** Notices of one session that a shard reads from the log for one request. */
export const NOTICES_PAGE_MAX = 64;
/** Approximate bytes of the notices read for one request, besides the first notice. */
export const NOTICES_PAGE_BYTES_MAX: number = 256 * 1024;
/** Sessions whose logs one request may search for notices. Each takes about one tick. */
export const NOTICE_SCAN_SESSIONS = 32;
/** Webhooks of a runtime. After a restart the log is read once for each. */
export const WEBHOOKS_MAX = 16;
/** Headers that a webhook may add. */
export const WEBHOOK_HEADERS_MAX = 32;
/** Least bytes of a webhook's secret, from the Standard Webhooks specification. */
export const WEBHOOK_SECRET_BYTES_MIN = 24;
/** Most bytes of a webhook's secret, from the same specification. */
export const WEBHOOK_SECRET_BYTES_MAX = 64;
/** Deliveries of one webhook at once, each for another session. More would overload a small receiver. */
export const WEBHOOK_DELIVERIES_MAX = 8;
/** Milliseconds that a receiver has for its answer: within the 15 to 30 seconds that the specification advises. */
export const WEBHOOK_TIMEOUT_MS = 15_000;
/** Milliseconds before the second attempt of a delivery. Each further attempt waits twice as long. */
export const WEBHOOK_BACKOFF_MS = 1_000;
/** Longest wait before another attempt: a receiver that is back gets its deliveries within five minutes. */
export const WEBHOOK_BACKOFF_MS_MAX = 300_000;
/**
 * Sessions with undelivered notices that one webhook remembers, 100 to 200 bytes each. Beyond this number the webhook
 * does not follow the log until some notices are delivered.
 */
export const WEBHOOK_SESSIONS_MAX = 10_000;
/** Bytes of undelivered notices that one webhook holds. The others are read from the log when they are due. */
export const WEBHOOK_HELD_BYTES_MAX: number = 4 * 1024 * 1024;
/** New notices that one webhook holds while it still reads earlier ones from the log of the same shard. */
export const WEBHOOK_BUFFERED_MAX = 1_024;
/**
 * Milliseconds between two writes of a webhook's cursor. After a crash the deliveries since the last write are
 * repeated.
 */
export const WEBHOOK_SAVE_MS = 1_000;
/** Bytes of the file of a cursor: `WEBHOOK_SESSIONS_MAX` sessions with the longest names. */
export const WEBHOOK_CURSOR_BYTES_MAX: number = 4 * 1024 * 1024;
/** Milliseconds that a closing runtime waits for deliveries in flight. */
export const WEBHOOK_CLOSE_MS = 2_000;

// ---- endpoints ----------------------------------------------------------------------------------------------------

/**
 * An endpoint is one side of the connection between two threads. At most this many of its calls may wait for an answer:
 * ten times the calls that a shard has in flight at most.
 */
export const ENDPOINT_CALLS_MAX = 1_000_000;
/**
 * Frames (requests, answers and notes) of one posted batch. A longer batch keeps the receiver from its other ports for
 * milliseconds.
 */
export const ENDPOINT_BATCH_MAX = 4_096;
/**
 * Events that a session thread publishes in one note, which is one frame. `ENDPOINT_SLICE_MAX` notes are delivered
 * before any reader runs. The events of these notes must be fewer than `SUBSCRIBER_EVENTS_MAX`, or even a fast reader
 * would lose some.
 */
export const EVENTS_OF_NOTE_MAX = 64;
/**
 * Frames that an endpoint delivers in one tick: two to four milliseconds of a session thread's work. With half as many
 * frames, the benchmark W3 (isolated) made a tenth fewer children/s, because fewer children shared a commit.
 */
export const ENDPOINT_SLICE_MAX = 128;
/**
 * Milliseconds of handlers after which an endpoint ends a slice with fewer frames: twice a full slice of sessions that
 * are in memory. A message to a session that is not in memory reads the session's log, which takes milliseconds. When a
 * thousand such messages arrive at once after `open`, the first of them is accepted after some slices, not after all.
 */
export const ENDPOINT_SLICE_MS = 8;

// ---- the life of a thread -----------------------------------------------------------------------------------------

/**
 * Milliseconds to wait for a thread that was asked to end. A thread in native code, or in a loop the engine cannot
 * break, may never end.
 */
export const THREAD_END_MS = 5_000;
/**
 * Milliseconds a thread has to end by itself before it is terminated: enough for a tick of a busy event loop and for
 * the addons' clean-up.
 */
export const THREAD_EXIT_MS = 2_000;
/**
 * Milliseconds that ending a thread waits for work that must not be interrupted: a commit on a slow device.
 */
export const GATE_CLOSE_MS = 2_000;
/** Milliseconds between two checks by which a session thread finds out whether its own event loop still runs. */
export const LOOP_WATCH_INTERVAL_MS = 1_000;
/**
 * Milliseconds by which a check of the event loop may be late: a hundred times the longest usual tick. If a check is
 * later, the thread reports that its actors were stalled.
 */
export const LOOP_STALL_MS = 1_000;

// ---- errors -------------------------------------------------------------------------------------------------------

/** Causes encoded with an error that crosses a thread, the error itself not counted. */
export const ERROR_CAUSES_MAX = 5;
/** Bytes of the JSON of an error's message. With its code and its envelope every error answer stays below 4 kB. */
export const ERROR_MESSAGE_BYTES_MAX = 3_000;
/** Characters of the message of a session's last error. Session heads in the store and session lists contain it. */
export const LAST_ERROR_CHARACTERS_MAX = 500;
/** Milliseconds between two checks whether an unclosed runtime has work. After two idle checks the process may end. */
export const PROCESS_HOLD_LOOK_MS = 500;
/** Most edits between a wrong name and the known name that an error suggests. A typing error has one or two. */
export const NAME_EDITS_MAX = 2;
/** Known names listed in an error. All commands of the program fit. People do not read a longer list. */
export const NAMES_LISTED_MAX = 30;
/** Problems of a refused body that are reported: the first few, which a client fixes first. */
export const BODY_ISSUES_MAX = 3;
/** Characters of a message or a stack encoded with an error that crosses a thread. */
export const ERROR_TEXT_CHARACTERS_MAX = 16_384;
/** Levels of nested data in a log line. The data of an error has two. */
export const LOGGED_DEPTH_MAX = 6;

// ---- plain values -------------------------------------------------------------------------------------------------

/**
 * Values in one copy as plain JSON: as many as fit into the largest result at two bytes each. A long array of holes, or
 * an object that is referenced very often, must not hang a thread.
 */
export const PLAIN_VALUES_MAX: number = 2 * 1024 * 1024;

// ---- subscribers --------------------------------------------------------------------------------------------------

/**
 * Events that may wait for one subscriber. Beyond this bound the subscriber receives a `gap` and catches up from the
 * log.
 */
export const SUBSCRIBER_EVENTS_MAX = 10_000;
/**
 * Approximate UTF-16 units of event content that may wait for one subscriber. This bounds a few large events as well as
 * many small ones.
 */
export const SUBSCRIBER_CHARACTERS_MAX: number = 16 * 1024 * 1024;
/**
 * Approximate bytes that all readers of a process hold: buffers, pages, and answers their sockets have not taken.
 * Non-Latin text and uncollected memory may add twice that amount. Even then a process stays below 1 GB.
 */
export const READERS_BYTES_MAX: number = 128 * 1024 * 1024;
/** Subscribers that one runtime serves at once: several for each live session. */
export const SUBSCRIBERS_MAX = 65_536;
/** Sessions for which a reader of all sessions may name a cursor. Each is looked up in the log, one after the other. */
export const EVENT_PLACES_MAX = 10_000;
/**
 * Sessions whose events a reader of all sessions may lose before it is notified. With more of them the reader fails.
 */
export const LOST_SESSIONS_MAX = 10_000;

// ---- pages of the log for readers ---------------------------------------------------------------------------------

/**
 * Durable events on one page that a subscriber reads from the log. A reader that catches up holds one page in memory.
 */
export const REPLAY_PAGE_EVENTS = 256;
/**
 * Approximate bytes of one page of the log besides its first event. For events of the usual size the number of events
 * is the tighter bound.
 */
export const REPLAY_PAGE_BYTES_MAX: number = 256 * 1024;
/** Page requests of readers in flight at one shard. The pages stay in memory until the host thread takes them. */
export const REPLAYS_UNDER_WAY_MAX = 8;
/** Approximate bytes of pages kept for the next reader of the same session. All readers of one session share them. */
export const REPLAY_PAGES_KEPT_BYTES_MAX: number = 16 * 1024 * 1024;
/**
 * Readers of one shard whose next page continues where the last page ended. Each of them holds a state of its session
 * and part of the session's log, so the state is not rebuilt for the page.
 */
export const REPLAYS_MAX = 8;
/**
 * Approximate bytes of the states and log parts that these readers hold together. Beyond this bound the reader that was
 * served longest ago loses its state, and its next page begins from a snapshot again.
 */
export const REPLAYS_BYTES_MAX: number = 16 * 1024 * 1024;

// ---- diagnostics --------------------------------------------------------------------------------------------------

/** Sessions with work in flight that diagnostics follow: as many as `SUBSCRIBERS_MAX`. */
export const DIAGNOSED_SESSIONS_MAX = 65_536;
/**
 * Messages of one turn, or of one answer, in a diagnostics message. Only the first messages of a longer list are named.
 */
export const DIAGNOSED_MESSAGES_MAX = 100;

/**
 * Used-up budgets that a shard has reported and remembers: the newest. A budget that was forgotten is reported again.
 */
export const BUDGETS_REPORTED_MAX = 1_024;

// ---- versions of agents --------------------------------------------------------------------------------------------

/**
 * `upgrade` functions of one shard that run at a time. Each holds a copy of its session's history, and all share the
 * host thread.
 */
export const UPGRADES_RUNNING_MAX = 16;
/** Sessions of one shard whose failed `upgrade` is remembered. Beyond this bound the oldest is tried again. */
export const UPGRADES_FAILED_MAX = 10_000;
/** Edits that an `upgrade` function may return. Each is looked up in the whole history; `set` replaces all of it. */
export const UPGRADE_EDITS_MAX = 1_000;
