/**
 * Tools whose calls the runtime itself answers, for an agent's `tools`. They change sessions, so no thread runs them.
 * An agent has the tools that its `tools` list. `agent({ subagents: { spawn: true } })` also grants both spawn tools.
 * Children always have `mark_goal_completed`.
 */
import type { Tool } from '../tool.ts';

const RUNTIME_TOOL: unique symbol = Symbol('troupe.runtime-tool');

/** A tool that is only a name: the runtime implements it. */
export interface RuntimeTool extends Tool {
  readonly [RUNTIME_TOOL]: true;
}

/** True for the tools of this file. */
export function isRuntimeTool(value: unknown): value is RuntimeTool {
  return typeof value === 'object' && value !== null && RUNTIME_TOOL in value;
}

/** A tool of this name. The runtime's part of it is in `actors/runtime-tools.ts`. */
export function runtimeTool(name: string, description: string): RuntimeTool {
  return {
    [RUNTIME_TOOL]: true,
    name,
    description,
    input: { type: 'object' },
    run: () => {
      throw new Error(`${name} is answered by the runtime and cannot be run`);
    },
  };
}

/** Lets the model start a sub-agent that uses the same agent. */
export const spawn_subagent: RuntimeTool = runtimeTool('spawn_subagent', 'Start a sub-agent.');
/** Lets the model start a sub-agent of another agent, by its name. */
export const spawn_specialist: RuntimeTool = runtimeTool('spawn_specialist', 'Start a specialist.');
/** Lets a child report its result. Every child has this tool, even if it is not listed. */
export const mark_goal_completed: RuntimeTool = runtimeTool('mark_goal_completed', 'Report that the task is done.');
