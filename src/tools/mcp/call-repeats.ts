/** Decides whether a call is sent again after its connection was lost. */
import { MCP_CALL_REPEATS_MAX } from '../../base/bounds.ts';
import { OUTCOME_UNKNOWN } from '../../session/rules/tool-texts.ts';
import type { McpEffect, McpResult, McpServerAnswer } from './protocol.ts';

/**
 * An attempt that failed because its connection was lost. `isUnsent`: the server has not received the call, so sending
 * the call again cannot repeat its effect.
 */
export class ConnectionLostError extends Error {
  readonly isUnsent: boolean;
  constructor(message: string, details: { readonly isUnsent: boolean; readonly cause: unknown }) {
    super(message, { cause: details.cause });
    this.name = 'ConnectionLostError';
    this.isUnsent = details.isUnsent;
  }
}

/** The result of a call that may or may not have taken effect. */
const UNKNOWN: McpResult = { blocks: [{ type: 'text', text: OUTCOME_UNKNOWN }], isError: true };

/**
 * Makes attempts until one succeeds, or fails with another error than `ConnectionLostError`. A `once` call that may
 * have reached its server is not sent again: its result says that the outcome is unknown. Other calls are sent again at
 * most `MCP_CALL_REPEATS_MAX` times; then the last error is thrown.
 */
export async function repeatLost(effect: McpEffect, attempt: () => Promise<McpServerAnswer>): Promise<McpServerAnswer> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ConnectionLostError)) throw error;
      if (!error.isUnsent && effect === 'once') return UNKNOWN;
      if (repeats >= MCP_CALL_REPEATS_MAX) throw error;
    }
  }
}
