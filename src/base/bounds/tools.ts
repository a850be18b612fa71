/** Bounds of tools and definitions (`src/tools`, `src/definitions`). */

// ---- tools and their threads --------------------------------------------------------------------------------------

/** Lines kept at each end of a truncated tool result (contract §5.4). */
export const TRUNCATION_EDGE_LINES = 10;
/** A call is answered at most this many milliseconds after its tool's timeout, even if the tool still runs. */
const TOOL_GRACE_MS = 1_000;
/** Runs of one tool at a time on one tool thread, unless the tool states another number or is `once`. */
export const TOOL_CONCURRENCY = 64;
/**
 * For each tool thread, the queue hands out at most this many unfinished runs of one tool: twice the runs that a thread
 * takes at a time. So a thread that has ended its runs finds a full batch.
 */
export const TOOL_ADMITTED: number = 2 * TOOL_CONCURRENCY;
/** Calls of all tools on one tool thread at a time: each then has half a megabyte of the thread's heap. */
export const TOOL_THREAD_CALLS_MAX = 1_024;
/**
 * Calls that ignored their signal and were left running on one tool thread. Each keeps its memory, timers and
 * connections for as long as the thread lives. With more of them the thread is replaced once its other calls are over.
 */
export const TOOL_ABANDONED_MAX = 16;
/**
 * Times a call begins again beside other calls after another call ended its thread. Then the call begins once more,
 * alone on a thread, so that only the call itself can end that thread.
 */
export const TOOL_REPEATS_MAX = 2;
/** Attempts of one call of a tool with `retry`. A turn waits for all of them. */
export const TOOL_ATTEMPTS_MAX = 10;
/** Milliseconds before the second attempt of a call of a tool with `retry`, by default. Most hiccups are shorter. */
export const TOOL_RETRY_BASE_MS = 500;
/** Longest wait in ms between two attempts, by default. */
export const TOOL_RETRY_MAXIMUM_MS = 30_000;
/** Longest wait in ms between two attempts that a tool may state. Work with longer waits is a separate job. */
export const TOOL_RETRY_WAIT_MS_MAX = 600_000;
/**
 * Milliseconds for which a tool given as a value may hold the host thread before the runtime reports the tool. Health
 * checks usually wait a second, four times as long. Garbage collections and usual ticks are far shorter.
 */
export const TOOL_BLOCK_MS = 250;
/**
 * Milliseconds between two checks of the host's event loop while tools given as values run: a fifth of `TOOL_BLOCK_MS`.
 */
export const TOOL_WATCH_INTERVAL_MS = 50;
/** A tool that holds the host thread repeatedly is logged once in this many milliseconds. */
export const TOOL_BLOCK_LOG_MS = 60_000;
/** Tasks that wait for a tool thread, per shard. */
export const TOOL_QUEUE_MAX = 100_000;
/** Longest time in ms that progress events of a tool are held back. The newest is kept. */
export const PROGRESS_COALESCE_MS = 100;
/**
 * Milliseconds a tool has to obey its abort signal before its call is answered without it. A thread whose event loop
 * has not noticed the abort by then is killed. The other half of `TOOL_GRACE_MS` is left for the kill.
 */
export const TOOL_KILL_MS: number = TOOL_GRACE_MS / 2;
/** Milliseconds a tool thread may take to start and to load a module, before any tool of the module runs. */
export const TOOL_LOAD_MS = 30_000;
/** Milliseconds an idle tool thread is kept. A thread costs 8 MB and restarts in a tenth of a second. */
export const TOOL_THREAD_IDLE_MS = 60_000;
/** Megabytes of JavaScript heap of one tool thread. A tool that needs more ends its thread, not the process. */
export const TOOL_THREAD_HEAP_MB = 512;
/** UTF-8 bytes of a tool result that may cross to the session thread. Copying 4 MB blocks it for about 2 ms. */
export const TOOL_RESULT_CROSSING_BYTES_MAX: number = 4 * 1024 * 1024;
/**
 * Longest timeout of a tool call in ms. A longer `toolTimeoutMs` is refused. A longer `timeout` that a model asks for
 * is cut to this value.
 */
export const TOOL_TIMEOUT_MS_MAX = 3_600_000;
/** Characters of a tool's description: the model reads it with every request. */
export const TOOL_DESCRIPTION_CHARACTERS_MAX = 32_768;
/** UTF-16 units of a server tool with its settings, as JSON: room for a thousand domains. Each request has the tool. */
export const SERVER_TOOL_CHARACTERS_MAX: number = 64 * 1024;
/** Characters of a line about a tool in the system prompt. Each session with enrichers sends it with every call. */
export const TOOL_SNIPPET_CHARACTERS_MAX = 400;
/** Lines about the use of one tool. */
export const TOOL_GUIDELINES_MAX = 16;
/** Problems of one tool input that are reported to the model. The model repairs a few at a time. */
export const INPUT_ISSUES_MAX = 5;
/**
 * Different errors of one tool thread, thrown outside of any call, that are reported. Further errors add nothing new.
 */
export const TOOL_NOISE_MAX = 100;
/**
 * Megabytes of young heap of a tool thread. It is small: if all objects of a large young heap survived at once, they
 * would exceed the heap limit, and that ends the process.
 */
export const TOOL_THREAD_YOUNG_HEAP_MB = 16;
/** Schemas of tools remembered as valid, so that describing the same tool again costs no compilation. */
export const VALID_SCHEMAS_MAX = 1_024;

// ---- definitions --------------------------------------------------------------------------------------------------

/** Directories of one kind of definitions: built-in ones, a team's, a user's. */
export const DEFINITION_DIRECTORIES_MAX = 16;
/** UTF-8 bytes of a definition file: a fifth of a usual window at most. */
export const DEFINITION_BYTES_MAX: number = 96 * 1024;
/** Definition files read from one directory. A model is shown all of them. */
export const DEFINITION_FILES_MAX = 1_000;
/** Characters of a definition's description. A model reads one for each definition. */
export const DEFINITION_DESCRIPTION_CHARACTERS_MAX = 2_000;
/** Tools that one specialist may name. */
export const DEFINITION_TOOLS_MAX = 128;
/** Milliseconds for which changes of definition files are gathered. An editor writes a file in several steps. */
export const DEFINITIONS_SETTLE_MS = 200;

// ---- the tools for files ------------------------------------------------------------------------------------------

/** Matches of an ambiguous edit that are counted. A text with more matches is not searched to the end. */
export const EDIT_MATCHES_COUNTED_MAX = 1_000;
/** Lines of ambiguous matches that are reported to the model. */
export const EDIT_LINES_NAMED_MAX = 20;
/** Bytes of the largest file that the file tools read or write, by default. The whole file is held in memory. */
export const FILE_BYTES_MAX = 10_485_760;
/** Lines of one answer of `read_file`, by default. */
export const FILE_LINES_SHOWN_MAX = 2_000;
/** Bytes of one answer of `read_file`, by default: about 12,500 tokens. */
export const FILE_BYTES_SHOWN_MAX = 50_000;
/** Characters of one thought of `think`, by default: about 2,500 tokens. */
export const THOUGHT_CHARACTERS_MAX = 10_000;
/**
 * Attempts at one edit, the first included. An attempt fails only if another change succeeded meanwhile, so a hundred
 * failures mean a file that others change constantly.
 */
export const EDIT_ATTEMPTS_MAX = 100;
/** Milliseconds between checks of the lock of a file that is written. The lock is held for two quick steps. */
export const FILE_LOCK_POLL_MS = 5;
/** Milliseconds after which the owner of an unchanged lock is assumed to be dead. */
export const FILE_LOCK_STALE_MS = 3_000;

// ---- the shell ----------------------------------------------------------------------------------------------------

/** Milliseconds one call of the shell tool may take unless the model asks for more (contract, `timeouts.command`). */
export const SHELL_TIMEOUT_MS = 30_000;
/**
 * UTF-8 bytes that one call of the shell tool may answer, including the notice of a cut (contract,
 * `shell.max_output_bytes`).
 */
export const SHELL_OUTPUT_BYTES_MAX = 100_000;
/** Commands of one call of the shell tool. A longer list is a script, and belongs in a file. */
export const SHELL_COMMANDS_MAX = 100;
/** Milliseconds an interrupted command has to end before its shell is killed. Some commands clean up first. */
export const SHELL_STOP_MS = 2_000;
/** A command is stopped this many milliseconds before the timeout of its call, so that its output can be reported. */
export const SHELL_LATE_STOP_MS = 500;
/** Further milliseconds reserved for the answer of a timed-out command to arrive. */
export const SHELL_ANSWER_MS = 100;
/** Milliseconds between TERM and KILL for the processes a shell started (contract §12, shell kill grace). */
export const SHELL_KILL_MS = 5_000;
/** Milliseconds between checks that the processes of an ending shell or server are gone. */
export const PROCESS_GONE_POLL_MS = 25;
/**
 * Milliseconds to wait for the last output of a shell that has exited. Processes that the shell left behind may hold
 * the pipe open.
 */
export const SHELL_DRAIN_MS = 100;
/** Milliseconds a shell is kept without use, by default. It costs about 4 MB. */
export const SHELL_IDLE_MS = 600_000;
/** Shells of one tool at once. Beyond this number the least recently used shell is ended. */
export const SHELLS_MAX = 64;
/** Sessions without a shell for which one tool remembers the last directory: the default of `limits.liveSessions`. */
export const SHELL_DIRECTORIES_MAX = 10_000;
/** UTF-8 bytes of the newest output that is published as progress of a running command. */
export const SHELL_PROGRESS_BYTES = 2_000;
/** UTF-8 bytes of the path a shell may report as its directory: four times the longest path of Linux. */
export const SHELL_PATH_BYTES_MAX = 16_384;

// ---- the web ------------------------------------------------------------------------------------------------------

/** Milliseconds one call of the web tool may take unless the model asks for more (contract, `timeouts.web_request`). */
export const WEB_TIMEOUT_MS = 10_000;
/** Decoded bytes of an answer that the web tool reads (contract, `tools.max_web_response_bytes`). */
export const WEB_RESPONSE_BYTES_MAX = 100_000;
/**
 * Largest `maxBytes` of the web tool. The thread of the tool parses a page in one step.
 */
export const WEB_RESPONSE_BYTES_LIMIT: number = 2 * 1024 * 1024;
/**
 * Characters of a page below which the model is warned that the text may be incomplete (contract,
 * `tools.min_web_content_chars`).
 */
export const WEB_CONTENT_CHARACTERS_MIN = 100;
/** Redirects that one call follows. A longer chain is a loop, or a page that never stops redirecting. */
export const WEB_REDIRECTS_MAX = 5;
/** UTF-16 units of a URL: the length that servers commonly accept. */
export const WEB_URL_CHARACTERS_MAX = 8_192;
/** Hosts and ranges of addresses one web tool may be allowed beyond the public ones. */
export const WEB_ALLOWED_MAX = 1_000;
/** Bytes at the start of a page that are searched for its declared character set, as in browsers. */
export const WEB_CHARSET_BYTES = 1_024;
/** Levels of elements in a page's tree. Deeper content belongs to the last level. Real pages have about thirty. */
export const HTML_DEPTH_MAX = 64;
/** Levels of lists and quotations that are indented. Each costs a few characters on each of its lines. */
export const HTML_INDENT_LEVELS_MAX = 8;

// ---- MCP servers --------------------------------------------------------------------------------------------------

/** MCP servers of one runtime. Each may be a process. */
export const MCP_SERVERS_MAX = 64;
/** Characters of a server's name. Its tools are named `<server>__<tool>`, and a tool's name has 128 at most. */
export const MCP_SERVER_NAME_CHARACTERS_MAX = 48;
/** UTF-8 bytes of an `mcp.json`. */
export const MCP_FILE_BYTES_MAX: number = 256 * 1024;
/** Tools accepted from one server. A model is shown the tools that its agent is granted. */
export const MCP_TOOLS_MAX = 512;
/**
 * UTF-16 units of the descriptions of one server's tools, as JSON. A request has the descriptions of the tools that its
 * agent is granted.
 */
export const MCP_TOOLS_CHARACTERS_MAX: number = 1024 * 1024;
/** Pages of a server's list of tools that are read. A faulty server may return pages for ever. */
export const MCP_LIST_PAGES_MAX = 64;
/** UTF-8 bytes of one message of a server: a result that may cross a thread, and room for its JSON escapes. */
export const MCP_MESSAGE_BYTES_MAX: number = 10 * 1024 * 1024;
/** UTF-16 units kept of the newest error output of a server. Errors quote it. */
export const MCP_ERROR_OUTPUT_CHARACTERS = 2_000;
/** Milliseconds in which a server must start, agree on a protocol version and list its tools. */
export const MCP_CONNECT_MS = 30_000;
/** Milliseconds that `open` waits for the tools of the servers it starts. Later tools come with a later epoch. */
export const MCP_OPEN_WAIT_MS = 10_000;
/** Milliseconds to wait for a server's supported protocol version. A server of an older version may not reply. */
export const MCP_PROBE_MS = 5_000;
/** Milliseconds in which a server must answer a health check (contract §11.4). */
export const MCP_HEALTH_MS = 5_000;
/** Milliseconds before the first attempt to connect again. Each further failure doubles the wait. */
export const MCP_RETRY_MS = 100;
/** Longest wait in ms between two attempts to connect. */
export const MCP_RETRY_MS_MAX = 60_000;
/** Milliseconds after which a connection counts as stable. If it ends later, failures are counted from one again. */
export const MCP_STABLE_MS = 10_000;
/** Milliseconds that a call waits for a connection before it fails. */
export const MCP_CALL_WAIT_MS = 30_000;
/**
 * Times that a `pure` or `keyed` call is sent again after its connection was lost. The call itself may end the server.
 */
export const MCP_CALL_REPEATS_MAX = 8;
/**
 * Calls of one server in flight, for each session thread. Further calls wait, and the wait does not count against
 * their timeouts. If the server dies, the outcome of the calls in flight may be unknown.
 */
export const MCP_CALLS_IN_FLIGHT_MAX = 128;
/** Open calls of one server, those that wait for a connection included. */
export const MCP_CALLS_MAX = 10_000;
/** UTF-16 units of the inputs of one server's open calls, as JSON. */
export const MCP_CALLS_CHARACTERS_MAX: number = 64 * 1024 * 1024;
/**
 * UTF-8 bytes of the schema and the state that a server sends with a question during a call. The session's state
 * contains them until the call ends.
 */
export const MCP_QUESTION_BYTES_MAX: number = 64 * 1024;
/** Milliseconds a server may take to end by itself once its input has ended. */
export const MCP_INPUT_END_MS = 500;
/** Milliseconds between TERM and KILL for the processes of a server (contract §11.4). */
export const MCP_KILL_MS = 2_000;
/**
 * Milliseconds that closing waits for the MCP thread to end all servers. With many servers, most of this time is spent
 * on searching for their processes, not on waiting between two searches.
 */
export const MCP_CLOSE_MS = 15_000;
/** Earlier lists of tools that a session thread remembers, because epochs in use still show them. */
export const MCP_LISTS_KEPT_MAX = 8;
