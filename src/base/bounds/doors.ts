/**
 * Bounds of the HTTP server, of telemetry and other protocols, and of the command line (`src/server`, `src/otel`, `src/adapters`,
 * `src/cli`).
 */

// ---- HTTP: connections --------------------------------------------------------------------------------------------

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
/** Milliseconds a client that is refused for too many streams is told to wait. */
export const SERVER_FULL_RETRY_MS = 5_000;
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

// ---- HTTP: bodies, pages and files --------------------------------------------------------------------------------

/** UTF-8 bytes of one HTTP request body: the largest message, twice, since JSON may escape what it carries. */
export const SERVER_BODY_BYTES_MAX: number = 8 * 1024 * 1024;
/** UTF-8 bytes of a refused body that are read and thrown away, so that a client that is still writing reads its answer. */
export const SERVER_DISCARD_BYTES_MAX: number = 32 * 1024 * 1024;
/** Bytes of all request bodies that are being read: a further body is refused until others were read. */
export const SERVER_BODIES_BYTES_MAX: number = 64 * 1024 * 1024;
/** Sessions or messages one page of a list has unless asked otherwise. */
export const SERVER_PAGE_DEFAULT = 100;
/** Sessions or messages one page of a list has at most: a thousand messages of the usual size are a megabyte. */
export const SERVER_PAGE_MAX = 1_000;
/** Pages one server reads at once; the others wait in the order they were asked for. */
export const SERVER_PAGES_UNDER_WAY_MAX = 8;
/** Bytes of one file of the observer page; a larger one does not belong there. */
export const SERVER_FILE_BYTES_MAX: number = 4 * 1024 * 1024;

// ---- HTTP: event streams ------------------------------------------------------------------------------------------

/** Bytes of events kept encoded for the next HTTP reader: an event is encoded once for all that read it at about the same time. */
export const ENCODED_EVENTS_BYTES_MAX: number = 16 * 1024 * 1024;
/** Event streams one server has at once; each may have `SUBSCRIBER_CHARACTERS_MAX` waiting in the worst case. */
export const SERVER_STREAMS_MAX = 1_024;
/** Milliseconds of silence after which an event stream says that it lives: below the minute of common proxies. */
export const SERVER_HEARTBEAT_MS = 15_000;
/** Milliseconds after which a client's event source asks again when its stream ended. */
export const SERVER_RECONNECT_MS = 1_000;

// ---- HTTP: work in one tick ---------------------------------------------------------------------------------------

/** Bytes of answers that are encoded or written, and of bodies that are joined or parsed, each, in one turn of the host's loop: 1 to 5 ms. */
export const LOOP_BYTES_MAX: number = 1024 * 1024;
/** Bytes of one piece of such work from which it is counted: smaller ones are as many as a service has callers. */
export const LOOP_PIECE_BYTES_MIN: number = 16 * 1024;

// ---- telemetry and other protocols --------------------------------------------------------------------------------

/** UTF-16 units of one content attribute of a span: exporters refuse spans of many megabytes. */
export const SPAN_CONTENT_CHARACTERS_MAX: number = 32 * 1024;
/** Milliseconds an agent's answer may take until the `send` tool of the MCP server returns a receipt in its place. */
export const MCP_ANSWER_MS_DEFAULT = 300_000;
/** Messages the `read` tool of the MCP server returns at most. */
export const MCP_MESSAGES_MAX = 200;

// ---- commands -----------------------------------------------------------------------------------------------------

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
/** Milliseconds between two looks of `troupe top`: twice what a person reads at. */
export const TOP_INTERVAL_MS = 1_000;
/** Sessions `troupe top` asks for and shows at most; more fit no screen. */
export const TOP_SESSIONS_MAX = 1_000;
/** Bytes of one answer of a server that `troupe top` reads. */
export const TOP_ANSWER_BYTES_MAX: number = 16 * 1024 * 1024;
/** Milliseconds `troupe top` waits for a server. */
export const TOP_TIMEOUT_MS = 10_000;
/** Port `troupe serve` listens at unless told otherwise. */
export const SERVE_PORT_DEFAULT = 4_111;
/** Milliseconds `troupe serve` gives running turns after a signal: a third of what process managers commonly wait before they kill. */
export const SERVE_DRAIN_MS = 10_000;

// ---- commands: doctor, export and import --------------------------------------------------------------------------

/** Findings `troupe doctor` tells of one by one; the rest are counted. */
export const DOCTOR_FINDINGS_MAX = 1_000;
/** Sessions named in the lists of `troupe doctor stats`. */
export const DOCTOR_BIGGEST = 10;
/** Messages one page of an export reads. */
export const EXPORT_PAGE_MESSAGES = 1_000;
/** UTF-16 units `troupe import` reads: all of it is one transaction, and is in memory until that is made. */
export const IMPORT_CHARACTERS_MAX: number = 256 * 1024 * 1024;

// ---- commands: review ---------------------------------------------------------------------------------------------

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
