/** Bounds of the client. The client runs in browsers, so it shares no bounds with the runtime. */

/** Maximum characters of one line of an event stream. A message may have 4 MiB, and its escaped JSON text even more. */
export const STREAM_LINE_CHARACTERS_MAX: number = 16 * 1024 * 1024;
/** Maximum characters of all lines of one event. */
export const STREAM_EVENT_CHARACTERS_MAX: number = 32 * 1024 * 1024;
/**
 * A stream counts as lost if nothing arrives for this many milliseconds, not even a ping: three times the interval of
 * the server's pings.
 */
export const STREAM_SILENCE_MS = 45_000;
/** Milliseconds before the first attempt to connect again. Each further wait is twice as long as the one before. */
export const RECONNECT_MS = 500;
/**
 * Maximum milliseconds of a wait between two attempts, unless the server asks for a longer wait. Once the server
 * answers again, a client connects within this time.
 */
export const RECONNECT_MS_MAX = 15_000;
/** Items of one page that the client asks for when it reads a whole list. */
export const PAGE_ITEMS = 500;
