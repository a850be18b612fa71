/**
 * The tools of one agent, in order: the list a model receives, and where each call runs.
 *
 * G1 Names are unique, those of the provider's tools included. No name begins with `from_`, which is reserved for the
 *    runtime's own messages to a model (Δ18).
 * G2 Grants narrow and never widen: a registry made from another holds a subset of it.
 */

import { ConfigError } from '../base/errors.ts';
import { DELIVERY_PREFIX } from '../base/ids.ts';
import type { ToolPlace } from './pool.ts';
import { isToolSearch, type ServerToolEntry } from './server-tool-entry.ts';
import type { ToolDescription } from './tool.ts';
import { type AdvertisedTool, advertiseTool } from './tool-schema.ts';

/** One tool of an agent. */
export interface RegisteredTool {
  readonly description: ToolDescription;
  readonly place: ToolPlace;
}

/** The tool that comes first in a narrowed registry (contract §11.1). */
const THINK = 'think';

/** True for names that no tool and no MCP server may have. */
export function isReservedToolName(name: string): boolean {
  return name.toLowerCase().startsWith(DELIVERY_PREFIX);
}

/** An agent's tools. Immutable. */
export class ToolRegistry {
  readonly #tools: ReadonlyMap<string, RegisteredTool>;
  /** The tools that the provider runs. */
  readonly server: readonly ServerToolEntry[];

  /** `agent` names the owner in errors. Throws `ConfigError` for a duplicate and for a reserved name. */
  constructor(agent: string, tools: readonly RegisteredTool[], server: readonly ServerToolEntry[] = []) {
    this.server = server;
    const byName = new Map<string, RegisteredTool>();
    for (const tool of tools) {
      const { name } = tool.description;
      if (isReservedToolName(name)) {
        throw new ConfigError(
          `agent ${JSON.stringify(agent)}: tool ${JSON.stringify(name)}: names beginning with ${DELIVERY_PREFIX} are reserved`,
          { data: { agent, tool: name } },
        );
      }
      if (byName.has(name)) throw twoTools(agent, name);
      byName.set(name, tool);
    }
    this.#tools = byName;
    const names = new Set(byName.keys());
    for (const { name } of server) {
      if (names.has(name)) throw twoTools(agent, name);
      names.add(name);
    }
  }

  /** The tool of this name. */
  get(name: string): RegisteredTool | undefined {
    return this.#tools.get(name);
  }

  /** Names, in the order the model receives them; those of the provider's tools come last. */
  names(): readonly string[] {
    return [...this.#tools.keys(), ...this.server.map(({ name }) => name)];
  }

  /** All tools that the session runs, in order; a fresh array. */
  list(): readonly RegisteredTool[] {
    return [...this.#tools.values()];
  }

  /**
   * The registry of a session with `grants`. With `null` it has all tools. Otherwise it has `think`, if this registry
   * has it, and then the granted tools in the given order. Grants that this registry does not have are ignored.
   */
  narrow(grants: readonly string[] | null): ToolRegistry {
    if (grants === null) return this;
    const kept: RegisteredTool[] = [];
    for (const name of new Set([THINK, ...grants])) {
      const tool = this.#tools.get(name);
      if (tool !== undefined) kept.push(tool);
    }
    return new ToolRegistry(
      '',
      kept,
      this.server.filter(({ name }) => grants.includes(name)),
    );
  }

  /** The tools of a request, in order. `timeoutMs`: the timeout of tools without their own timeout. */
  schemas(timeoutMs: number): readonly (AdvertisedTool | ServerToolEntry)[] {
    const mayDefer = this.server.some(isToolSearch);
    return [...this.list().map(({ description }) => advertiseTool(description, timeoutMs, mayDefer)), ...this.server];
  }
}

function twoTools(agent: string, name: string): ConfigError {
  return new ConfigError(
    `agent ${JSON.stringify(agent)} has two tools named ${JSON.stringify(name)}; a model knows a tool by its name alone`,
    {
      data: { agent, tool: name, rule: 'R30' },
    },
  );
}
