/** Every bound of the observer page, with unit and reason. What is beyond one of them leaves, oldest first, and the page says so. */

/** Sessions kept in the tree: twice the most a runtime is measured with; one costs about 400 bytes. */
export const SESSIONS_MAX = 20_000;
/** Sessions asked for at once. */
export const LIST_PAGE_SESSIONS = 1_000;
/** Milliseconds between two readings of the whole list: what no event tells (a deletion elsewhere) is seen then. */
export const RELIST_INTERVAL_MS = 60_000;
/** Milliseconds between two readings of the list that gaps in the events ask for. */
export const RELIST_AFTER_GAP_MS = 2_000;
/** Milliseconds between two orderings of the tree: rows that move each frame cannot be read. */
export const ORDER_INTERVAL_MS = 250;
/** Events that may wait for the next frame; beyond it the oldest are given up and the list is read again. */
export const BATCH_EVENTS_MAX = 50_000;
/** Milliseconds until events are handed on where no frame is drawn, as in a tab that is hidden. */
export const HIDDEN_FLUSH_MS = 250;
/** Characters of one line of an event stream: a message may have 4 MiB, escaped it has more. */
export const STREAM_LINE_CHARACTERS_MAX: number = 16 * 1024 * 1024;
/** Characters of all lines of one event. */
export const STREAM_EVENT_CHARACTERS_MAX: number = 32 * 1024 * 1024;
/** Milliseconds without a word, pings included, after which a stream counts as lost: three pings. */
export const STREAM_SILENCE_MS = 45_000;
/** Milliseconds a page must be hidden before its streams are let go: a browser has six connections to one server for all its tabs. */
export const HIDDEN_STREAM_MS = 20_000;
/** Milliseconds before the first new attempt of a lost stream; each one that follows waits twice as long. */
export const RECONNECT_MS = 500;
/** Milliseconds before an attempt at most: a server that is back is found within them. */
export const RECONNECT_MS_MAX = 10_000;
/** Milliseconds a request may take. */
export const REQUEST_TIMEOUT_MS = 30_000;
/** Sessions whose details are asked for at once, for the rows in view. */
export const DETAIL_REQUESTS_MAX = 2;
/** Children whose histories are read at once, for the rows of a time line in view. */
export const HISTORIES_MAX = 2;
/** Rows in view whose details are asked for, per look. */
export const DETAIL_ROWS_MAX = 60;
/** Milliseconds the tree must stand still before that. */
export const DETAIL_REST_MS = 200;
/** Events of the past that the time line is built from. */
export const REPLAY_EVENTS_MAX = 8_000;
/** Spans of the time line; the oldest leave. */
export const SPANS_MAX = 4_000;
/** Stretches of one span: a child that works and waits more often than that is shown by its newest ones. */
export const STRETCHES_MAX = 64;
/** Entries of the mailbox shown as rows of their own. */
export const WAITING_ROWS_MAX = 50;
/** Messages of one conversation in memory. */
export const MESSAGES_MAX = 2_000;
/** Messages asked for at once. */
export const MESSAGES_PAGE = 300;
/** Entries of one mailbox in memory: the runtime's own default bound. */
export const PENDING_MAX = 10_000;
/** Characters of an answer under way. */
export const STREAMED_CHARACTERS_MAX = 200_000;
/** Characters of one text shown at once; the rest is asked for with a button. */
export const TEXT_CHARACTERS_MAX = 8_000;
/** Milliseconds between two looks at the counters. */
export const METRICS_INTERVAL_MS = 1_000;
/** Looks kept for the drawing: a minute. */
export const METRICS_HISTORY = 60;
/** Milliseconds between two questions of the same kind about the chosen session (why it waits, its request). */
export const ASK_INTERVAL_MS = 1_000;
/** Milliseconds a notice stays. */
export const NOTICE_MS = 6_000;
/** Characters of the filter. */
export const FILTER_CHARACTERS_MAX = 200;
