/**
 * Every bound of the runtime, with unit and reason (rule A9). `LIMIT_DEFAULTS` can be changed with `limits` at `open`;
 * the constants below them cannot.
 */

/** What an embedder may bound; `open({ limits })`. */
export interface Limits {
  /** Entries waiting in one mailbox. */
  readonly mailbox: number;
  /** UTF-8 bytes of the contents waiting in one mailbox. */
  readonly mailboxBytes: number;
  /** UTF-8 bytes waiting in the mailboxes of all sessions in memory on one session thread. */
  readonly waitingBytes: number;
  /** UTF-8 bytes of one message. */
  readonly messageBytes: number;
  /** UTF-8 bytes of one tool result kept in the log; a larger one is cut and kept whole beside it. */
  readonly toolResultBytes: number;
  /** Children one parent may have, ever. */
  readonly children: number;
  /** Sessions that may be in a turn at once on one shard; spawned children beyond it wait. */
  readonly liveSessions: number;
  /** UTF-8 bytes of the conversations of those sessions together; a session that is larger works alone. */
  readonly liveBytes: number;
  /** How deep sub-agents may nest; 1: children do not spawn. */
  readonly depth: number;
  /** Model calls of one turn. */
  readonly toolRounds: number;
}

/** Defaults of `Limits`. */
export const LIMIT_DEFAULTS: Limits = Object.freeze({
  mailbox: 10_000, // entries: a flood is refused while memory is still small (10,000 x 1 kB)
  mailboxBytes: 16 * 1024 * 1024, // bytes: four of the largest messages, or ten thousand of the usual size
  waitingBytes: 512 * 1024 * 1024, // bytes: thirty-two full mailboxes; in memory they are a small part of it
  messageBytes: 4 * 1024 * 1024, // bytes: below the API's 32 MB body with room for a history
  toolResultBytes: 256 * 1024, // bytes: a larger result would fill most context windows
  children: 100_000, // sessions: ten times the largest fan-out that is measured
  liveSessions: 10_000, // sessions: each costs its context in memory
  liveBytes: 64 * 1024 * 1024, // bytes: each is in memory four to five times (state, model thread, the body of its request), so 300 MB a thread
  depth: 1, // levels: a model that spawns spawners is a fork bomb until asked for
  toolRounds: 250, // model calls a turn: contract, llm.main_max_tool_rounds
});

/** Characters of a main session's name: one line of a list. */
export const SESSION_NAME_CHARACTERS_MAX = 255;
/** Waiting entries Melete is shown, the oldest: a flooded mailbox would fill its window, and the turn has one of them. */
export const MELETE_PENDING_MAX = 100;
/** Characters of one line Melete is shown: a call's input may be a whole file. */
export const MELETE_LINE_CHARACTERS_MAX = 2_000;
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

/** Attempts of one model call that `settings.llm.retry.attempts` may allow, the first included: at the longest default wait, eight hours. */
export const MODEL_ATTEMPTS_MAX = 100;
/** Continuations of one paused assistant turn (`pause_turn`); a server tool that never ends must not loop for ever. */
export const PAUSE_CONTINUATIONS_MAX = 6;
/** Messages a search index holds: about 30 bytes of memory each; beyond it the oldest cannot be found by search any more. */
export const SEARCH_DOCUMENTS_MAX = 4_000_000;
/** Messages a search index takes in before it writes them to a segment: what a crash makes it read again. */
export const SEARCH_SEGMENT_DOCUMENTS = 32_768;
/** Characters of their texts that have the same effect. */
export const SEARCH_SEGMENT_CHARACTERS: number = 16 * 1024 * 1024;
/** Messages read to see whether they match, for one search: the best by their terms. */
export const SEARCH_CANDIDATES_MAX = 200;
/** Characters of a message that are indexed: what is searched for in a longer one stands at its beginning, or in another. */
export const SEARCH_TEXT_CHARACTERS_MAX = 65_536;
/** Characters of one term; what is longer is no word. */
export const SEARCH_TERM_CHARACTERS_MAX = 64;
/** Stems remembered, of the words met last: more than a language has in daily use. */
export const SEARCH_STEMS_MAX = 65_536;
/** Characters of one query that are read. */
export const SEARCH_QUERY_CHARACTERS_MAX = 1_000;
/** Words and phrases of one query that are read. */
export const SEARCH_UNITS_MAX = 32;
/** Terms between two words that stand near each other. */
export const SEARCH_NEAR_TERMS = 10;
/** Rows of the log handed to an index in one step: with the next bound, less than a millisecond of the session thread. */
export const SEARCH_PAGE_ROWS = 128;
/** Stored bytes of the log handed over in one step; a larger row goes in parts. */
export const SEARCH_PAGE_BYTES: number = 128 * 1024;
/** Rows of one session found in one step, when it is read by itself. */
export const SEARCH_CHAIN_ROWS = 128;
/** Names of sessions looked up in one step. */
export const SEARCH_PAGE_NAMES = 128;
/** Messages of one session taken into an index between two looks at whether it has room. */
export const SEARCH_BATCH_MESSAGES = 1_024;
/** Longest a search waits for the index to have read what was written; then it tells what it has, and says so. */
export const SEARCH_WAIT_MS = 20_000;
/** Longest a closing runtime waits for the index to be saved; what is not is read from the logs again. */
export const SEARCH_CLOSE_MS = 5_000;
/** Characters shown of a message that was found (contract §6.9). */
export const SEARCH_SNIPPET_CHARACTERS = 300;
/** Session trees a search scope may open to one session: a list of them crosses to the search thread with every search. */
export const SEARCH_SCOPE_TREES_MAX = 10_000;
/** Messages shown before and behind the one that is looked at (contract §11.2). */
export const VIEW_MESSAGES_AROUND = 10;
/** Characters shown of a tool call's input. */
export const VIEW_INPUT_CHARACTERS = 200;
/** Directories of one kind of definitions: a built-in one, a team's, a user's. */
export const DEFINITION_DIRECTORIES_MAX = 16;
/** UTF-8 bytes of a definition file: a fifth of a usual window at most. */
export const DEFINITION_BYTES_MAX: number = 96 * 1024;
/** Definition files read of one directory; a model is told of them all. */
export const DEFINITION_FILES_MAX = 1_000;
/** Characters of a definition's description: one is read for each definition there is. */
export const DEFINITION_DESCRIPTION_CHARACTERS_MAX = 2_000;
/** Tools one specialist may name. */
export const DEFINITION_TOOLS_MAX = 128;
/** Milliseconds for which changes of definition files are gathered: an editor writes a file in several steps. */
export const DEFINITIONS_SETTLE_MS = 200;
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
/** Tokens counted for the call half of a phantom pair (contract §3.5). */
export const PHANTOM_CALL_TOKENS = 50;
/** Messages a dump of a refused request shows, the last ones: what was refused is nearly always the newest. */
export const REQUEST_DUMP_MESSAGES_MAX = 20;
/** UTF-16 units of the texts of requests on their way from the host to one session thread; each is copied about three times. */
export const REQUEST_BYTES_UNDER_WAY_MAX: number = 8 * 1024 * 1024;
/** Those of one request from which it stands in line: smaller ones are as many as a service has callers. */
export const REQUEST_LARGE_BYTES_MIN: number = 16 * 1024;
/** UTF-8 bytes of a waiting content from which only the log keeps it: smaller ones cost less in memory than reading them back. */
export const STORED_CONTENT_BYTES_MIN = 1_024;
/** UTF-8 bytes counted as one token (contract §6.1). */
export const BYTES_PER_TOKEN = 4;
/** Lines kept at each end of a truncated tool result (contract §5.4). */
export const TRUNCATION_EDGE_LINES = 10;
/** Idempotency keys one session remembers, newest first: a retry comes soon or never. */
export const KEYS_REMEMBERED_MAX = 4_096;
/** Characters of one idempotency key. */
export const KEY_CHARACTERS_MAX = 256;
/** Finished receipts whose outcome a session keeps at hand; older ones are read from the log. */
export const RECEIPTS_REMEMBERED_MAX = 64;
/** Entries set aside because promoting them failed; the oldest is forgotten from memory, not from the log. */
export const DEAD_LETTERS_MAX = 100;
/** Events one subscriber may have waiting; beyond it the reader is told of a gap and catches up from the log. */
export const SUBSCRIBER_EVENTS_MAX = 10_000;
/** Milliseconds for which text deltas of a session are gathered into one event. */
export const DELTA_COALESCE_MS = 50;
/** Turns packed into one row of the journal; bounds what a reader of one session decodes in vain. */
export const ROW_TURNS_MAX = 64;
/** Rows written before one flush is waited for; keeps the p99 of a flush under 20 ms at thousands in flight. */
export const FLUSH_ROWS_MAX = 4_096;
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
/** Milliseconds beyond a tool's timeout within which its call is over, thread killed if need be. */
const TOOL_GRACE_MS = 1_000;
/**
 * Milliseconds beyond the timeout of a session's calls after which it asks whether their results are still to come: the pool
 * has answered within `TOOL_GRACE_MS`, and a busy thread has taken its answer in.
 */
export const CALL_CHECK_GRACE_MS = 5_000;
/** Tool calls of one round that run at once, per session; the others wait their turn in call order. */
export const PARALLEL_CALLS_MAX = 32;
/** Tool calls one model answer may ask for; a longer answer is cut, each cut call told so. */
export const CALLS_PER_ANSWER_MAX = 128;
/** Tasks waiting for a tool thread, per shard. */
export const TOOL_QUEUE_MAX = 100_000;
/** Children listed in one `children.updated` event; a longer list is the business of `sessions.list`. */
export const CHILDREN_LISTED_MAX = 100;
/** Milliseconds a tool's events of progress are held back at most, newest kept. */
export const PROGRESS_COALESCE_MS = 100;
/** UTF-8 bytes of a model request (rule R35). */
export const REQUEST_BYTES_MAX: number = 32 * 1024 * 1024;
/** UTF-8 bytes of one line of a model's event stream: ten times the largest block a model may answer. */
export const STREAM_LINE_BYTES_MAX: number = 10 * 1024 * 1024;
/** Milliseconds `close()` waits by default for running half-steps before it parks them. */
export const CLOSE_DEADLINE_MS = 10_000;
/** Milliseconds a session thread has beyond that deadline, for its last flush on a slow device and the end of its pools. */
export const SHARD_CLOSE_MS = 30_000;
/** Idle sessions kept in memory per shard, so that a conversation's next message need not read the disk. */
export const HOT_SESSIONS_MAX = 10_000;
/** Turns of a session that may wait for the disk when a `pure` tool is started ahead of it: two half-steps. */
export const RUN_AHEAD_TURNS_MAX = 8;
/** Children that have ended, of those: they have told what they were for. */
export const ENDED_SESSIONS_MAX = 256;
/** Tokens of the conversations of those sessions together: about 256 MB, as a token is held as four characters, twice, with its keys. */
export const HOT_TOKENS_MAX = 16_000_000;
/** Milliseconds an idle session stays in memory after its last use: reading it again costs a fraction of one. */
export const SESSION_IDLE_MS = 10_000;
/** Session threads a runtime may have. */
export const SHARDS_MAX = 64;
/** Restarts of one session thread within `SHARD_RESTART_PERIOD_MS` before its sessions are given up. */
export const SHARD_RESTARTS_MAX = 5;
/** Period of `SHARD_RESTARTS_MAX`, in ms. */
export const SHARD_RESTART_PERIOD_MS = 60_000;
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
/** Causes encoded with an error that crosses a thread, itself not counted. */
export const ERROR_CAUSES_MAX = 5;
/** Bytes of the JSON of an error's message: with its code and its envelope what any door answers stays below 4 kB. */
export const ERROR_MESSAGE_BYTES_MAX = 3_000;
/** Problems of a refused body that are told: a client mends the first ones first. */
export const BODY_ISSUES_MAX = 3;
/** Characters of a message or a stack encoded with an error that crosses a thread. */
export const ERROR_TEXT_CHARACTERS_MAX = 16_384;
/** Milliseconds a tool has to obey its abort signal before its thread is killed; the other half is left to the kill. */
export const TOOL_KILL_MS: number = TOOL_GRACE_MS / 2;
/** Milliseconds a tool thread may take to start and load a module, before any tool of it runs. */
export const TOOL_LOAD_MS = 30_000;
/** Milliseconds an idle tool thread is kept: a thread costs 8 MB and is started again in a tenth of a second. */
export const TOOL_THREAD_IDLE_MS = 60_000;
/** Megabytes of JavaScript heap of one tool thread; a tool that leaks more dies alone. */
export const TOOL_THREAD_HEAP_MB = 512;
/** UTF-8 bytes of a tool result that may cross to the session thread; copying 4 MB blocks it for about 2 ms. */
export const TOOL_RESULT_CROSSING_BYTES_MAX: number = 4 * 1024 * 1024;
/** Milliseconds a model may ask for with `timeout`, on tools that let it. */
export const TOOL_TIMEOUT_MS_MAX = 3_600_000;
/** Characters of a tool's description: the model reads it with every request. */
export const TOOL_DESCRIPTION_CHARACTERS_MAX = 32_768;
/** Characters of a line about a tool in the system prompt: each session that is watched sends it with every call. */
export const TOOL_SNIPPET_CHARACTERS_MAX = 400;
/** Such lines of one tool about its use. */
export const TOOL_GUIDELINES_MAX = 16;
/** Problems of one tool input that are told to the model; it repairs a few at a time. */
export const INPUT_ISSUES_MAX = 5;
/** Different late errors of one tool thread that are reported; the rest is the same story again. */
export const TOOL_NOISE_MAX = 100;
/** Names offered for a tool name that does not exist. */
export const NEAREST_NAMES_MAX = 3;
/** UTF-8 bytes of one model answer's event stream: twice the largest request, so that no endless answer fills memory. */
export const STREAM_BYTES_MAX: number = 64 * 1024 * 1024;
/** Characters kept of a model server's error message; a gateway may answer with a page. */
export const ERROR_MESSAGE_CHARACTERS_MAX = 2_000;
/** Milliseconds one call of the Anthropic provider may take when its options say nothing: the vendor client's own default. */
export const MODEL_CALL_MS_MAX = 600_000;
/** Contexts one thread mirrors; the one used longest ago is dropped and sent whole next time. As many as live sessions. */
export const MIRRORED_CONTEXTS_MAX = 10_000;
/** UTF-16 units of text one call may gather for its next delta; beyond it the delta goes out before its time. */
export const DELTA_CHARACTERS_MAX = 65_536;
/** Sessions one scripted provider keeps a place in its script for; tests and demos have fewer. */
export const SCRIPT_SESSIONS_MAX = 1_000_000;
/** UTF-8 bytes after which a row of the journal takes no further turn; one larger turn has a row of its own. */
export const ROW_BYTES_MAX: number = 64 * 1024;
/** UTF-8 bytes gathered for one flush; what comes later rides the next, so that a flush of a slow disk stays short. */
export const FLUSH_BYTES_MAX: number = 4 * 1024 * 1024;
/** Bytes of address space one shard's file is mapped with; see `src/journal/lmdb/environment.ts` for the reason. */
export const STORE_MAP_BYTES: number = 64 * 1024 ** 3;
/** Bytes of the data file that are kept ready behind the last page, at least: some commits of a lone session. */
export const STORE_ROOM_BYTES_MIN: number = 1024 * 1024;
/** Bytes kept ready at most; one flush of `FLUSH_BYTES_MAX` needs as many at worst, and a store of 128 MiB grows by an eighth. */
export const STORE_ROOM_BYTES_MAX: number = 16 * 1024 * 1024;
/** Bytes that must be free, beside twice the commit, where the file system writes to new blocks: its own tables need some as well. */
export const STORE_SPARE_BYTES_MIN: number = 4 * 1024 * 1024;
/** Bytes of a new data file that are made ready before lmdb makes its tables, in one commit each; six times what they take. */
export const STORE_OPEN_BYTES: number = 256 * 1024;
/** Bytes of lmdb's lock file that are made ready: what its table of 126 readers takes, and a page more. */
export const STORE_LOCK_FILE_BYTES: number = 12 * 1024;
/** Files of a store whose rights are looked at when it is opened: all of most stores, in a few milliseconds. */
export const STORE_RIGHTS_ENTRIES_MAX = 256;
/** Milliseconds between looks whether the store is still where it was: a lost one is noticed within a second. */
export const STORE_LOOK_MS = 500;
/** Characters of a session's name in the journal: four times the longest session id, far below LMDB's 1,978 bytes. */
export const JOURNAL_NAME_CHARACTERS_MAX = 512;
/** Rows fetched at a time by a scan of the log, so that no cursor outlives a step of the reader. */
export const SCAN_ROWS = 16;
/** Characters of one session's entries held while its back pointers are followed; beyond it rows are fetched twice. */
export const READ_HELD_CHARACTERS_MAX: number = 4 * 1024 * 1024;
/** Names fetched at a time when the name table is listed. */
export const SCAN_NAMES = 256;
/** Milliseconds an opener waits for a younger opener to give way before it calls the store locked. */
export const STORE_LOCK_WAIT_MS = 5_000;
/** Children one supervisor watches at once: as many as one parent may have. */
export const SUPERVISED_CHILDREN_MAX = 100_000;
/** Requests to add or remove a child that wait while a supervisor restarts a group; a group is stopped and started in seconds. */
export const SUPERVISOR_REQUESTS_MAX = 1_024;
/** Approximate UTF-16 units of event content one subscriber may have waiting, so that few large events are bounded as well as many. */
export const SUBSCRIBER_CHARACTERS_MAX: number = 16 * 1024 * 1024;
/** Durable events a subscriber asks of the log at a time; one page is in memory per reader that catches up. */
export const REPLAY_PAGE_EVENTS = 256;
/** Approximate bytes of such a page beside its first event: enough that a page of usual events is bounded by their number. */
export const REPLAY_PAGE_BYTES_MAX: number = 256 * 1024;
/** Pages of the log that readers have under way at one shard: what a shard answers is in memory until the host thread takes it. */
export const REPLAYS_UNDER_WAY_MAX = 8;
/** Approximate bytes of pages kept for the next reader of the same session: a thousand readers of one session share them. */
export const REPLAY_PAGES_KEPT_BYTES_MAX: number = 16 * 1024 * 1024;
/**
 * Approximate bytes all readers of a process hold: buffers, pages, and answers their sockets have not taken. With twice that for
 * text that is not Latin and what the collector has not freed yet, a process stays below 1 GB.
 */
export const READERS_BYTES_MAX: number = 128 * 1024 * 1024;
/** Bytes of events kept encoded for the next HTTP reader: an event is encoded once for all that read it at about the same time. */
export const ENCODED_EVENTS_BYTES_MAX: number = 16 * 1024 * 1024;
/** Readers of one shard whose next page goes on where the last one ended; each holds a state of its session, and some of its log. */
export const REPLAYS_MAX = 8;
/** Approximate bytes of those states and that log together; beyond them the reader served longest ago begins from a snapshot again. */
export const REPLAYS_BYTES_MAX: number = 16 * 1024 * 1024;
/** Paused answers a scripted model or the fake server recognises when they are resumed; a pause is resumed at once. */
export const PAUSED_TURNS_MAX = 10_000;
/** Subscribers one runtime serves at once: several for each live session. */
export const SUBSCRIBERS_MAX = 65_536;
/** Sessions a reader of all sessions may name a place in: each is asked of the log, one after the other. */
export const EVENT_PLACES_MAX = 10_000;
/** Sessions of which a reader of all sessions may have lost events before it is told; one further behind is let go. */
export const LOST_SESSIONS_MAX = 10_000;
/** Milliseconds beyond a model call's timeout, or its cancelling, after which its silent thread is ended and replaced. */
export const MODEL_THREAD_GRACE_MS = 5_000;
/** Milliseconds between looks at the deadlines of model threads, while calls run. */
export const MODEL_THREAD_WATCH_MS = 1_000;
/** Files one review reads when nobody says otherwise: a reader's report costs its reviewer about 300 tokens. */
export const REVIEW_FILES_DEFAULT = 500;
/** Files one review may read. */
export const REVIEW_FILES_MAX = 2_000;
/** Bytes of the largest file a review reads: with its pages it must fit the context of one reader. */
export const REVIEW_FILE_BYTES_MAX = 200_000;
/** Pages a scripted reader asks for of one file: 200 kB in lines of eight bytes. */
export const REVIEW_PAGES_MAX = 13;
/** Entries of a directory tree a review looks at; a larger tree is cut, and that is said. */
export const REVIEW_ENTRIES_MAX = 200_000;
/** Readers at work at once with the scripted model: enough to keep the tool threads busy, few enough to watch. */
export const REVIEW_READERS_SCRIPTED = 64;
/** Readers at work at once with a paid model, so that a review starts below usual rate limits. */
export const REVIEW_READERS_PAID = 8;
/** Times a reader that failed in an earlier run is replaced, and the index asked for again. */
export const REVIEW_ATTEMPTS_MAX = 5;
/** Names kept of each list in a reader's report. */
export const REPORT_NAMES_MAX = 40;
/** Milliseconds a command waits for running half-steps when it is told to stop. */
export const STOP_DEADLINE_MS = 2_000;
/** Milliseconds between two drawings of the live tree. */
export const REDRAW_INTERVAL_MS = 100;
/** Lines of the live tree. */
export const TREE_LINES_MAX = 16;
/** Sessions `troupe inspect` shows unless told otherwise. */
export const INSPECT_SESSIONS_DEFAULT = 60;
/** Events `troupe tail` prints unless told otherwise. */
export const TAIL_EVENTS_DEFAULT = 200;
/** Sessions or events one inspecting command prints at most. */
export const INSPECT_LIMIT_MAX = 1_000_000;
/**
 * Megabytes of young heap of a session thread. What a turn makes lives until its flush and its answer: in a small young heap a
 * thousand turns at once are taken for lasting, and collecting them is a quarter of the thread's time.
 */
export const SESSION_THREAD_YOUNG_HEAP_MB = 192;
/** Megabytes of young heap of a model thread, for the same reason: what a call makes lives until its answer. */
export const MODEL_THREAD_YOUNG_HEAP_MB = 96;
/** Megabytes of young heap of a tool thread. Small: a whole young heap that survives at once overruns the limit and ends the process. */
export const TOOL_THREAD_YOUNG_HEAP_MB = 16;
/** Milliseconds waited for a thread that was told to end; one that sits in native code, or in a loop the engine cannot break, may not. */
export const THREAD_END_MS = 5_000;
/** Milliseconds a thread has to end of itself before it is terminated: a turn of a busy loop, and the addons' clean-up. */
export const THREAD_EXIT_MS = 2_000;
/** Milliseconds the end of a thread waits for what must not be torn on it: a commit, and a slow device's moment. */
export const GATE_CLOSE_MS = 2_000;
/** Matches of an ambiguous edit that are counted: a text full of them is not gone through to its end. */
export const EDIT_MATCHES_COUNTED_MAX = 1_000;
/** Lines of such matches that are told to the model. */
export const EDIT_LINES_TOLD_MAX = 20;
/** Bytes of the largest file the file tools read or write, unless they are made with another bound: it is held in memory whole. */
export const FILE_BYTES_MAX = 10_485_760;
/** Lines of one answer of `read_file`, unless it is made with another bound. */
export const FILE_LINES_SHOWN_MAX = 2_000;
/** Bytes of one answer of `read_file`, unless it is made with another bound: about 12,500 tokens. */
export const FILE_BYTES_SHOWN_MAX = 50_000;
/** Characters of one thought, unless `think` is made with another bound: about 2,500 tokens. */
export const THOUGHT_CHARACTERS_MAX = 10_000;
/** Times one edit is made anew because others changed the file meanwhile; each time at least one of them came through. */
export const EDIT_ATTEMPTS_MAX = 100;
/** Milliseconds between looks at the lock of a file that is written: it is held for two quick steps. */
export const FILE_LOCK_POLL_MS = 5;
/** Milliseconds a lock may stay the same before its owner is taken for dead. */
export const FILE_LOCK_STALE_MS = 3_000;
/** Milliseconds one call of the shell tool may take unless the model asks for more (contract, timeouts.command). */
export const SHELL_TIMEOUT_MS = 30_000;
/** UTF-8 bytes one call of the shell tool may answer, the notice of a cut included (contract, shell.max_output_bytes). */
export const SHELL_OUTPUT_BYTES_MAX = 100_000;
/** Commands of one call of the shell tool: more of them is a script, and belongs into a file. */
export const SHELL_COMMANDS_MAX = 100;
/** Milliseconds an interrupted command has to end before its shell is killed: most end within one, some clean up first. */
export const SHELL_STOP_MS = 2_000;
/** The same for a command whose time is up: it is stopped that much before the deadline, so that its output can be told. */
export const SHELL_LATE_STOP_MS = 500;
/** Milliseconds kept, beyond those, for the way of a timed-out command's answer. */
export const SHELL_ANSWER_MS = 100;
/** Milliseconds between TERM and KILL for what a shell started (contract §12, shell kill grace). */
export const SHELL_KILL_MS = 5_000;
/** Milliseconds between looks whether a shell that is being ended is gone. */
export const SHELL_GONE_POLL_MS = 25;
/** Milliseconds waited for the last output of a shell that has exited: what it left behind may hold the pipe open. */
export const SHELL_DRAIN_MS = 100;
/** Milliseconds a shell is kept without use, by default: it costs about 4 MB. */
export const SHELL_IDLE_MS = 600_000;
/** Shells one tool has at once; beyond it the one used longest ago makes room. */
export const SHELLS_MAX = 64;
/** Sessions without a shell whose directory one tool remembers: as many as live sessions. */
export const SHELL_DIRECTORIES_MAX = 10_000;
/** UTF-8 bytes of the newest output told as progress of a running command. */
export const SHELL_PROGRESS_BYTES = 2_000;
/** UTF-8 bytes of the path a shell may report as its directory: four times the longest path of Linux. */
export const SHELL_PATH_BYTES_MAX = 16_384;

/** Milliseconds one call of the web tool may take unless the model asks for more (contract, timeouts.web_request). */
export const WEB_TIMEOUT_MS = 10_000;
/** Decoded bytes of an answer the web tool reads (contract, tools.max_web_response_bytes). */
export const WEB_RESPONSE_BYTES_MAX = 100_000;
/** The same where an embedder sets it: a page is parsed on the thread of the tool, in one go. */
export const WEB_RESPONSE_BYTES_LIMIT: number = 2 * 1024 * 1024;
/** Characters of a page below which the model is warned that it may not be all (contract, tools.min_web_content_chars). */
export const WEB_CONTENT_CHARACTERS_MIN = 100;
/** Redirects one call follows: more of them is a loop, or a place one is sent away from. */
export const WEB_REDIRECTS_MAX = 5;
/** UTF-16 units of a URL: what servers commonly take. */
export const WEB_URL_CHARACTERS_MAX = 8_192;
/** Hosts and ranges of addresses one web tool may be allowed beyond the public ones. */
export const WEB_ALLOWED_MAX = 1_000;
/** Bytes at the start of a page in which its own word for its character set is looked for, as browsers do. */
export const WEB_CHARSET_BYTES = 1_024;
/** Levels of elements a page's tree has; what lies deeper belongs to the last one. Real pages have about thirty. */
export const HTML_DEPTH_MAX = 64;
/** Levels of lists and quotations that are indented: each costs a few characters on each of its lines. */
export const HTML_INDENT_LEVELS_MAX = 8;

/** Schemas of tools remembered as valid, so that describing the same tool again costs no compilation. */
export const VALID_SCHEMAS_MAX = 1_024;

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
/** Values one plain copy may hold: as many as fit into the largest result at two bytes each. A list of holes, or a value that holds itself many times over, must not hang a thread. */
export const PLAIN_VALUES_MAX: number = 2 * 1024 * 1024;
/** Milliseconds between two looks of a session thread at whether its own loop still turns. */
export const LOOP_WATCH_INTERVAL_MS = 1_000;
/** Milliseconds a look may be late before the thread says that its actors were stalled: a hundred times the longest usual turn. */
export const LOOP_STALL_MS = 1_000;
/** Bytes of a store's file whose pages are all looked at before LMDB maps it: about 30 ms. */
export const STORE_CHECK_BYTES_MAX: number = 32 * 1024 * 1024;
/** Bytes of a store's file of which each entry of the small tables is looked at as well: about 30 ms. */
export const STORE_CHECK_ENTRIES_BYTES_MAX: number = 8 * 1024 * 1024;
/** Entries of those tables up to which that is done: five a session, a microsecond or two each. */
export const STORE_CHECK_ENTRIES_MAX = 16_384;
/** Pages of a larger store's file looked at before LMDB maps it, from the roots down: about 30 ms. */
export const STORE_CHECK_PAGES_MAX = 2_048;
/** Pieces of a store's file, 256 KiB each, a reader without LMDB keeps: 16 MiB. */
export const DOCTOR_PIECES_MAX = 64;
/** Findings `troupe doctor` tells of one by one; the rest are counted. */
export const DOCTOR_FINDINGS_MAX = 1_000;
/** Sessions named in the lists of `troupe doctor stats`. */
export const DOCTOR_BIGGEST = 10;
/** Decoded bytes read of a model server's answer that is no event stream: an error with its message, a count of tokens. */
export const ERROR_BODY_BYTES_MAX: number = 64 * 1024;
/** Milliseconds over which a provider's rates are counted: they are rates a minute. */
export const RATE_WINDOW_MS = 60_000;
/** Calls one governor may have waiting: ten times the live sessions of a shard, each of which has one. */
export const GOVERNED_CALLS_MAX = 100_000;
/** Milliseconds a refused call of a full governor is told to wait. */
export const GOVERNOR_FULL_RETRY_MS = 1_000;
/** Milliseconds of the longest common pause a provider can ask for; then one call looks again, whatever the header said. */
export const GOVERNOR_HOLD_MS_MAX = 3_600_000;
/** Milliseconds a circuit stays open at first; each time its one call fails it stays open twice as long. */
export const GOVERNOR_CIRCUIT_MS = 1_000;
/** Milliseconds a circuit stays open at most: a provider that is well again is found within a minute. */
export const GOVERNOR_CIRCUIT_MS_MAX = 60_000;
/** Calls one answer adds to the window of calls in flight; a window of answers adds at least one. */
export const GOVERNOR_WINDOW_GROWTH: number = 1 / 6;
/** Calls one refusal takes from the window: a whole window of refusals halves it, and it grows while fewer than one in four is refused. */
export const GOVERNOR_WINDOW_CUT: number = 1 / 2;
/** Milliseconds without a refusal after which a probing window doubles, though no call was answered: an answer may take minutes. */
export const GOVERNOR_WINDOW_STEP_MS = 1_000;
/** Milliseconds waited for the first call after refused credentials; a refusal comes at once, an answer late. */
export const GOVERNOR_CREDENTIALS_PATIENCE_MS = 5_000;
/** Milliseconds waited for the one call that tries an open circuit; what was silent may stay so until its timeout. */
export const GOVERNOR_CIRCUIT_PATIENCE_MS = 30_000;
/** Failed connections and server errors in a row that open the circuit: twice the attempts of one call. */
export const GOVERNOR_FAILURES_MAX = 10;
/** Milliseconds within which those must have come: one session that tries again and again over minutes is no outage. */
export const GOVERNOR_FAILURES_PERIOD_MS = 60_000;
/** Output tokens expected of a call before any has answered. */
export const GOVERNOR_OUTPUT_TOKENS = 500;
/** Models one governor remembers as refused; an embedder's agents name a few. */
export const GOVERNED_MODELS_MAX = 1_000;
/** Milliseconds until a model server must have begun its answer: a long prompt that is not cached is read in less. */
export const MODEL_FIRST_BYTE_MS_MAX = 120_000;
/** Milliseconds of silence inside a streamed answer after which it is lost; the server pings every few seconds. */
export const MODEL_IDLE_MS_MAX = 90_000;
/** Milliseconds a model server has to end its stream once the answer is whole; then the connection is given up, not the answer. */
export const MODEL_ENDING_MS_MAX = 1_000;
/** Longest wait a model server may ask for with `retry-after`: a day, as quotas are counted by the day at most. */
export const RETRY_AFTER_MS_MAX: number = 24 * 3_600_000;
/** UTF-8 bytes of a commit that may run on the session thread itself: a few turns. */
export const COMMIT_HERE_BYTES_MAX: number = 8 * 1024;
/** Milliseconds such a commit may take: no longer than a turn of the loop may. */
export const COMMIT_HERE_MS_MAX = 2;
/** Bytes of a row of the journal from which its data is compressed: below, the call costs more than a part of a page is worth. */
export const ROW_PACKED_BYTES_MIN = 512;
/** Bytes of rows of one flush that are compressed on the session thread: 1 to 5 ms; the rest is on threads of the pool. */
export const ROWS_PACKED_HERE_BYTES_MAX: number = 1024 * 1024;
/** Bytes of unpacked rows a journal keeps for the next reader: as many as a few dozen sessions of one tick share. */
export const ROW_CACHE_BYTES_MAX: number = 1024 * 1024;
/** UTF-8 bytes of a turn from which its row holds it as bytes until it is written: smaller ones cost more to copy than to keep. */
export const ROW_TURN_HELD_BYTES_MIN: number = 16 * 1024;
/** UTF-8 bytes of a blob from which it is compressed. */
export const BLOB_PACKED_BYTES_MIN = 512;
/** UTF-8 bytes of a blob up to which it is compressed, and beyond which nothing is unpacked: half of the longest string. */
export const BLOB_PACKED_BYTES_MAX: number = 256 * 1024 * 1024;
/** Characters (code points) kept of a tool result among the messages a compression keeps: its beginning says what it was. */
export const KEPT_RESULT_CHARACTERS_MAX = 2_000;
/** Messages by which a log must have grown before a compression that failed is tried again. */
export const COMPRESSION_RETRY_MESSAGES = 20;
/** Archived chunks whose topics a session keeps at hand for its index card; of older ones it names the numbers alone. */
export const CHUNKS_AT_HAND_MAX = 100;
/** Characters kept of the topics of one archived chunk. */
export const CHUNK_TOPICS_CHARACTERS_MAX = 300;
/** History messages taken back from the end, at most, when a prompt was too long twice. */
export const PULLED_BACK_MAX = 64;
/** Tokens of a child's budget at most: far beyond any bill, and sums of them stay exact. */
export const BUDGET_TOKENS_MAX = 1_000_000_000_000;
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
/** Sessions in which something is under way that diagnostics follow: as many as readers of events there may be. */
export const DIAGNOSED_SESSIONS_MAX = 65_536;
/** Sessions whose agent diagnostics ask for at once, and events that wait for the answers; beyond, the reader waits. */
export const DIAGNOSED_LOOKUPS_MAX = 4_096;
/** Events of one session that wait for its agent to be known: a session has told a dozen by then. */
export const DIAGNOSED_WAITING_MAX = 1_024;
/** Messages of one turn, or of one answer, that diagnostics name: what consumes more tells of the first ones. */
export const DIAGNOSED_MESSAGES_MAX = 100;
/** UTF-16 units of one content attribute of a span: exporters refuse spans of many megabytes. */
export const SPAN_CONTENT_CHARACTERS_MAX: number = 32 * 1024;
/** Levels of nested data a log line tells of: an error's data has two. */
export const LOGGED_DEPTH_MAX = 6;
/** Sessions whose loggers are kept: those that had something to say lately. */
export const SESSION_LOGGERS_MAX = 1_024;
/** Milliseconds between two looks of `troupe top`: twice what a person reads at. */
export const TOP_INTERVAL_MS = 1_000;
/** Sessions `troupe top` asks for and shows at most; more fit no screen. */
export const TOP_SESSIONS_MAX = 1_000;
/** Bytes of one answer of a server that `troupe top` reads. */
export const TOP_ANSWER_BYTES_MAX: number = 16 * 1024 * 1024;
/** Milliseconds `troupe top` waits for a server. */
export const TOP_TIMEOUT_MS = 10_000;
/** Messages one page of an export reads. */
export const EXPORT_PAGE_MESSAGES = 1_000;
/** UTF-16 units `troupe import` reads: all of it is one transaction, and is in memory until that is made. */
export const IMPORT_CHARACTERS_MAX: number = 256 * 1024 * 1024;
/** Milliseconds an agent's answer may take until the `send` tool of the MCP server returns a receipt in its place. */
export const MCP_ANSWER_MS_DEFAULT = 300_000;
/** Messages the `read` tool of the MCP server returns at most. */
export const MCP_MESSAGES_MAX = 200;
/** UTF-8 bytes of one HTTP request body: the largest message, twice, since JSON may escape what it carries. */
export const SERVER_BODY_BYTES_MAX: number = 8 * 1024 * 1024;
/** UTF-8 bytes of a refused body that are read and thrown away, so that a client that is still writing reads its answer. */
export const SERVER_DISCARD_BYTES_MAX: number = 32 * 1024 * 1024;
/** Connections one server has at once unless told otherwise: a few for each of a thousand readers; the next may only ask for health. */
export const SERVER_CONNECTIONS_MAX = 4_096;
/** Those of one address unless told otherwise: a quarter. Behind a proxy, all clients have one address. */
export const SERVER_CONNECTIONS_PER_ADDRESS_MAX = 1_024;
/** Connections beyond those bounds, which may only ask for health: many probes at once. */
export const SERVER_HEALTH_CONNECTIONS_MAX = 64;
/** Milliseconds such a connection lives: a probe asks at once. */
export const SERVER_HEALTH_MS_MAX = 2_000;
/** Milliseconds between two looks at which requests are late. */
export const SERVER_LATE_CHECK_MS = 1_000;
/** Bytes of all request bodies that are being read: a further body is refused until others were read. */
export const SERVER_BODIES_BYTES_MAX: number = 64 * 1024 * 1024;
/** Milliseconds a probe waits to learn whether interrupted sessions have been read. */
export const READY_WAIT_MS = 1_000;
/** Event streams one server has at once; each may have `SUBSCRIBER_CHARACTERS_MAX` waiting in the worst case. */
export const SERVER_STREAMS_MAX = 1_024;
/** Milliseconds a client that is refused for too many streams is told to wait. */
export const SERVER_FULL_RETRY_MS = 5_000;
/** Milliseconds of silence after which an event stream says that it lives: below the minute of common proxies. */
export const SERVER_HEARTBEAT_MS = 15_000;
/** Milliseconds after which a client's event source asks again when its stream ended. */
export const SERVER_RECONNECT_MS = 1_000;
/** Bytes of one request's headers: twice what a browser with cookies sends. */
export const SERVER_HEADER_BYTES_MAX: number = 16 * 1024;
/** Milliseconds a client has for the headers of a request: one packet or two. */
export const SERVER_HEADERS_MS_MAX = 5_000;
/** Milliseconds a client has for a whole request: 8 MB at 2 Mbit/s. */
export const SERVER_REQUEST_MS_MAX = 30_000;
/** Milliseconds a quiet connection is kept for the next request. */
export const SERVER_KEEP_ALIVE_MS = 5_000;
/** Milliseconds a closing server waits for the requests it is answering. */
export const SERVER_CLOSE_MS = 5_000;
/** Sessions or messages one page of a list has unless asked otherwise. */
export const SERVER_PAGE_DEFAULT = 100;
/** Sessions or messages one page of a list has at most: a thousand messages of the usual size are a megabyte. */
export const SERVER_PAGE_MAX = 1_000;
/** Approximate bytes of one page beside its first item: a page is whole in memory on two threads before it is sent. */
export const PAGE_BYTES_MAX: number = 1024 * 1024;
/** Bytes of answers that are encoded or written, and of bodies that are joined or parsed, each, in one turn of the host's loop: 1 to 5 ms. */
export const LOOP_BYTES_MAX: number = 1024 * 1024;
/** Bytes of one piece of such work from which it is counted: smaller ones are as many as a service has callers. */
export const LOOP_PIECE_BYTES_MIN: number = 16 * 1024;
/** Pages one server reads at once; the others wait in the order they were asked for. */
export const SERVER_PAGES_UNDER_WAY_MAX = 8;
/** Bytes of one file of the observer page; a larger one does not belong there. */
export const SERVER_FILE_BYTES_MAX: number = 4 * 1024 * 1024;
/** Port `troupe serve` listens at unless told otherwise. */
export const SERVE_PORT_DEFAULT = 4_111;
/** Milliseconds `troupe serve` gives running turns after a signal: a third of what process managers commonly wait before they kill. */
export const SERVE_DRAIN_MS = 10_000;
