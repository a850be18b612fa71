/**
 * The bounds of the observer page, with their units. The page says when sessions, events or spans are missing because
 * of a bound.
 */

/**
 * Maximum sessions in the tree: twice the largest number that was measured with a runtime. A session costs about 400
 * bytes.
 */
export const SESSIONS_MAX = 20_000;
/** Sessions requested at once. */
export const LIST_PAGE_SESSIONS = 1_000;
/**
 * Milliseconds between two readings of the whole list. A reading finds changes that no event reports, such as a
 * deletion by another client.
 */
export const RELIST_INTERVAL_MS = 60_000;
/** Minimum milliseconds between two readings of the list after gaps in the events. */
export const RELIST_AFTER_GAP_MS = 2_000;
/** Milliseconds between two orderings of the tree. Rows that move in each frame could not be read. */
export const ORDER_INTERVAL_MS = 250;
/** Maximum events waiting for the next frame. Beyond this number the oldest are dropped and the list is read again. */
export const BATCH_EVENTS_MAX = 50_000;
/** Milliseconds after which events are handed over when no frame is drawn, as in a hidden tab. */
export const HIDDEN_FLUSH_MS = 250;
/** Milliseconds without an event or a ping after which a stream counts as lost: the time between three pings. */
export const STREAM_SILENCE_MS = 45_000;
/**
 * Milliseconds for which a page must be hidden before it closes its streams. It closes them because a browser has only
 * six connections per server for all its tabs.
 */
export const HIDDEN_STREAM_MS = 20_000;
/** Milliseconds before the first reconnection of a lost stream; each further reconnection waits twice as long. */
export const RECONNECT_MS = 500;
/** Maximum milliseconds before a reconnection. Once the server is back, the page connects within this time. */
export const RECONNECT_MS_MAX = 10_000;
/** Milliseconds that a request may take. */
export const REQUEST_TIMEOUT_MS = 30_000;
/** Concurrent requests for details of sessions, for the rows in view. */
export const DETAIL_REQUESTS_MAX = 2;
/** Concurrent readings of children's histories, for the rows of a time line in view. */
export const HISTORIES_MAX = 2;
/** Maximum rows in view whose details are requested at a time. */
export const DETAIL_ROWS_MAX = 60;
/** Milliseconds without a change of the view after which details are requested. */
export const DETAIL_REST_MS = 200;
/** Maximum past events from which the time line is built. */
export const REPLAY_EVENTS_MAX = 8_000;
/** Maximum spans of the time line. Beyond this number the oldest are removed. */
export const SPANS_MAX = 4_000;
/**
 * Maximum stretches (times of work or waiting) of one span. If a span has more, only the newest are shown separately.
 */
export const STRETCHES_MAX = 64;
/** Entries of the mailbox shown as separate rows. */
export const WAITING_ROWS_MAX = 50;
/** Messages of one conversation in memory. */
export const MESSAGES_MAX = 2_000;
/** Messages requested at once. */
export const MESSAGES_PAGE = 300;
/** Entries of one mailbox in memory: the runtime's own default bound. */
export const PENDING_MAX = 10_000;
/** Characters of an answer in flight. */
export const STREAMED_CHARACTERS_MAX = 200_000;
/** Characters of one text shown at first; a button shows the rest. */
export const TEXT_CHARACTERS_MAX = 8_000;
/** Waiting calls shown in the overview. A person decides fewer calls than this before the list is read again. */
export const WAITING_CALLS_SHOWN = 20;
/** Levels of a schema for which the draft of an answer is prepared. A person writes deeper levels by hand. */
export const SKELETON_LEVELS_MAX = 4;
/** Milliseconds between two readings of the counters. */
export const METRICS_INTERVAL_MS = 1_000;
/** Readings kept for the chart: one minute. */
export const METRICS_HISTORY = 60;
/** Minimum milliseconds between two requests of the same kind about the chosen session (why it waits, its request). */
export const ASK_INTERVAL_MS = 1_000;
/** Milliseconds for which a notice is shown. */
export const NOTICE_MS = 6_000;
/** Characters of the filter. */
export const FILTER_CHARACTERS_MAX = 200;
