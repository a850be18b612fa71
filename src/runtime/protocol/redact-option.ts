/**
 * The option `redact` of `open`: the type of its function, the description of each text that the function gets, and the
 * check of the option.
 */
import { z } from 'zod';
import { ConfigError } from '../../base/errors.ts';

/**
 * The kinds of texts that `redact` gets, by their source. `message`: a message that is sent. `answer` and `thinking`: a
 * model's answer. `tool_input`: a call that a model asks for. `tool_result` and `progress`: a tool or an MCP server.
 * `history`: an edit of the history, an import, or a guardrail's change. `decision`: an approval, an answer to a
 * question, or an interrupt. `task`: the task of a sub-agent, a goal, or a task of the conversation. `system`: a system
 * function. `memory`: a skill, a workflow or an earlier message that an enricher reads. `error`: an error. `log`: a
 * line for the logger.
 */
export type RedactionKind =
  | 'message'
  | 'answer'
  | 'thinking'
  | 'tool_input'
  | 'tool_result'
  | 'progress'
  | 'history'
  | 'decision'
  | 'task'
  | 'system'
  | 'memory'
  | 'error'
  | 'log';

/** The source of a text. */
export interface RedactionSource {
  readonly kind: RedactionKind;
  /** The id of the session; missing: the text belongs to no session. */
  readonly session?: string;
  /** The agent of the session; missing: the session is not in memory. */
  readonly agent?: string;
  /** The tenant of the session; missing: the session has no tenant. */
  readonly tenant?: string;
}

/**
 * Returns the text without the parts that must not be stored; the same text if there is nothing to remove. The function
 * is called for each text of a value, on the thread of the session. It must be synchronous and quick. The same text
 * must give the same result, because a message that is sent again with its key is compared with the first one.
 *
 * The function gets one string at a time. So if a secret is split over two blocks, the function gets each half alone.
 * The function does not get numbers, ids, keys, authors, base64, the names of members, tools and agents, or the state
 * of an MCP server's question. It also does not get what the embedder defines: tools, the output of an agent, and a
 * system prompt that is given as a string. With this option, an answer of one block is not streamed in pieces: its text
 * is one delta, published when the answer is complete.
 */
export type RedactFunction = (text: string, source: RedactionSource) => string;

/**
 * The option `redact`: the URL of a module whose default export is a `RedactFunction`, or the function itself. A module
 * is loaded on each session thread, and on the host thread for the lines that are logged there.
 */
export type RedactOption = URL | RedactFunction;

/** The schema of the option. */
export const redactSchema: z.ZodType<RedactOption> = z.custom<RedactOption>(
  (value) => value instanceof URL || typeof value === 'function',
  'must be the URL of a module whose default export is a function, or a function',
);

/** Throws `ConfigError` for a function that would have to cross to a session thread. */
export function checkRedact(redact: RedactOption | undefined, sessionThreads: number): RedactOption | undefined {
  if (typeof redact !== 'function' || sessionThreads === 0) return redact;
  throw new ConfigError(
    `option "redact": a function cannot cross to ${sessionThreads} session threads; give the URL of a module whose default export is the function, or set threads.sessions to 0`,
    { data: { key: 'redact' } },
  );
}
