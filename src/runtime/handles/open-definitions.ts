/**
 * Opens a runtime with definition files: skills and workflows become available to its sessions, specialists become
 * agents. Host thread.
 */
import { stat } from 'node:fs/promises';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { readDefinitions, type Warn } from '../../definitions/definition-files.ts';
import { DefinitionLibrary } from '../../definitions/definition-library.ts';
import { parseSpecialist, type SpecialistDefinition } from '../../definitions/definition-text.ts';
import { askPlanOf } from '../../tools/built-in/ask-tools.ts';
import {
  bash,
  edit_file,
  read_file,
  search_messages,
  think,
  view_messages,
  web_get,
  write_file,
} from '../../tools/built-in/index.ts';
import { isRuntimeTool } from '../../tools/built-in/runtime-tool-names.ts';
import { isMcpTools, type McpTools, mcpTools } from '../../tools/mcp/mcp-tools.ts';
import { MCP_NAME_SEPARATOR } from '../../tools/mcp/protocol.ts';
import { namedTool } from '../../tools/named-tool.ts';
import { isServerTool } from '../../tools/server-tool.ts';
import type { AnyTool } from '../../tools/tool.ts';
import { type Agent, agent } from '../protocol/agent.ts';
import type { CheckedOptions, DefinitionDirectories, McpSource } from '../protocol/options.ts';
import { assembleWithModels, type Place } from './assemble.ts';
import type { Runtime } from './runtime.ts';

/** Built-in tools that a specialist's file may name, in addition to the tools of the embedder's agents. */
const BUILT_IN: readonly AnyTool[] = [
  bash,
  read_file,
  write_file,
  edit_file,
  web_get,
  think,
  search_messages,
  view_messages,
] as readonly AnyTool[];

/**
 * Runs `assembleWithModels` with the definitions in the directories. Rejects as `assembleWithModels` does, and with
 * `ConfigError` for a missing directory.
 */
export async function openWithDefinitions(
  checked: CheckedOptions,
  directories: DefinitionDirectories,
  place: Place,
): Promise<Runtime> {
  await checkDirectories(directories);
  const warn: Warn = (message, path) => checked.logger?.warn({ path }, message);
  const { byName } = await readDefinitions({ directories: directories.specialists }, parseSpecialist, warn);
  const agents = [...checked.agents, ...specialists(checked, [...byName.values()], warn)];
  const library = await DefinitionLibrary.open({
    skills: directories.skills,
    workflows: directories.workflows,
    clock: checked.clock,
    warn,
  });
  const release = async (): Promise<void> => {
    library.close();
    await place.release();
  };
  try {
    return await assembleWithModels({ ...checked, agents }, { ...place, release }, library);
  } catch (error) {
    library.close();
    throw error;
  }
}

/** Throws `ConfigError` unless each directory that the embedder names exists. */
async function checkDirectories(directories: DefinitionDirectories): Promise<void> {
  for (const key of ['skills', 'workflows', 'specialists'] as const) {
    for (const path of directories[key]) {
      const found = await stat(path).catch(() => undefined);
      if (found?.isDirectory() === true) continue;
      throw new ConfigError(
        `option ${JSON.stringify(key)} must name an existing directory, got ${describeValue(path)}`,
        {
          data: { key },
        },
      );
    }
  }
}

/** Makes an agent of each specialist. A specialist with a taken name or an unknown tool is left out with a warning. */
function specialists(
  { agents, mcp }: Pick<CheckedOptions, 'agents' | 'mcp'>,
  definitions: readonly SpecialistDefinition[],
  warn: Warn,
): readonly Agent<unknown>[] {
  const taken = new Set(agents.map((each) => each.name));
  const tools = toolsByName(agents);
  // Only a tool thread that has loaded a module knows its tools. So if an agent has a module, any tool name may exist.
  const hasModules = agents.some((each) => each.tools?.some((tool) => tool instanceof URL) === true);
  const found: Agent<unknown>[] = [];
  for (const { name, description, prompt, model, maxTurns, tools: wanted } of definitions) {
    const served = new Map<string, string[]>();
    const own: string[] = [];
    for (const tool of wanted) {
      const server = tools.has(tool) ? undefined : serverOf(tool, mcp);
      if (server === undefined) own.push(tool);
      else served.set(server, [...(served.get(server) ?? []), tool.slice(server.length + MCP_NAME_SEPARATOR.length)]);
    }
    const unknown = hasModules ? [] : own.filter((tool) => !tools.has(tool));
    if (taken.has(name)) warn('a specialist is left out: an agent of this name is defined', name);
    else if (unknown.length > 0) warn(`a specialist is left out: unknown tool ${unknown.join(', ')}`, name);
    else {
      found.push(
        agent({
          name,
          description,
          system: prompt,
          tools: [...own.map((tool) => tools.get(tool) ?? namedTool(tool)), ...[...served].map(grantOf)],
          ...defined({ model, toolRounds: maxTurns }),
        }),
      );
    }
  }
  return found;
}

/** Stands in place of a tool's name, and grants all tools of the server. */
const ALL = '*';

/**
 * The name of the MCP server that may have this tool; undefined if there can be none. With an `mcp.json` the servers
 * are not known here, so any prefix of a tool's name counts as a server.
 */
function serverOf(tool: string, mcp: McpSource | undefined): string | undefined {
  const end = tool.indexOf(MCP_NAME_SEPARATOR);
  if (mcp === undefined || end <= 0) return undefined;
  const server = tool.slice(0, end);
  return mcp.kind === 'file' || Object.hasOwn(mcp.servers, server) ? server : undefined;
}

/** The grant of these tools of a server. */
function grantOf([server, only]: readonly [server: string, only: readonly string[]]): McpTools {
  return mcpTools(server, only.includes(ALL) ? {} : { only });
}

/** Tools by name in lower case. An embedder's own tool takes precedence over a built-in tool of the same name. */
function toolsByName(agents: readonly Agent<unknown>[]): ReadonlyMap<string, AnyTool> {
  const tools = new Map<string, AnyTool>(BUILT_IN.map((each) => [each.name.toLowerCase(), each]));
  for (const each of agents) {
    for (const tool of each.tools ?? []) {
      if (tool instanceof URL || isServerTool(tool) || isMcpTools(tool)) continue;
      if (isRuntimeTool(tool) && askPlanOf(tool) === undefined) continue;
      tools.set(tool.name.toLowerCase(), tool);
    }
  }
  return tools;
}
