/** Bounds of model calls and of the governor (`src/models`). */

// ---- calls and their answers --------------------------------------------------------------------------------------

/** Milliseconds for which the text deltas of a session are gathered into one event. */
export const DELTA_COALESCE_MS = 50;
/** UTF-8 bytes of a model request (rule R35). */
export const REQUEST_BYTES_MAX: number = 32 * 1024 * 1024;
/** UTF-8 bytes of one line of a model's event stream: ten times the largest block of a model answer. */
export const STREAM_LINE_BYTES_MAX: number = 10 * 1024 * 1024;
/**
 * UTF-8 bytes of one model answer's event stream: twice the largest request, so that an endless answer does not fill
 * memory.
 */
export const STREAM_BYTES_MAX: number = 64 * 1024 * 1024;
/** Characters kept of a model server's error message. A gateway may answer with a whole page. */
export const ERROR_MESSAGE_CHARACTERS_MAX = 2_000;
/** Milliseconds one call of the Anthropic provider may take by default. This is also the default of the vendor client. */
export const MODEL_CALL_MS_MAX = 600_000;
/**
 * Contexts that one thread mirrors: as many as live sessions. The least recently used one is dropped, and sent whole
 * next time.
 */
export const MIRRORED_CONTEXTS_MAX = 10_000;
/** UTF-16 units of text that one call may gather for its next delta. Beyond it the delta leaves early. */
export const DELTA_CHARACTERS_MAX = 65_536;
/** Sessions whose script position one scripted provider keeps. Tests and demos have fewer. */
export const SCRIPT_SESSIONS_MAX = 1_000_000;
/**
 * Paused answers that a scripted model or the fake server recognises when they are continued. A pause is continued at
 * once.
 */
export const PAUSED_TURNS_MAX = 10_000;
/** Milliseconds after a model call's timeout or cancellation until its silent thread is ended and replaced. */
export const MODEL_THREAD_GRACE_MS = 5_000;
/** Milliseconds between checks of the deadlines of model threads, while calls run. */
export const MODEL_THREAD_WATCH_MS = 1_000;
/**
 * Megabytes of young heap of a model thread. The reason is that of `SESSION_THREAD_YOUNG_HEAP_MB`: the objects of a
 * call live until its answer.
 */
export const MODEL_THREAD_YOUNG_HEAP_MB = 96;
/** Decoded bytes read of a model server's answer that is not an event stream: an error with its message, or a token count. */
export const ERROR_BODY_BYTES_MAX: number = 64 * 1024;
/** Milliseconds within which a model server must begin its answer. It reads a long prompt without a cache in less. */
export const MODEL_FIRST_BYTE_MS_MAX = 120_000;
/** Milliseconds of silence inside a streamed answer after which the answer is lost. The server pings every few seconds. */
export const MODEL_IDLE_MS_MAX = 90_000;
/**
 * Milliseconds a model server has to end its stream after the answer is whole. Then the connection is given up, not the
 * answer.
 */
export const MODEL_ENDING_MS_MAX = 1_000;
/** Longest wait that a model server may ask for with `retry-after`: a day, since quotas cover a day at most. */
export const RETRY_AFTER_MS_MAX: number = 24 * 3_600_000;

// ---- the governor -------------------------------------------------------------------------------------------------

/** Milliseconds over which a provider's rates are counted: they are rates per minute. */
export const RATE_WINDOW_MS = 60_000;
/** Calls that may wait in one governor: ten times the live sessions of a shard, each of which has one call. */
export const GOVERNED_CALLS_MAX = 100_000;
/** Milliseconds after which a call that a full governor refused is retried. */
export const GOVERNOR_FULL_RETRY_MS = 1_000;
/**
 * Milliseconds of the longest common pause that a provider can ask for. Then one call tries again, whatever the header
 * said.
 */
export const GOVERNOR_HOLD_MS_MAX = 3_600_000;
/** Milliseconds a circuit stays open at first. Each time its probing call fails, it stays open twice as long. */
export const GOVERNOR_CIRCUIT_MS = 1_000;
/** Milliseconds a circuit stays open at most: a provider that recovers is found within a minute. */
export const GOVERNOR_CIRCUIT_MS_MAX = 60_000;
/** Calls that one answer adds to the window of calls in flight. A whole window of answers adds at least one. */
export const GOVERNOR_WINDOW_GROWTH: number = 1 / 6;
/**
 * Calls that one refusal takes from the window. A whole window of refusals halves it. It grows while fewer than one
 * call in four is refused.
 */
export const GOVERNOR_WINDOW_CUT: number = 1 / 2;
/**
 * Milliseconds without a refusal after which a probing window doubles, even if no call was answered: an answer may take
 * minutes.
 */
export const GOVERNOR_WINDOW_STEP_MS = 1_000;
/**
 * Milliseconds the governor waits for the first call after refused credentials. A refusal comes at once, an answer
 * comes late.
 */
export const GOVERNOR_CREDENTIALS_PATIENCE_MS = 5_000;
/**
 * Milliseconds the governor waits for the one call that probes an open circuit. A silent server may stay silent until
 * its timeout.
 */
export const GOVERNOR_CIRCUIT_PATIENCE_MS = 30_000;
/** Failed connections and server errors in a row that open the circuit: twice the attempts of one call. */
export const GOVERNOR_FAILURES_MAX = 10;
/** Milliseconds within which those failures must occur: one session that retries repeatedly over minutes is no outage. */
export const GOVERNOR_FAILURES_PERIOD_MS = 60_000;
/** Output tokens expected of a call before the first answer. */
export const GOVERNOR_OUTPUT_TOKENS = 500;
/** Models that one governor remembers as refused. The agents of an embedder name a few. */
export const GOVERNED_MODELS_MAX = 1_000;
