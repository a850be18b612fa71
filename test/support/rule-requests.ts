/** Parts of the requests in `rule-rows.ts` and `legal-rows.ts`. */

/** Fields of a request, or of a part of it. */
export type Fields = Readonly<Record<string, unknown>>;

/** A request that breaks a rule. */
export interface RuleRow {
  readonly rule: string;
  readonly what: string;
  readonly body: Fields;
  readonly betas?: readonly string[];
  readonly says: RegExp;
  /** The API accepts the request, and our check gives a warning. */
  readonly warns?: true;
  /** The request is an item of a batch; the fake has no batches. */
  readonly batch?: true;
  /** The stable key of the API's error. */
  readonly code?: string;
}

/** A request that breaks no rule. */
export interface LegalRow {
  readonly what: string;
  readonly body: Fields;
  readonly betas?: readonly string[];
}

export const HI: Fields = { role: 'user', content: 'Hi' };
export const YES: Fields = { role: 'assistant', content: 'Yes.' };
export const ADD: Fields = {
  name: 'add',
  input_schema: { type: 'object', properties: {}, additionalProperties: false },
};
export const SEARCH: Fields = { type: 'web_search_20260318', name: 'web_search' };
export const ADAPTIVE: Fields = { type: 'adaptive' };
export const DISABLED: Fields = { type: 'disabled' };
export const BETWEEN: Fields = { type: 'between_tools' };
export const OLDER = 'claude-sonnet-4-5';

export function ask(model: string, changes: Fields = {}): Fields {
  return { model, max_tokens: 2_048, messages: [HI], ...changes };
}

/** A conversation in which the model has answered once, with the user's next message and `more` after the answer. */
export function talk(model: string, ...more: readonly Fields[]): Fields {
  return ask(model, { messages: [HI, YES, HI, ...more] });
}

export function effort(level: string): Fields {
  return { output_config: { effort: level } };
}

export function format(schema: Fields): Fields {
  return { output_config: { format: { type: 'json_schema', schema } } };
}

export function strict(properties: Fields, required: readonly string[] = Object.keys(properties)): Fields {
  const input_schema = { type: 'object', properties, required, additionalProperties: false };
  return { tools: [{ name: 'add', strict: true, input_schema }] };
}

/** The first bytes of a PNG file of this size, as a block. */
export function png(width: number, height: number): Fields {
  const head = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
  const size = Buffer.alloc(8);
  size.writeUInt32BE(width, 0);
  size.writeUInt32BE(height, 4);
  const data = Buffer.concat([head, size]).toString('base64');
  return { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
}

export function images(count: number, image: Fields): Fields {
  return { messages: [{ role: 'user', content: Array.from({ length: count }, () => image) }] };
}

/**
 * A request in which the model called one of our tools and one server tool. The server tool waits for the result of
 * ours.
 */
export function deferred(followers: readonly Fields[], tools: readonly Fields[] = [ADD, SEARCH]): Fields {
  const calls = [
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
    { type: 'tool_use', id: 'toolu_1', name: 'add', input: {} },
  ];
  return ask('claude-opus-5', { tools, messages: [HI, { role: 'assistant', content: calls }, ...followers] });
}

export const RESULT: Fields = { type: 'tool_result', tool_use_id: 'toolu_1', content: '3' };
export const FOUND: Fields = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] };
export const PAUSED: Fields = {
  role: 'assistant',
  content: [{ type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }, FOUND],
};

export const CLEAR_AT: readonly string[] = ['mid-conversation-system-clear-at-2026-08-21'];
export const EFFORTS: readonly string[] = ['mid-conversation-output-config-2026-07-01'];
export const INLINE: readonly string[] = ['inline-tools-2026-09-15'];
export const COMPACT: readonly string[] = ['compact-2026-09-04'];
export const FALLBACK: readonly string[] = ['server-side-fallback-2026-07-01'];
export const THREADS: readonly string[] = ['message-threads-2026-08-12'];
export const COMPACTION: Fields = {
  type: 'compaction',
  content: 'We said hello.',
  encrypted_content: 'x',
  signature: 's',
};
export const COMPACTED: Fields = { role: 'assistant', content: [COMPACTION] };
export const REMOVED: Fields = { type: 'tool_removal', tool: { type: 'tool_reference', name: 'gone' } };

export function once(fields: Fields): Fields {
  return { role: 'system', content: 'Only now.', clear_at: 'next_user_message', ...fields };
}

export function change(block: Fields): Fields {
  return { ...talk('claude-opus-5-5', { role: 'system', content: [block] }), tools: [ADD] };
}
