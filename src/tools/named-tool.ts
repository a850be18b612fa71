/** A tool that is only a name. The name refers to a tool of any agent, and is resolved once all agents are known. */
import type { Tool } from './tool.ts';

const NAMED_TOOL: unique symbol = Symbol('troupe.named-tool');

/** See the head of the file. */
export interface NamedTool extends Tool {
  readonly [NAMED_TOOL]: true;
}

/** True for a result of `namedTool`. */
export function isNamedTool(value: unknown): value is NamedTool {
  return typeof value === 'object' && value !== null && NAMED_TOOL in value;
}

/** A reference to the tool of this name, from any agent; names are compared case-insensitively. */
export function namedTool(name: string): NamedTool {
  return {
    [NAMED_TOOL]: true,
    name,
    description: name,
    input: { type: 'object' },
    run: () => {
      throw new Error(`${name} is only a name and cannot be run`);
    },
  };
}
