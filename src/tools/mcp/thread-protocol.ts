/** The messages between the host and the MCP thread: plain data only. */
import type { McpCall, McpToolList } from './protocol.ts';

/** The data that the thread is started with. */
export interface McpThreadData {
  /** The version of this library, for the servers. */
  readonly version: string;
}

/** One call, by a number that the host chose. */
export interface McpThreadCall extends McpCall {
  readonly id: number;
}

/** The notes of the thread. */
export interface McpThreadNotes {
  'mcp.tools': McpToolList;
  'mcp.lost': { readonly server: string; readonly why: string };
  'mcp.warn': { readonly message: string };
  'mcp.progress': { readonly id: number; readonly data: unknown };
}
