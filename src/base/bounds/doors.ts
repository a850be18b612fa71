/**
 * Bounds of the HTTP server, of telemetry and other protocols, and of the command line (`src/server`, `src/otel`,
 * `src/adapters`, `src/cli`).
 */

// ---- HTTP: connections --------------------------------------------------------------------------------------------

/**
 * Connections of one server at once by default: a few for each of a thousand readers. Further connections may only ask
 * for health.
 */
export const SERVER_CONNECTIONS_MAX = 4_096;
/**
 * Connections from one address by default: a quarter of all connections. Behind a proxy, all clients have one address.
 */
export const SERVER_CONNECTIONS_PER_ADDRESS_MAX = 1_024;
/** Connections beyond the two bounds above. They may only ask for health, and there is room for many probes at once. */
export const SERVER_HEALTH_CONNECTIONS_MAX = 64;
/** Milliseconds that a connection beyond the two connection bounds may stay open: a probe sends its request at once. */
export const SERVER_HEALTH_MS_MAX = 2_000;
/** Tokens of one server. The token of a request is compared with all of them, in a fraction of a millisecond. */
export const SERVER_TOKENS_MAX = 1_000;
/** Bytes of a file of tokens: `SERVER_TOKENS_MAX` tokens of the usual length, and room for names and white space. */
export const TOKENS_FILE_BYTES_MAX: number = 1024 * 1024;
/** Milliseconds between checks for late requests. */
export const SERVER_LATE_CHECK_MS = 1_000;
/** Milliseconds a refused client must wait when the server has too many connections, streams, bodies or requests. */
export const SERVER_FULL_RETRY_MS = 5_000;
/** Bytes of one request's headers: twice what a browser with cookies sends. */
export const SERVER_HEADER_BYTES_MAX: number = 16 * 1024;
/** Milliseconds a client has to send the headers of a request: one packet or two. */
export const SERVER_HEADERS_MS_MAX = 5_000;
/** Milliseconds a client has to send a whole request: 8 MB at 2 Mbit/s. */
export const SERVER_REQUEST_MS_MAX = 30_000;
/** Milliseconds a quiet connection is kept for the next request. */
export const SERVER_KEEP_ALIVE_MS = 5_000;
/** Milliseconds a closing server waits for the requests it is answering. */
export const SERVER_CLOSE_MS = 5_000;

// ---- HTTP: bodies, pages and files --------------------------------------------------------------------------------

/** UTF-8 bytes of one HTTP request body: twice the largest message, since JSON may escape its content. */
export const SERVER_BODY_BYTES_MAX: number = 8 * 1024 * 1024;
/**
 * UTF-8 bytes of a refused body that are read and discarded. Many clients read the answer only after they have sent the
 * whole body.
 */
export const SERVER_DISCARD_BYTES_MAX: number = 32 * 1024 * 1024;
/**
 * UTF-8 bytes of the issues in an error about a structured answer: all issues of usual length, or several long ones.
 */
export const PROBLEM_ISSUES_BYTES_MAX: number = 4 * 1024;
/** Bytes of all request bodies that are being read. A further body is refused until others have been read. */
export const SERVER_BODIES_BYTES_MAX: number = 64 * 1024 * 1024;
/** Sessions or messages of one page of a list by default. */
export const SERVER_PAGE_DEFAULT = 100;
/** Most sessions or messages that one page of a list may hold. A thousand messages of the usual size are a megabyte. */
export const SERVER_PAGE_MAX = 1_000;
/** Main sessions of one page of a list that includes their children, by default (contract, row F138). */
export const LIST_FAMILIES_DEFAULT = 10;
/** Most main sessions of one page of a list that includes children (contract, row F138). */
export const LIST_FAMILIES_MAX = 50;
/** Pages that one server reads at once. The others wait in order of arrival. */
export const SERVER_PAGES_UNDER_WAY_MAX = 8;
/** Bytes of one file of the observer page. A larger file does not belong on the page. */
export const SERVER_FILE_BYTES_MAX: number = 4 * 1024 * 1024;

// ---- HTTP: event streams ------------------------------------------------------------------------------------------

/** Bytes of encoded events kept for the next HTTP reader. Readers at about the same event share one encoding. */
export const ENCODED_EVENTS_BYTES_MAX: number = 16 * 1024 * 1024;
/** Event streams of one server at once. In the worst case each has `SUBSCRIBER_CHARACTERS_MAX` waiting. */
export const SERVER_STREAMS_MAX = 1_024;
/** Milliseconds of silence after which an event stream sends a heartbeat: less than the minute of common proxies. */
export const SERVER_HEARTBEAT_MS = 15_000;
/** Milliseconds between the end of a stream and the moment at which a client's event source reconnects. */
export const SERVER_RECONNECT_MS = 1_000;

// ---- HTTP: work in one tick ---------------------------------------------------------------------------------------

/**
 * Bytes that the host processes in one tick: 0.5 to 1 ms of work. The bound applies separately to answers that are
 * encoded or written and to bodies that are joined or parsed. It is small because libuv accepts one connection per
 * tick, so a connection waits one tick for each connection before it. With a bound of one mebibyte (4 ms), a health
 * check behind fifty connections waited 200 ms.
 */
export const LOOP_BYTES_MAX: number = 128 * 1024;
/**
 * Once a tick has accepted a connection, it begins no more of the work that `LOOP_BYTES_MAX` bounds. At most this many
 * ticks in a row leave that work waiting: about 10 ms.
 */
export const LOOP_YIELDS_MAX: number = 16;
/**
 * Smallest piece of the work bounded by `LOOP_BYTES_MAX` that is counted, in bytes. Smaller pieces are not counted,
 * because a service has at most one of them for each of its callers.
 */
export const LOOP_PIECE_BYTES_MIN: number = 16 * 1024;

// ---- telemetry and other protocols --------------------------------------------------------------------------------

/** UTF-16 units of one content attribute of a span: exporters refuse spans of many megabytes. */
export const SPAN_CONTENT_CHARACTERS_MAX: number = 32 * 1024;
/** Milliseconds after which the `send` tool of the MCP server returns a receipt instead of the agent's answer. */
export const MCP_ANSWER_MS_DEFAULT = 300_000;
/** Messages the `read` tool of the MCP server returns at most. */
export const MCP_MESSAGES_MAX = 200;

// ---- commands -----------------------------------------------------------------------------------------------------

/** Milliseconds a command waits for running half-steps when it is asked to stop. */
export const STOP_DEADLINE_MS = 2_000;
/** Milliseconds between two drawings of the live tree. */
export const REDRAW_INTERVAL_MS = 100;
/** Lines of the live tree of sessions. */
export const TREE_LINES_MAX = 16;
/** Sessions that `troupe inspect` shows by default. */
export const INSPECT_SESSIONS_DEFAULT = 60;
/** Dead letters that `troupe dead-letters` prints by default. */
export const DEAD_LETTERS_LISTED = 100;
/** Entries of the audit log that `troupe audit` prints by default: some screens of them. */
export const AUDIT_ENTRIES_LISTED = 200;
/** Calls that `troupe waiting` prints by default. */
export const WAITING_CALLS_DEFAULT = 100;
/** Events that `troupe tail` prints by default. */
export const TAIL_EVENTS_DEFAULT = 200;
/** Sessions or events that one inspecting command prints at most. */
export const INSPECT_LIMIT_MAX = 1_000_000;
/** Milliseconds between two refreshes of `troupe top`: a person can read the lines in this time. */
export const TOP_INTERVAL_MS = 1_000;
/** Sessions that `troupe top` asks for and shows at most. No screen fits more. */
export const TOP_SESSIONS_MAX = 1_000;
/**
 * A command waits for a process that opened the data directory less than this many milliseconds ago. Such a process may
 * be a command that only reads, or a program that is about to serve.
 */
export const PLACE_WAIT_MS = 1_000;
/** Milliseconds between two looks of a command at the owner of the store. */
export const PLACE_POLL_MS = 20;
/** Sessions that `troupe ls` prints by default. */
export const LIST_SESSIONS_DEFAULT = 50;
/** Messages that `troupe search` finds by default. */
export const SEARCH_FOUND_DEFAULT = 10;
/** Messages that `troupe search` finds at most. */
export const SEARCH_FOUND_MAX = 100;
/** Bytes that a command reads of one answer of a server. */
export const COMMAND_ANSWER_BYTES_MAX: number = 16 * 1024 * 1024;
/** Milliseconds a command waits for an answer of a server. */
export const COMMAND_TIMEOUT_MS = 10_000;
/** Port on which `troupe serve` listens by default. */
export const SERVE_PORT_DEFAULT = 4_111;
/**
 * Milliseconds that `troupe serve` gives running turns after a signal. Process managers commonly wait three times this
 * time before they kill a process.
 */
export const SERVE_DRAIN_MS = 10_000;

// ---- commands: doctor, export and import --------------------------------------------------------------------------

/** Findings that `troupe doctor` reports one by one. The rest are counted. */
export const DOCTOR_FINDINGS_MAX = 1_000;
/** Sessions named in the lists of `troupe doctor stats`. */
export const DOCTOR_BIGGEST = 10;
/** Messages one page of an export reads. */
export const EXPORT_PAGE_MESSAGES = 1_000;
/** UTF-16 units that `troupe import` reads. The whole import is one transaction, held in memory until its commit. */
export const IMPORT_CHARACTERS_MAX: number = 256 * 1024 * 1024;

// ---- commands: review ---------------------------------------------------------------------------------------------

/**
 * Files that one review reads by default. A child, the reader, reads one file and reports to its parent, the reviewer.
 * A report costs the reviewer about 300 tokens.
 */
export const REVIEW_FILES_DEFAULT = 500;
/** Files one review may read. */
export const REVIEW_FILES_MAX = 2_000;
/** Bytes of the largest file that a review reads. All its pages together must fit the context of one reader. */
export const REVIEW_FILE_BYTES_MAX = 200_000;
/**
 * Pages that a scripted reader requests of one file: enough for 200 kB in lines of eight bytes, in pages of
 * `FILE_LINES_SHOWN_MAX` lines.
 */
export const REVIEW_PAGES_MAX = 13;
/** Entries of a directory tree that a review visits. A larger tree is cut, and the review says so. */
export const REVIEW_ENTRIES_MAX = 200_000;
/** Readers that work at once with the scripted model: enough to keep the tool threads busy, few enough to watch. */
export const REVIEW_READERS_SCRIPTED = 64;
/** Readers that work at once with a paid model, so that a review starts below usual rate limits. */
export const REVIEW_READERS_PAID = 8;
/**
 * Times that a reader is replaced after it failed in an earlier run. The index is also requested again this many times.
 */
export const REVIEW_ATTEMPTS_MAX = 5;
/** Names kept of each list in the report of a reader. */
export const REPORT_NAMES_MAX = 40;

// ---- commands: the stage ------------------------------------------------------------------------------------------

/** Lines of one page of a staged review (`troupe run --stage`): most files then have several pages to watch. */
export const STAGE_PAGE_LINES = 50;
/** Bytes of a usual page of `STAGE_PAGE_LINES` lines. The stage estimates the number of a file's pages with it. */
export const STAGE_PAGE_BYTES = 2_000;
/** Milliseconds that the readers of a staged review take together: long enough to watch, short enough to wait for. */
export const STAGE_READING_MS = 8_500;
/** Milliseconds of the shortest and the longest mean delay of a staged answer. */
export const STAGE_DELAY_MS_MIN = 20;
export const STAGE_DELAY_MS_MAX = 600;
/** Share of the files whose readers have ended when the staged review steers a reader. */
export const STAGE_STEER_SHARE = 0.35;
/** Share of the files whose readers have ended when the process kills itself. */
export const STAGE_KILL_SHARE = 0.6;
/**
 * Least files of a review whose process kills itself. With fewer files, perhaps no reader is in a turn at that moment.
 */
export const STAGE_KILL_FILES_MIN = 4;
/** Milliseconds for which a killed review stands still, so that a person sees it before the next process starts. */
export const STAGE_PAUSE_MS = 1_500;
/** Milliseconds without any report after which a process of a review counts as hung, and is ended. */
export const STAGE_SILENCE_MS = 60_000;
/** Milliseconds that the process of a review has to close its store when it is asked to stop; then it is killed. */
export const STAGE_STOP_MS = 5_000;
/** UTF-16 units kept of the last output on stderr of a process of a review. */
export const STAGE_STDERR_CHARACTERS_MAX = 8_192;
/** UTF-16 units of one text in a report of a process: ids, paths, notes. */
export const STAGE_TEXT_CHARACTERS_MAX = 8_192;
/** UTF-16 units of a review index: 2,000 files in lines of 80 columns, and the findings. */
export const STAGE_INDEX_CHARACTERS_MAX = 2_000_000;
/** Columns of the lines that a staged review writes. */
export const STAGE_SCREEN_COLUMNS = 80;

// ---- streams of turns ---------------------------------------------------------------------------------------------

/** Bytes of one recorded turn of a chat window: a long answer with the results of its tools. */
export const RECORDING_BYTES_MAX: number = 1024 * 1024;
/** Bytes of all recorded turns of the process: a few hundred turns of the usual size. */
export const RECORDINGS_BYTES_MAX: number = 64 * 1024 * 1024;
/**
 * Milliseconds after which a recording that no client reads is dropped. A page that lost its connection returns sooner.
 */
export const RECORDING_UNREAD_MS: number = 10 * 60_000;

/** Bytes of a file of keys: a key and `PREVIOUS_KEYS_MAX` earlier ones take less than 2 KiB. */
export const KEY_FILE_BYTES_MAX = 4_096;
