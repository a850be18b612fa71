/** A server tool in a request. Session threads know it in this form; `serverTool()` makes it on the host. Pure. */
import type { Json } from '../base/json.ts';

/** A server tool as a request has it: its type, its name, its settings. */
export interface ServerToolEntry {
  readonly type: string;
  readonly name: string;
  readonly [field: string]: Json;
}

/** True for a tool that finds tools which are loaded later. */
export function isToolSearch({ type }: ServerToolEntry): boolean {
  return type.startsWith('tool_search_tool_');
}
