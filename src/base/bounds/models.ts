/** Bounds of model calls and of the governor (`src/models`). */

// ---- calls and their answers --------------------------------------------------------------------------------------

/**
 * Milliseconds for which the text deltas of a session are gathered into one event: half a frame of a screen at 60 Hz.
 * With 1,000 streams, 16 ms took the same processor time and doubled the median time from the socket to a reader.
 */
export const DELTA_COALESCE_MS = 8;
/** UTF-8 bytes of a model request (rule R35). */
export const REQUEST_BYTES_MAX: number = 32 * 1024 * 1024;
/**
 * Models that one agent may name. A failing turn calls all of them in order, each with all its retries. Eight models
 * already take minutes.
 */
export const AGENT_MODELS_MAX = 8;
/**
 * If a provider asks for a wait of more than this many ms, the agent's next model of another provider is called. Most
 * pauses are shorter.
 */
export const FALLBACK_AFTER_MS_DEFAULT = 10_000;
/**
 * Milliseconds for which a fallback stays in use before the agent's first model is called again. Each change of model
 * loses the provider's cache. The entries of the cache last five minutes, so more frequent changes would cost more.
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
 * UTF-8 bytes of one model answer's event stream: twice the largest request. The bound keeps an endless answer from
 * filling memory.
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
 * Milliseconds between two drafts of a running call. A draft stores the text streamed so far, so a crash loses only the
 * text since the last draft. One timer serves all calls and skips calls that are younger than one interval. So the
 * first draft of a call comes after one to two intervals. A call costs one write in each interval, and a call that ends
 * within one interval has no draft.
 */
export const DRAFT_INTERVAL_MS = 1_000;
/**
 * UTF-16 units of streamed text and thoughts that a draft keeps, from the beginning: about 8,000 tokens, more than most
 * answers have. Each write contains the whole draft, so a larger bound would make the writes of long streams costly.
 */
export const DRAFT_CHARACTERS_MAX = 32_768;
/** UTF-16 units of text that one call may gather for its next delta. Beyond this bound the delta is sent early. */
export const DELTA_CHARACTERS_MAX = 65_536;
/**
 * Calls that a thread passes to its provider in one tick: eight milliseconds of work over HTTP. A thousand calls in one
 * tick would delay their own answers and the text of all running streams by a quarter second. With 16 calls a tick, the
 * benchmark W2 (inline) made a tenth fewer half-steps/s, because fewer half-steps shared a commit.
 */
export const CALLS_STARTED_MAX = 32;
/** Deltas in one note between threads. `EVENTS_OF_NOTE_MAX` explains why a note is bounded. */
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
 * of the largest size.
 */
export const STREAMED_CHARACTERS_MAX = 33_554_432;
/** Sessions for which one scripted provider remembers the position in its script. Tests and demos have fewer. */
export const SCRIPT_SESSIONS_MAX = 1_000_000;
/**
 * Paused answers that a scripted model or the fake server remembers. By them it recognises a request that continues a
 * paused answer. Callers continue at once, so older answers are not needed.
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
 * Milliseconds for which a model server may keep its stream open once the answer is complete. Then the connection is
 * closed, and the answer is kept.
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
 * Longest time in ms that a header may state until a rate is fully restored. Most rates of the API are per minute, a
 * few are per day.
 */
export const RATE_RESET_MS_MAX: number = 24 * 3_600_000;
/** Characters of the API's own error code. The longest known has fewer than 50. */
export const ERROR_CODE_CHARACTERS_MAX = 128;

/**
 * Bytes of each member of an answer beside content, stop reason and usage, such as `stop_details`. A longer member is
 * left out.
 */
export const ANSWER_FACT_BYTES_MAX: number = 64 * 1024;
/** Characters of a container's id. The API's ids have about 30. */
export const CONTAINER_ID_CHARACTERS_MAX = 256;
/** Counters of the provider's own tools in one usage. The API has two. */
export const USAGE_COUNTERS_MAX = 16;
/**
 * Iterations that the usage of one answer lists. The token counts of the usage include the iterations beyond this
 * number.
 */
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
 * A message thread is a conversation that the API keeps, so that a request sends only its new messages. It is continued
 * for this many milliseconds after the start of its last request. The API keeps it for five minutes; the difference
 * covers the transit of the request and clocks that differ.
 */
export const MESSAGE_THREAD_MS_MAX = 270_000;
/**
 * Message threads that one worker thread remembers, one for a session: the number of contexts that a worker thread
 * mirrors. Beyond this number the least recently used message thread is forgotten, and its session's next request is
 * sent whole.
 */
export const MESSAGE_THREADS_MAX: number = MIRRORED_CONTEXTS_MAX;
/**
 * UTF-8 bytes of an answer's id. A message thread whose last answer has a longer id is not continued. So 10,000
 * remembered message threads take at most a few megabytes. The API's ids have about 30.
 */
export const MESSAGE_THREAD_ID_BYTES_MAX = 256;

// ---- the list of models -------------------------------------------------------------------------------------------

/** Milliseconds within which a vendor's list of models must be complete. Nothing waits for the list. */
export const MODEL_LIST_MS_MAX = 30_000;
/** Rows of the list requested with one page. A row of the API has about two kilobytes. */
export const MODEL_LIST_PAGE_ENTRIES = 100;
/** Decoded bytes of one page: about five times the size of `MODEL_LIST_PAGE_ENTRIES` rows. */
export const MODEL_LIST_BYTES_MAX: number = 1024 * 1024;
/** Pages of a list, and rows of all pages together. The API has fewer than fifty models. */
export const MODEL_LIST_PAGES_MAX = 10;
export const MODEL_LIST_ENTRIES_MAX = 1_000;
/** Characters of a model's id. The longest known has fewer than 40. */
export const MODEL_NAME_CHARACTERS_MAX = 256;
/** UTF-8 bytes of the file in which a store keeps the list: `MODEL_LIST_ENTRIES_MAX` rows of one kilobyte. */
export const MODEL_LIST_FILE_BYTES_MAX: number = 1024 * 1024;
/** Milliseconds until a list is requested again: vendors announce changes of models days before. */
export const MODEL_LIST_REFRESH_MS: number = 24 * 3_600_000;
/** Milliseconds until the list is requested again after a failure. Each further failure doubles the wait. */
export const MODEL_LIST_RETRY_MS = 60_000;
/** Milliseconds of the longest wait after a failure. */
export const MODEL_LIST_RETRY_MS_MAX: number = 6 * 3_600_000;
/** Lists of models that a process keeps, by address. A process uses one or two. */
export const MODEL_LISTS_KEPT_MAX = 16;

// ---- warming the cache --------------------------------------------------------------------------------------------

/**
 * Milliseconds for which calls with the same uncached prompt are collected. The calls of one fan-out arrive within this
 * time, after a few flushes of the journal.
 */
export const WARM_UP_GATHER_MS = 10;
/**
 * Fewest calls with one prompt that justify a warm-up call: one cache write and two reads cost less than two writes.
 */
export const WARM_UP_CALLS_MIN = 2;
/** Prompts that the runtime remembers as cached by the provider. The agents of an embedder have a few. */
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

/** Milliseconds over which rates are counted. The governor treats every rate as a rate per minute. */
export const RATE_WINDOW_MS = 60_000;
/** Share of a reported rate that is left unused. Other processes may use the same key. */
export const RATE_RESERVE = 0.05;
/**
 * Milliseconds after which a phase (see `provider-rates.ts`) ends even if a call of it still counts as in flight. Calls
 * with the default timeout are shorter. So the thread that made the counted call has probably ended.
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
/**
 * While the circuit is open, the provider counts as down, and no call is sent. It is open for this many milliseconds at
 * first; then one call probes the provider. Each time this call fails, the circuit opens for twice the time.
 */
export const GOVERNOR_CIRCUIT_MS = 1_000;
/** Milliseconds a circuit stays open at most: a provider that recovers is found within a minute. */
export const GOVERNOR_CIRCUIT_MS_MAX = 60_000;
/**
 * Calls by which one answer widens the window, the number of calls that may be in flight. In a window of fewer than six
 * calls, an answer widens the window by more: one divided by its size. So a window whose calls are all answered grows
 * by at least one call.
 */
export const GOVERNOR_WINDOW_GROWTH: number = 1 / 6;
/**
 * Calls by which one refusal narrows the window. If each call of a window is refused, the window is halved. The window
 * grows while fewer than one call in four is refused.
 */
export const GOVERNOR_WINDOW_CUT: number = 1 / 2;
/**
 * A probing window begins with one call and grows until the first refusal. It doubles each time this many milliseconds
 * pass without a refusal, even if no call was answered: an answer may take minutes.
 */
export const GOVERNOR_WINDOW_STEP_MS = 1_000;
/**
 * Milliseconds for which the first call after refused credentials stays alone. A provider refuses bad credentials at
 * once, so a call without an outcome after this time was accepted.
 */
export const GOVERNOR_CREDENTIALS_PATIENCE_MS = 5_000;
/**
 * Milliseconds for which the call that probes an open circuit stays alone. Without this bound, a silent server would
 * hold back all other calls until the timeout of that call.
 */
export const GOVERNOR_CIRCUIT_PATIENCE_MS = 30_000;
/** Failed connections and server errors in a row that open the circuit: twice the attempts of one call. */
export const GOVERNOR_FAILURES_MAX = 10;
/**
 * Milliseconds within which the failures of `GOVERNOR_FAILURES_MAX` must occur. One session that retries over minutes
 * is not an outage.
 */
export const GOVERNOR_FAILURES_PERIOD_MS = 60_000;
/** Output tokens that the governor expects of a call as long as it has seen no answer. */
export const GOVERNOR_OUTPUT_TOKENS = 500;
/** Models whose refusals and reported rates are remembered, 136 bytes each. The agents of an embedder name a few. */
export const GOVERNED_MODELS_MAX = 1_000;
/** Most milliseconds between two pieces of a scripted answer. No person would wait longer for a piece. */
export const SCRIPT_PIECE_MS_MAX = 60_000;
