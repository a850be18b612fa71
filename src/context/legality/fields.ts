/**
 * The fields and block types that the Messages API knows, for R39. Data only. A test compares the tables with the types
 * of the vendor's SDK, and fails if a field or type of the SDK is missing here.
 */

/** Fields of a request. The last three are no longer accepted, and R49 reports them. */
export const BODY_FIELDS: ReadonlySet<string> = new Set([
  ...['model', 'max_tokens', 'messages', 'system', 'tools', 'tool_choice', 'thinking', 'output_config', 'stream'],
  ...['cache_control', 'container', 'context_management', 'diagnostics', 'inference_geo', 'mcp_servers'],
  ...['metadata', 'output_format', 'service_tier', 'speed', 'stop_sequences'],
  ...['billing_policy', 'compaction', 'fallback_credit_token', 'fallbacks', 'thread'],
  ...['temperature', 'top_p', 'top_k'],
]);

/** Fields of a message. `clear_at` and `output_config` belong to system messages (R53). */
export const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['role', 'content', 'clear_at', 'output_config']);

const RESULT = ['tool_use_id', 'content'];
const MARK = 'cache_control';

/** Fields of a block besides `type`, by the block's type. */
export const BLOCK_FIELDS: Readonly<Record<string, ReadonlySet<string>>> = {
  text: new Set(['text', 'citations', MARK]),
  image: new Set(['source', 'transformations', MARK]),
  document: new Set(['source', 'title', 'context', 'citations', MARK]),
  search_result: new Set(['content', 'source', 'title', 'citations', MARK]),
  // The API accepts no cache mark on thoughts. R43 reports such a mark, so R39 need not.
  thinking: new Set(['thinking', 'signature', MARK]),
  redacted_thinking: new Set(['data', MARK]),
  tool_use: new Set(['id', 'name', 'input', 'caller', 'toolset_name', MARK]),
  tool_result: new Set([...RESULT, 'is_error', 'toolset_name', MARK]),
  server_tool_use: new Set(['id', 'name', 'input', 'caller', MARK]),
  web_search_tool_result: new Set([...RESULT, 'caller', MARK]),
  web_fetch_tool_result: new Set([...RESULT, 'caller', MARK]),
  code_execution_tool_result: new Set([...RESULT, MARK]),
  bash_code_execution_tool_result: new Set([...RESULT, MARK]),
  text_editor_code_execution_tool_result: new Set([...RESULT, MARK]),
  tool_search_tool_result: new Set([...RESULT, MARK]),
  advisor_tool_result: new Set([...RESULT, MARK]),
  mcp_tool_use: new Set(['id', 'name', 'input', 'server_name', MARK]),
  mcp_tool_result: new Set([...RESULT, 'is_error', MARK]),
  mcp_tool_listing: new Set(['mcp_server_name', 'tools']),
  container_upload: new Set(['file_id', MARK]),
  compaction: new Set(['content', 'encrypted_content', 'signature', 'tool_changes', MARK]),
  tool_addition: new Set(['tool', MARK]),
  tool_removal: new Set(['tool', MARK]),
  fallback: new Set(['from', 'to', 'trigger']),
};

/** Required string fields, by block type. */
export const REQUIRED_STRINGS: Readonly<Record<string, readonly string[]>> = {
  text: ['text'],
  tool_use: ['id', 'name'],
  tool_result: ['tool_use_id'],
  thinking: ['thinking', 'signature'],
  redacted_thinking: ['data'],
};

/** Fields of a request that need one of these beta flags, and that no other rule checks. */
export const BETA_FIELDS: Readonly<Record<string, readonly string[]>> = {
  context_management: ['context-management-2025-06-27', 'compact-2026-01-12'],
  mcp_servers: ['mcp-client-2025-04-04', 'mcp-client-2025-11-20', 'mcp-client-2026-09-15'],
  output_format: ['structured-outputs-2025-11-13'],
};
