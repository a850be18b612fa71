/** One call of one tool, as a promise. */
import type { AnyTool, ToolOutcome } from '../../src/tools/tool.ts';
import { startTool, type ToolExecution } from '../../src/tools/tool-execution.ts';

/** Runs a tool as the pools do. Resolves with its outcome. */
export function executeTool(tool: AnyTool, execution: ToolExecution): Promise<ToolOutcome> {
  return new Promise((resolve) => startTool(tool, execution, resolve));
}
