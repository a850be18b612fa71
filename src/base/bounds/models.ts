/** Bounds of model calls and of the governor (`src/models`). */

// ---- calls and their answers --------------------------------------------------------------------------------------

/** Milliseconds for which text deltas of a session are gathered into one event. */
export const DELTA_COALESCE_MS = 50;
/** UTF-8 bytes of a model request (rule R35). */
export const REQUEST_BYTES_MAX: number = 32 * 1024 * 1024;
/** UTF-8 bytes of one line of a model's event stream: ten times the largest block a model may answer. */
export const STREAM_LINE_BYTES_MAX: number = 10 * 1024 * 1024;
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
/** Paused answers a scripted model or the fake server recognises when they are resumed; a pause is resumed at once. */
export const PAUSED_TURNS_MAX = 10_000;
/** Milliseconds beyond a model call's timeout, or its cancelling, after which its silent thread is ended and replaced. */
export const MODEL_THREAD_GRACE_MS = 5_000;
/** Milliseconds between looks at the deadlines of model threads, while calls run. */
export const MODEL_THREAD_WATCH_MS = 1_000;
/** Megabytes of young heap of a model thread, as `SESSION_THREAD_YOUNG_HEAP_MB`: what a call makes lives until its answer. */
export const MODEL_THREAD_YOUNG_HEAP_MB = 96;
/** Decoded bytes read of a model server's answer that is no event stream: an error with its message, a count of tokens. */
export const ERROR_BODY_BYTES_MAX: number = 64 * 1024;
/** Milliseconds until a model server must have begun its answer: a long prompt that is not cached is read in less. */
export const MODEL_FIRST_BYTE_MS_MAX = 120_000;
/** Milliseconds of silence inside a streamed answer after which it is lost; the server pings every few seconds. */
export const MODEL_IDLE_MS_MAX = 90_000;
/** Milliseconds a model server has to end its stream once the answer is whole; then the connection is given up, not the answer. */
export const MODEL_ENDING_MS_MAX = 1_000;
/** Longest wait a model server may ask for with `retry-after`: a day, as quotas are counted by the day at most. */
export const RETRY_AFTER_MS_MAX: number = 24 * 3_600_000;

// ---- the governor -------------------------------------------------------------------------------------------------

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
