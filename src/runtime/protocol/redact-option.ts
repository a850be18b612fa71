/** The option `redact` of `open`: its function, the source of a text that the function sees, and its check. */
import { z } from 'zod';
import { ConfigError } from '../../base/errors.ts';

/**
 * The kinds of texts that `redact` sees. `message`: of a message that is sent. `answer` and `thinking`: of a model's
 * answer. `tool_input`: of a call that a model asks for. `tool_result` and `progress`: of a tool or an MCP server.
 * `history`: of an edit of the history, an import, or a guardrail's change. `decision`: of an approval, an answer to a
 * question, or an interrupt. `task`: of a sub-agent, a goal or a task. `system`: of a system function. `memory`: of a
 * skill, a workflow or an earlier message that an enricher reads. `error`: of an error. `log`: of a line for the logger.
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
  /** The id of the session; missing: the text belongs to none. */
  readonly session?: string;
  /** The agent of the session; missing: the session is not in memory. */
  readonly agent?: string;
  /** The tenant of the session; missing: it has none. */
  readonly tenant?: string;
}

/**
 * Returns a text without what must not be stored; the text itself if there is nothing to remove. It is called for each
 * text of a value, on the thread of the session, and must be synchronous and quick. The same text must give the same
 * result: a message that is sent again with its key is compared with the first.
 *
 * It sees one string at a time, so a secret that is split over two blocks is seen in two halves. It does not see numbers,
 * names of members, ids, keys, the sender of a message, base64, or a system prompt that is given as a string. An answer
 * of one block is no longer streamed in pieces: its text is one delta, published when the answer is there.
 */
export type RedactFunction = (text: string, source: RedactionSource) => string;

/** The option `redact`: the URL of a module whose default export is a `RedactFunction`, or the function itself. */
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
