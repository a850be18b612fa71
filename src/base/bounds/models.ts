/** Bounds of model calls and of the governor (`src/models`). */

// ---- calls and their answers --------------------------------------------------------------------------------------

/**
 * Milliseconds for which the text deltas of a session are gathered into one event: half a frame of a screen at 60 Hz.
 * With 1,000 streams, 16 ms took the same processor time and doubled the median time from the socket to a reader.
 */
export const DELTA_COALESCE_MS = 8;
/** UTF-8 bytes of a model request (rule R35). */
export const REQUEST_BYTES_MAX: number = 32 * 1024 * 1024;
/** Models of an agent. Each is called with all its retries before the next one, so a longer list does not help. */
export const AGENT_MODELS_MAX = 8;
/**
 * If a provider asks for a wait of more than this many ms, the agent's next model is called. Most pauses are shorter.
 */
export const FALLBACK_AFTER_MS_DEFAULT = 10_000;
/**
 * Milliseconds until the agent's first model is called again. A provider's cache, which a change of model loses, lasts
 * as long.
 */
export const RETURN_AFTER_MS_DEFAULT: number = 5 * 60 * 1_000;
/** UTF-16 units of an agent's option `request`, as JSON: room for the schema of an answer. */
export const REQUEST_FIELDS_CHARACTERS_MAX: number = 256 * 1024;
/** Stop sequences of an agent, and UTF-16 units of each: a few short words are usual. */
export const STOP_SEQUENCES_MAX = 64;
export const STOP_SEQUENCE_CHARACTERS_MAX = 1_000;
/** Beta features that an agent names, and characters of each name. Together they fit into one header. */
export const BETAS_MAX = 32;
export const BETA_CHARACTERS_MAX = 100;
/** UTF-8 bytes of one line of a model's event stream: ten times the largest block of a model answer. */
export const STREAM_LINE_BYTES_MAX: number = 10 * 1024 * 1024;
/**
 * UTF-8 bytes of one model answer's event stream: twice the largest request, so that an endless answer does not fill
 * memory.
 */
export const STREAM_BYTES_MAX: number = 64 * 1024 * 1024;
/** Blocks of an answer of `troupe/ai-model`: many times the calls that an answer may have. */
export const ANSWER_BLOCKS_MAX = 10_000;
/** Characters of the provider's name in a block's `origin`: the longest known has fewer than 40. */
export const ORIGIN_NAME_CHARACTERS_MAX = 128;
/**
 * UTF-16 units of the option `providerOptions` of `aiModel`, as JSON: as many as an agent's option `request` may have.
 */
export const PROVIDER_OPTIONS_CHARACTERS_MAX: number = 256 * 1024;
/** Characters kept of a model server's error message. A gateway may answer with a whole page. */
export const ERROR_MESSAGE_CHARACTERS_MAX = 2_000;
/** Milliseconds one call of the Anthropic provider may take by default. The vendor's client has the same default. */
export const MODEL_CALL_MS_MAX = 600_000;
/**
 * Contexts that one thread mirrors: the default of `limits.liveSessions`. Beyond this number the least recently used
 * context is dropped, and is sent whole with the session's next call.
 */
export const MIRRORED_CONTEXTS_MAX = 10_000;
/**
 * Milliseconds between two drafts of a running call. One timer serves all calls, so the first draft of a call comes
 * after one to two intervals. A crash loses the text since the last draft. A stream costs one small write in each
 * interval. Answers that take less than one interval have no draft.
 */
export const DRAFT_INTERVAL_MS = 1_000;
/**
 * UTF-16 units of streamed text and thoughts that a draft keeps, from the beginning: about 8,000 tokens, more than most
 * answers have. Each write contains the whole draft, so a larger bound would make long streams costly.
 */
export const DRAFT_CHARACTERS_MAX = 32_768;
/** UTF-16 units of text that one call may gather for its next delta. Beyond this bound the delta is sent early. */
export const DELTA_CHARACTERS_MAX = 65_536;
/**
 * Calls that a thread passes to its provider in one tick: eight milliseconds of work over HTTP. If a thousand were
 * started in one tick, their answers would wait for a quarter second, and with them the text of all streams. With 16 a
 * tick, the benchmark W2 (inline) made a tenth fewer half-steps/s, since fewer of them shared a commit.
 */
export const CALLS_STARTED_MAX = 32;
/** Deltas in one note between threads. `EVENTS_OF_NOTE_MAX` gives the reason for such a bound. */
export const DELTAS_OF_NOTE_MAX = 64;
/** Initial bytes of a buffer for a text that grows by pieces. A usual answer doubles the buffer two or three times. */
export const TEXT_BUFFER_BYTES_MIN = 512;
/**
 * UTF-16 units of streamed text that a running call keeps for readers that begin later. The longest answers of today,
 * 128,000 tokens, need half of this.
 */
export const STREAMED_CALL_CHARACTERS_MAX = 1_048_576;
/**
 * UTF-16 units of text that all running calls of a thread keep for later readers: 1,000 streams of 32,768 units, or 32
 * streams of the largest size.
 */
export const STREAMED_CHARACTERS_MAX = 33_554_432;
/** Sessions whose script position one scripted provider keeps. Tests and demos have fewer. */
export const SCRIPT_SESSIONS_MAX = 1_000_000;
/**
 * Paused answers that a scripted model or the fake server recognises when they are continued. A few suffice, because
 * callers continue a pause at once.
 */
export const PAUSE_TURN_ANSWERS_MAX = 10_000;
/**
 * Milliseconds that a model thread may stay silent after a call's timeout or cancellation. Then the thread is ended and
 * replaced.
 */
export const MODEL_THREAD_GRACE_MS = 5_000;
/** Milliseconds between checks of the deadlines of model threads, while calls run. */
export const MODEL_THREAD_WATCH_MS = 1_000;
/**
 * Megabytes of young heap of a model thread. The objects of a call live until its answer.
 * `SESSION_THREAD_YOUNG_HEAP_MB` says why that needs a large young heap.
 */
export const MODEL_THREAD_YOUNG_HEAP_MB = 96;
/**
 * Most decoded bytes to read when a server's answer is not an event stream: an error message, or a token count.
 */
export const ERROR_BODY_BYTES_MAX: number = 64 * 1024;
/** Milliseconds within which a connection to a model server is made. This is also the default of Node's `fetch`. */
export const MODEL_CONNECT_MS_MAX = 10_000;
/** Milliseconds for which an idle connection to a model server stays open. Node's `fetch` has the same default. */
export const MODEL_SOCKET_IDLE_MS_MAX = 4_000;
/** Idle connections to a model server that a provider keeps: those of a thousand calls that end together. */
export const MODEL_SOCKETS_IDLE_MAX = 1_000;
/**
 * Milliseconds within which a model server must begin its answer. Reading a long prompt without a cache takes less
 * time.
 */
export const MODEL_FIRST_BYTE_MS_MAX = 120_000;
/** Milliseconds of silence inside a streamed answer after which the call fails. The server pings every few seconds. */
export const MODEL_IDLE_MS_MAX = 90_000;
/**
 * Milliseconds a model server has to end its stream after the answer is whole. Then the connection is closed, and the
 * answer is kept.
 */
export const MODEL_ENDING_MS_MAX = 1_000;
/**
 * Longest wait that a model server may ask for with `retry-after`: a year. Even a spend limit ends with its month, so a
 * longer value is not meant as a wait.
 */
export const RETRY_AFTER_MS_MAX: number = 366 * 24 * 3_600_000;
/** Largest random share that is added to the wait before a retry, so that a thousand sessions do not retry at once. */
export const RETRY_JITTER = 0.15;
/**
 * Upper bound in ms until a rate limit is fully restored. Most rates of the API are per minute, a few are per day.
 */
export const RATE_RESET_MS_MAX: number = 24 * 3_600_000;
/** Characters of the API's own error code. The longest known has fewer than 50. */
export const ERROR_CODE_CHARACTERS_MAX = 128;

/** Bytes of one further member of an answer (`stop_details`, `input_transformations`). A longer member is left out. */
export const ANSWER_FACT_BYTES_MAX: number = 64 * 1024;
/** Characters of a container's id. The API's ids have about 30. */
export const CONTAINER_ID_CHARACTERS_MAX = 256;
/** Counters of the provider's own tools that a usage holds. The API has two. */
export const USAGE_COUNTERS_MAX = 16;
/** Iterations that the usage of one answer lists. The counters also include the iterations that are left out. */
export const USAGE_ITERATIONS_MAX = 64;
/** Characters of a name in a usage: a tier, a model, a counter. */
export const USAGE_NAME_CHARACTERS_MAX = 128;

// ---- providers ----------------------------------------------------------------------------------------------------

/** Providers of one runtime. Each session thread has a pool, and model threads, for each of them. */
export const PROVIDERS_MAX = 32;
/** Characters of a provider's name: a short word, because it precedes the names of the provider's models. */
export const PROVIDER_NAME_CHARACTERS_MAX = 64;

// ---- message threads ----------------------------------------------------------------------------------------------

/**
 * A message thread is continued for this many milliseconds after the start of its last request. The API keeps a thread
 * for five minutes; the difference is for the transit of the request and for clocks that differ.
 */
export const MESSAGE_THREAD_MS_MAX = 270_000;
/**
 * Sessions whose message thread a worker thread remembers: as many as the contexts that it mirrors. Beyond this number
 * the message thread that was used least recently is forgotten, and its session's next request is sent whole.
 */
export const MESSAGE_THREADS_MAX: number = MIRRORED_CONTEXTS_MAX;
/**
 * UTF-8 bytes of an answer's id. A thread whose answer has a longer id is not continued, so that 10,000 remembered
 * threads take at most a few megabytes. The API's ids have about 30.
 */
export const MESSAGE_THREAD_ID_BYTES_MAX = 256;

// ---- the list of models -------------------------------------------------------------------------------------------

/** Milliseconds within which a vendor's list of models must be complete. Nothing waits for the list. */
export const MODEL_LIST_MS_MAX = 30_000;
/** Rows of the list requested with one page. A row of the API has about two kilobytes. */
export const MODEL_LIST_PAGE_ENTRIES = 100;
/** Decoded bytes of one page: about five times the size of that many rows. */
export const MODEL_LIST_BYTES_MAX: number = 1024 * 1024;
/** Pages of a list, and rows of all pages together. The API has fewer than fifty models. */
export const MODEL_LIST_PAGES_MAX = 10;
export const MODEL_LIST_ENTRIES_MAX = 1_000;
/** Characters of a model's id. The longest known has fewer than 40. */
export const MODEL_NAME_CHARACTERS_MAX = 256;
/** UTF-8 bytes of the file in which a store keeps the list: enough for the most rows, with the longest names. */
export const MODEL_LIST_FILE_BYTES_MAX: number = 1024 * 1024;
/** Milliseconds after which the list is asked for again: models are announced days before they change. */
export const MODEL_LIST_REFRESH_MS: number = 24 * 3_600_000;
/** Milliseconds until the list is asked for again after a failure. Each further failure doubles the wait. */
export const MODEL_LIST_RETRY_MS = 60_000;
/** Milliseconds of the longest wait after a failure. */
export const MODEL_LIST_RETRY_MS_MAX: number = 6 * 3_600_000;
/** Lists of models that a process keeps, by address. A process uses one or two. */
export const MODEL_LISTS_KEPT_MAX = 16;

// ---- warming the cache --------------------------------------------------------------------------------------------

/**
 * Milliseconds for which calls with the same uncached prompt are collected. The calls of one fan-out come in a few
 * flushes.
 */
export const WARM_UP_GATHER_MS = 10;
/**
 * Fewest calls with one prompt that justify a warm-up call: one cache write and two reads cost less than two writes.
 */
export const WARM_UP_CALLS_MIN = 2;
/** Prompts that are remembered as cached by the provider. The agents of an embedder have a few. */
export const WARM_PROMPTS_MAX = 1_000;
/** Least tokens of a prompt that a model caches, if the model's own minimum is unknown: the largest known minimum. */
export const CACHEABLE_TOKENS_MIN = 4_096;
/**
 * Milliseconds for which a cache entry is assumed to exist after the request that wrote or read it. The short time is
 * nine tenths of the API's five minutes, the long time nine tenths of its hour.
 */
export const CACHE_SHORT_MS: number = 0.9 * 300_000;
export const CACHE_LONG_MS: number = 0.9 * 3_600_000;

// ---- the governor -------------------------------------------------------------------------------------------------

/** Milliseconds over which a provider's rates are counted: they are rates per minute. */
export const RATE_WINDOW_MS = 60_000;
/** Share of a reported rate that is left unused. Other processes may use the same key. */
export const RATE_RESERVE = 0.05;
/**
 * Milliseconds after which a phase (see `provider-rates.ts`) ends even if a call of it still counts as in flight. Calls
 * with the default timeout are shorter, so the thread of such a call has probably ended.
 */
export const RATE_PHASE_MS_MAX = 1_800_000;
/**
 * Milliseconds that a thread waits for another thread to change the shared rates. A change takes a microsecond, so
 * after this time the other thread is assumed to have ended.
 */
export const RATE_LOCK_MS = 50;
/** Calls that may wait in one governor: ten times the live sessions of a shard, each of which has one call. */
export const GOVERNED_CALLS_MAX = 100_000;
/** Milliseconds until a call that a full governor refused is retried. */
export const GOVERNOR_FULL_RETRY_MS = 1_000;
/**
 * Longest pause of all calls, in ms, that a provider can ask for with a header. After this pause one call tries again,
 * even if the header asked for a longer pause.
 */
export const GOVERNOR_HOLD_MS_MAX = 3_600_000;
/** Milliseconds a circuit stays open at first. Each time its probing call fails, it stays open twice as long. */
export const GOVERNOR_CIRCUIT_MS = 1_000;
/** Milliseconds a circuit stays open at most: a provider that recovers is found within a minute. */
export const GOVERNOR_CIRCUIT_MS_MAX = 60_000;
/**
 * Calls by which one answer widens the window of calls in flight. In a window of fewer than six calls, an answer widens
 * it by one divided by the size of the window.
 */
export const GOVERNOR_WINDOW_GROWTH: number = 1 / 6;
/**
 * Calls by which one refusal narrows the window. One window full of refusals halves it. The window grows while fewer
 * than one call in four is refused.
 */
export const GOVERNOR_WINDOW_CUT: number = 1 / 2;
/**
 * Milliseconds without a refusal after which a probing window doubles, even if no call was answered: an answer may take
 * minutes.
 */
export const GOVERNOR_WINDOW_STEP_MS = 1_000;
/**
 * Milliseconds the governor waits for the first call after refused credentials. Credentials that are refused again fail
 * at once, so a call that takes longer was accepted.
 */
export const GOVERNOR_CREDENTIALS_PATIENCE_MS = 5_000;
/**
 * Milliseconds for which the call that probes an open circuit stays alone. A silent server would hold it until the
 * call's timeout.
 */
export const GOVERNOR_CIRCUIT_PATIENCE_MS = 30_000;
/** Failed connections and server errors in a row that open the circuit: twice the attempts of one call. */
export const GOVERNOR_FAILURES_MAX = 10;
/**
 * Milliseconds within which the failures of `GOVERNOR_FAILURES_MAX` must occur. One session that retries over minutes
 * is not an outage.
 */
export const GOVERNOR_FAILURES_PERIOD_MS = 60_000;
/** Output tokens expected of a call before the first answer. */
export const GOVERNOR_OUTPUT_TOKENS = 500;
/** Models whose refusals and reported rates are remembered, 136 bytes each. The agents of an embedder name a few. */
export const GOVERNED_MODELS_MAX = 1_000;
/** Most milliseconds between two pieces of a scripted answer: as long as a person would wait for a piece. */
export const SCRIPT_PIECE_MS_MAX = 60_000;
