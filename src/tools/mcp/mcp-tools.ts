/** `mcpTools`: grants an agent the tools of an MCP server. */
import { z } from 'zod';
import { MCP_TOOLS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { McpGrantData, McpToolsOptions } from './grants.ts';
import type { McpEffect } from './protocol.ts';
import { serverNameSchema } from './server-options.ts';

const GRANT: unique symbol = Symbol('troupe.mcp-tools');

/** A grant for an agent's `tools`. */
export interface McpTools extends McpGrantData {
  readonly [GRANT]: true;
}

const optionsSchema: z.ZodType<{
  readonly only?: readonly string[] | undefined;
  readonly effects?: Readonly<Record<string, McpEffect>> | undefined;
}> = z.strictObject({
  only: z.array(z.string().min(1)).max(MCP_TOOLS_MAX).optional(),
  effects: z.record(z.string().min(1), z.enum(['pure', 'keyed', 'once'])).optional(),
});

/**
 * The tools of the MCP server that `open({ mcp })` has under this name, for an agent's `tools`. A model knows each tool
 * as `<server>__<tool>`. If the agent itself has a tool of that name, that tool wins. Throws `ConfigError` that names
 * the key for unknown options and bad values. `open` refuses the name of a server that it does not have.
 */
export function mcpTools(server: string, options: McpToolsOptions = {}): McpTools {
  const name = parseOption(serverNameSchema, 'mcpTools server', server);
  const { only, effects } = parseOption(optionsSchema, `mcpTools ${name}`, options);
  return { [GRANT]: true, server: name, ...defined({ only, effects }) };
}

/** True for a result of `mcpTools`. */
export function isMcpTools(value: unknown): value is McpTools {
  return typeof value === 'object' && value !== null && GRANT in value;
}

/** The grant without its mark. The mark is a symbol, which cannot be sent to a thread. */
export function grantData({ server, only, effects }: McpTools): McpGrantData {
  return { server, ...defined({ only, effects }) };
}
