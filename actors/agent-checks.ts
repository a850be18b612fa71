/** Checks an agent's options against its tools. The tools are known only once the agent's modules are loaded. Pure. */
import { ConfigError } from '../src/base/errors.ts';
import type { ModelOptions } from '../src/models/model-options.ts';
import { type McpGrantData, mayBeGranted } from '../src/tools/mcp/grants.ts';
import { isToolSearch, type ServerToolEntry } from '../src/tools/server-tool-entry.ts';
import type { RegisteredTool, ToolRegistry } from '../src/tools/tool-registry.ts';

/** The options of an agent that name tools, and the agent's tools. */
interface CheckedDefinition {
  readonly plan: CheckedPlan;
  readonly tools: readonly RegisteredTool[];
  readonly serverTools?: readonly ServerToolEntry[];
  readonly mcp?: readonly McpGrantData[];
}

interface CheckedPlan extends Pick<ModelOptions, 'toolChoice'> {
  readonly name: string;
  readonly approval?: readonly string[] | 'function';
}

/**
 * Throws `ConfigError` for an option that names a tool which the agent does not have, and for a deferred tool that no
 * tool search can find. `registries`: the agent's tools in a main session and in a sub-agent.
 */
export function checkTools(definition: CheckedDefinition, registries: readonly ToolRegistry[]): void {
  const { plan, tools, serverTools = [], mcp = [] } = definition;
  const own = registries.flatMap((each) => each.list().map(({ description }) => description.name));
  const server = serverTools.map(({ name }) => name);
  checkApproval(plan, (name) => own.includes(name) || mayBeGranted(name, mcp), new Set(server));
  checkToolChoice(plan, new Set([...own, ...server]));
  const deferred = tools.find(({ description }) => description.deferLoading === true)?.description.name;
  if (deferred === undefined || serverTools.some(isToolSearch)) return;
  const key = 'deferLoading';
  throw new ConfigError(
    `agent ${JSON.stringify(plan.name)}: tool ${JSON.stringify(deferred)} has deferLoading, so the agent needs a tool search: serverTool({ type: 'tool_search_tool_bm25_20251119' })`,
    { data: { key, agent: plan.name, tool: deferred } },
  );
}

/** Rejects unknown names: if a name is misspelt, the intended tool would run without a person's approval. */
function checkApproval(
  { name, approval }: CheckedPlan,
  isKnown: (tool: string) => boolean,
  server: ReadonlySet<string>,
): void {
  if (approval === undefined || approval === 'function') return;
  const unknown = approval.find((each) => !isKnown(each));
  if (unknown === undefined) return;
  const why = server.has(unknown)
    ? 'which the provider runs: its calls cannot be held'
    : 'which is the name of no tool';
  throw new ConfigError(`agent ${JSON.stringify(name)}: approve names ${JSON.stringify(unknown)}, ${why}`, {
    data: { key: 'approve', agent: name },
  });
}

/** Rejects a `toolChoice` that forces a tool which the agent never has. */
function checkToolChoice({ name, toolChoice }: CheckedPlan, known: ReadonlySet<string>): void {
  if (typeof toolChoice !== 'object' || known.has(toolChoice.tool)) return;
  const key = `agent ${name}.toolChoice`;
  throw new ConfigError(`option ${JSON.stringify(key)}: the agent has no tool ${JSON.stringify(toolChoice.tool)}`, {
    data: { key, agent: name, value: toolChoice },
  });
}
