/** An agent's grants of MCP servers' tools: plain data. Grants are resolved once the servers' tools are known. */
import { MCP_CALLS_IN_FLIGHT_MAX } from '../../base/bounds.ts';
import type { RegisteredTool } from '../tool-registry.ts';
import { MCP_NAME_SEPARATOR, type McpEffect, type McpToolList } from './protocol.ts';

/** Options of `mcpTools`. The options use the server's own names for its tools. Case does not matter in `only`. */
export interface McpToolsOptions {
  /** The tools that the agent may use; default: all, including those that the server gets later. */
  readonly only?: readonly string[];
  /** The effects of calls, which decide whether a call may run again; default: as the server's hints say. */
  readonly effects?: Readonly<Record<string, McpEffect>>;
}

/** A grant as plain data. */
export interface McpGrantData extends McpToolsOptions {
  readonly server: string;
}

/**
 * The tools that the grants give: in the order of the grants, and within a grant in the server's order. `own`: the
 * agent's other tools. If two tools have the same name, a tool of `own` wins over a granted tool, and an earlier grant
 * over a later grant. `timeoutMs`: the timeout of a call.
 */
export function grantedTools(
  grants: readonly McpGrantData[],
  lists: readonly McpToolList[],
  own: readonly RegisteredTool[],
  timeoutMs: number,
): readonly RegisteredTool[] {
  const taken = new Set(own.map((tool) => tool.description.name));
  return grants.flatMap(({ server, only, effects = {} }) => {
    const wanted = only === undefined ? undefined : new Set(only.map((name) => name.toLowerCase()));
    const list = lists.find((each) => each.server === server);
    return (list?.tools ?? []).flatMap(({ name: tool, description }): readonly RegisteredTool[] => {
      if (taken.has(description.name) || wanted?.has(tool.toLowerCase()) === false) return [];
      taken.add(description.name);
      const effect = (Object.hasOwn(effects, tool) ? effects[tool] : undefined) ?? (description.effect as McpEffect);
      const bounds = { timeoutMs, concurrency: MCP_CALLS_IN_FLIGHT_MAX };
      return [{ description: { ...description, effect, ...bounds }, place: { kind: 'mcp', server, tool, effect } }];
    });
  });
}

/**
 * True for a name with the prefix of a granted server. Whether the server has such a tool, and whether `only` names the
 * tool, is not checked.
 */
export function mayBeGranted(name: string, grants: readonly McpGrantData[]): boolean {
  return grants.some(({ server }) => name.startsWith(`${server}${MCP_NAME_SEPARATOR}`));
}
