/** A tool that the provider runs, in the form that a request has. Session threads know only this form. Pure. */
import type { Json } from '../base/json.ts';

/** A server tool as a request has it: its type, its name, its settings. */
export interface ServerToolEntry {
  readonly type: string;
  readonly name: string;
  readonly [field: string]: Json;
}

/** True for a tool search: it finds tools whose descriptions are loaded later. */
export function isToolSearch({ type }: ServerToolEntry): boolean {
  return type.startsWith('tool_search_tool_');
}
