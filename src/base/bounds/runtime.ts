/**
 * Bounds of session threads, their host and the readers of events (`src/runtime`, `src/threads`, `src/events`), and of errors and plain
 * values (`src/base`).
 */
import type { RestartIntensity } from '../restart-intensity.ts';

// ---- sessions in memory, and their turns --------------------------------------------------------------------------

/** UTF-8 bytes of a waiting content from which only the log keeps it: smaller ones cost less in memory than reading them back. */
export const STORED_CONTENT_BYTES_MIN = 1_024;
/** Milliseconds a turn that nobody waits for may be in memory alone: as long as a slow device takes for one flush. */
export const PATIENCE_MS = 5;
/** Milliseconds of waiters resumed in one turn of the loop, so that a thousand of them do not block sockets. */
export const RESUME_BUDGET_MS = 4;
/** Milliseconds between checkpoints of session heads. */
export const CHECKPOINT_INTERVAL_MS = 1_000;
/** Turns of one session's log after which its state is stored whole when it leaves memory: bounds what a wake-up folds. */
export const SNAPSHOT_TURNS = 500;
/** Turns journalled before a checkpoint is due whatever the time: bounds the tail a recovery replays. */
export const CHECKPOINT_TURNS = 10_000;
/**
 * Milliseconds beyond the timeout of a session's calls after which it asks whether their results are still to come: the pool
 * has answered within `TOOL_GRACE_MS`, and a busy thread has taken its answer in.
 */
export const CALL_CHECK_GRACE_MS = 5_000;
/** Turns of a session that may wait for the disk when a `pure` tool is started ahead of it: two half-steps. */
export const RUN_AHEAD_TURNS_MAX = 8;
/** Idle sessions kept in memory per shard, so that a conversation's next message need not read the disk. */
export const HOT_SESSIONS_MAX = 10_000;
/** Children that have ended, of those: they have told what they were for. */
export const ENDED_SESSIONS_MAX = 256;
/** Tokens of the conversations of those sessions together: about 256 MB, as a token is held as four characters, twice, with its keys. */
export const HOT_TOKENS_MAX = 16_000_000;
/** Milliseconds an idle session stays in memory after its last use: reading it again costs a fraction of one. */
export const SESSION_IDLE_MS = 10_000;

/** Bounds a shard works within that only a test has a reason to change: a small one makes the rare thing happen often. */
export interface ShardBounds {
  /** `HOT_SESSIONS_MAX`. */
  readonly hotSessions: number;
  /** `SNAPSHOT_TURNS`. */
  readonly snapshotTurns: number;
  /** `CHECKPOINT_TURNS`. */
  readonly checkpointTurns: number;
  /** `STORED_CONTENT_BYTES_MIN`. */
  readonly storedContentBytes: number;
}

/** The bounds of a shard outside tests. */
export const SHARD_BOUNDS: ShardBounds = Object.freeze({
  hotSessions: HOT_SESSIONS_MAX,
  snapshotTurns: SNAPSHOT_TURNS,
  checkpointTurns: CHECKPOINT_TURNS,
  storedContentBytes: STORED_CONTENT_BYTES_MIN,
});

// ---- session threads and their host -------------------------------------------------------------------------------

/** UTF-16 units of the texts of requests on their way from the host to one session thread; each is copied about three times. */
export const REQUEST_BYTES_UNDER_WAY_MAX: number = 8 * 1024 * 1024;
/** Those of one request from which it stands in line: smaller ones are as many as a service has callers. */
export const REQUEST_LARGE_BYTES_MIN: number = 16 * 1024;
/** Milliseconds `close()` waits by default for running half-steps before it parks them. */
export const CLOSE_DEADLINE_MS = 10_000;
/** Milliseconds a session thread has beyond that deadline, for its last flush on a slow device and the end of its pools. */
export const SHARD_CLOSE_MS = 30_000;
/** Session threads a runtime may have. */
export const SHARDS_MAX = 64;
/** Restarts of one session thread before its sessions are given up: OTP's default of one in five seconds, and room for a burst. */
export const SHARD_RESTARTS: RestartIntensity = { intensity: 5, periodMs: 60_000 };
/** Restarts of one session whose transitions throw, before it is blocked: as for its thread. */
export const SESSION_RESTARTS: RestartIntensity = { intensity: 5, periodMs: 60_000 };
/**
 * Megabytes of young heap of a session thread. What a turn makes lives until its flush and its answer: in a small young heap a
 * thousand turns at once are taken for lasting, and collecting them is a quarter of the thread's time.
 */
export const SESSION_THREAD_YOUNG_HEAP_MB = 192;
/** Sessions whose loggers are kept: those that had something to say lately. */
export const SESSION_LOGGERS_MAX = 1_024;
/** Milliseconds a probe waits to learn whether interrupted sessions have been read. */
export const READY_WAIT_MS = 1_000;

// ---- pages --------------------------------------------------------------------------------------------------------

/** Messages shown before and behind the one that is looked at (contract §11.2). */
export const VIEW_MESSAGES_AROUND = 10;
/** Characters shown of a tool call's input. */
export const VIEW_INPUT_CHARACTERS = 200;
/** Approximate bytes of one page beside its first item: a page is whole in memory on two threads before it is sent. */
export const PAGE_BYTES_MAX: number = 1024 * 1024;

// ---- endpoints ----------------------------------------------------------------------------------------------------

/** Calls one endpoint may have waiting for an answer: ten times the most a shard has in flight. */
export const ENDPOINT_CALLS_MAX = 1_000_000;
/** Frames of one posted batch; a longer one keeps the receiver from its other ports for milliseconds. */
export const ENDPOINT_BATCH_MAX = 4_096;
/**
 * Events a session thread tells with one note. `ENDPOINT_SLICE_MAX` notes are delivered before any reader runs: their events must be
 * fewer than `SUBSCRIBER_EVENTS_MAX`, or a reader that keeps up would lose some.
 */
export const EVENTS_OF_NOTE_MAX = 64;
/** Frames an endpoint delivers in one turn of the loop: about a millisecond or two of a session thread's work. */
export const ENDPOINT_SLICE_MAX = 64;

// ---- the life of a thread -----------------------------------------------------------------------------------------

/** Milliseconds waited for a thread that was told to end; one that sits in native code, or in a loop the engine cannot break, may not. */
export const THREAD_END_MS = 5_000;
/** Milliseconds a thread has to end of itself before it is terminated: a turn of a busy loop, and the addons' clean-up. */
export const THREAD_EXIT_MS = 2_000;
/** Milliseconds the end of a thread waits for what must not be torn on it: a commit, and a slow device's moment. */
export const GATE_CLOSE_MS = 2_000;
/** Milliseconds between two looks of a session thread at whether its own loop still turns. */
export const LOOP_WATCH_INTERVAL_MS = 1_000;
/** Milliseconds a look may be late before the thread says that its actors were stalled: a hundred times the longest usual turn. */
export const LOOP_STALL_MS = 1_000;

// ---- errors -------------------------------------------------------------------------------------------------------

/** Causes encoded with an error that crosses a thread, itself not counted. */
export const ERROR_CAUSES_MAX = 5;
/** Bytes of the JSON of an error's message: with its code and its envelope what any door answers stays below 4 kB. */
export const ERROR_MESSAGE_BYTES_MAX = 3_000;
/** Problems of a refused body that are told: a client mends the first ones first. */
export const BODY_ISSUES_MAX = 3;
/** Characters of a message or a stack encoded with an error that crosses a thread. */
export const ERROR_TEXT_CHARACTERS_MAX = 16_384;
/** Levels of nested data a log line tells of: an error's data has two. */
export const LOGGED_DEPTH_MAX = 6;

// ---- plain values -------------------------------------------------------------------------------------------------

/** Values one plain copy may hold: as many as fit into the largest result at two bytes each. A list of holes, or a value that holds itself many times over, must not hang a thread. */
export const PLAIN_VALUES_MAX: number = 2 * 1024 * 1024;

// ---- subscribers --------------------------------------------------------------------------------------------------

/** Events one subscriber may have waiting; beyond it the reader is told of a gap and catches up from the log. */
export const SUBSCRIBER_EVENTS_MAX = 10_000;
/** Approximate UTF-16 units of event content one subscriber may have waiting, so that few large events are bounded as well as many. */
export const SUBSCRIBER_CHARACTERS_MAX: number = 16 * 1024 * 1024;
/**
 * Approximate bytes all readers of a process hold: buffers, pages, and answers their sockets have not taken. With twice that for
 * text that is not Latin and what the collector has not freed yet, a process stays below 1 GB.
 */
export const READERS_BYTES_MAX: number = 128 * 1024 * 1024;
/** Subscribers one runtime serves at once: several for each live session. */
export const SUBSCRIBERS_MAX = 65_536;
/** Sessions a reader of all sessions may name a place in: each is asked of the log, one after the other. */
export const EVENT_PLACES_MAX = 10_000;
/** Sessions of which a reader of all sessions may have lost events before it is told; one further behind is let go. */
export const LOST_SESSIONS_MAX = 10_000;

// ---- pages of the log for readers ---------------------------------------------------------------------------------

/** Durable events a subscriber asks of the log at a time; one page is in memory per reader that catches up. */
export const REPLAY_PAGE_EVENTS = 256;
/** Approximate bytes of such a page beside its first event: enough that a page of usual events is bounded by their number. */
export const REPLAY_PAGE_BYTES_MAX: number = 256 * 1024;
/** Pages of the log that readers have under way at one shard: what a shard answers is in memory until the host thread takes it. */
export const REPLAYS_UNDER_WAY_MAX = 8;
/** Approximate bytes of pages kept for the next reader of the same session: a thousand readers of one session share them. */
export const REPLAY_PAGES_KEPT_BYTES_MAX: number = 16 * 1024 * 1024;
/** Readers of one shard whose next page goes on where the last one ended; each holds a state of its session, and some of its log. */
export const REPLAYS_MAX = 8;
/** Approximate bytes of those states and that log together; beyond them the reader served longest ago begins from a snapshot again. */
export const REPLAYS_BYTES_MAX: number = 16 * 1024 * 1024;

// ---- diagnostics --------------------------------------------------------------------------------------------------

/** Sessions in which something is under way that diagnostics follow: as many as readers of events there may be. */
export const DIAGNOSED_SESSIONS_MAX = 65_536;
/** Sessions whose agent diagnostics ask for at once, and events that wait for the answers; beyond, the reader waits. */
export const DIAGNOSED_LOOKUPS_MAX = 4_096;
/** Events of one session that wait for its agent to be known: a session has told a dozen by then. */
export const DIAGNOSED_WAITING_MAX = 1_024;
/** Messages of one turn, or of one answer, that diagnostics name: what consumes more tells of the first ones. */
export const DIAGNOSED_MESSAGES_MAX = 100;
