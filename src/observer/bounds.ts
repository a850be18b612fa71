/**
 * Every bound of the observer page, with unit and reason. Items beyond a bound leave, oldest first, and the page
 * reports that.
 */

/** Sessions kept in the tree: twice the largest number measured with a runtime. One costs about 400 bytes. */
export const SESSIONS_MAX = 20_000;
/** Sessions requested at once. */
export const LIST_PAGE_SESSIONS = 1_000;
/**
 * Milliseconds between two readings of the whole list. A reading finds changes without an event, such as a deletion by
 * another client.
 */
export const RELIST_INTERVAL_MS = 60_000;
/** Minimum milliseconds between two readings of the list after gaps in the events. */
export const RELIST_AFTER_GAP_MS = 2_000;
/** Milliseconds between two orderings of the tree: rows that move in each frame cannot be read. */
export const ORDER_INTERVAL_MS = 250;
/** Maximum events waiting for the next frame. Beyond this number the oldest are dropped and the list is read again. */
export const BATCH_EVENTS_MAX = 50_000;
/** Milliseconds until events are handed over when no frame is drawn, as in a hidden tab. */
export const HIDDEN_FLUSH_MS = 250;
/** Milliseconds of silence, pings included, after which a stream counts as lost: three pings. */
export const STREAM_SILENCE_MS = 45_000;
/**
 * Milliseconds a page must be hidden before its streams are closed: a browser has six connections per server for all
 * its tabs.
 */
export const HIDDEN_STREAM_MS = 20_000;
/** Milliseconds before the first reconnection of a lost stream; each further reconnection waits twice as long. */
export const RECONNECT_MS = 500;
/** Maximum milliseconds before a reconnection: the page finds a returning server within this time. */
export const RECONNECT_MS_MAX = 10_000;
/** Milliseconds a request may take. */
export const REQUEST_TIMEOUT_MS = 30_000;
/** Concurrent requests for details of sessions, for the rows in view. */
export const DETAIL_REQUESTS_MAX = 2;
/** Concurrent readings of children's histories, for the rows of a time line in view. */
export const HISTORIES_MAX = 2;
/** Rows in view whose details are requested at a time. */
export const DETAIL_ROWS_MAX = 60;
/** Milliseconds for which the view must not change before details are requested. */
export const DETAIL_REST_MS = 200;
/** Past events from which the time line is built. */
export const REPLAY_EVENTS_MAX = 8_000;
/** Spans of the time line. Beyond this number the oldest leave. */
export const SPANS_MAX = 4_000;
/** Stretches (times of work or waiting) of one span. Of a child with more changes the newest are shown. */
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
/** Waiting calls shown in the overview: more than a person decides before the list is read again. */
export const WAITING_CALLS_SHOWN = 20;
/** Levels of a schema for which the draft of an answer is prepared. A person writes deeper levels by hand. */
export const SKELETON_LEVELS_MAX = 4;
/** Milliseconds between two readings of the counters. */
export const METRICS_INTERVAL_MS = 1_000;
/** Readings kept for the chart: one minute. */
export const METRICS_HISTORY = 60;
/** Minimum milliseconds between two requests of the same kind about the chosen session (why it waits, its request). */
export const ASK_INTERVAL_MS = 1_000;
/** Milliseconds a notice stays. */
export const NOTICE_MS = 6_000;
/** Characters of the filter. */
export const FILTER_CHARACTERS_MAX = 200;
