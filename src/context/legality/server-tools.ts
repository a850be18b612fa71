/** Rules for calls of the provider's own tools (server tools), which the API runs: R37, R52. Pure. */
import { isServerResult, isServerUse } from '../../base/messages.ts';
import { type BlockView, blockPath, type MessageView, type Report, type RequestView } from './report.ts';

/**
 * Maps the name in a server tool's call to the type prefixes of the tools that allow this call. Calls with names that
 * are not listed are not checked.
 */
const TOOLS_OF: Readonly<Record<string, readonly string[]>> = {
  web_search: ['web_search_'],
  web_fetch: ['web_fetch_'],
  // Web tools of later versions run code even if the request has no tool that runs code.
  code_execution: ['code_execution_', 'web_search_2026', 'web_fetch_2026'],
  bash_code_execution: ['code_execution_', 'web_search_2026', 'web_fetch_2026'],
  text_editor_code_execution: ['code_execution_', 'web_search_2026', 'web_fetch_2026'],
  tool_search_tool_regex: ['tool_search_tool_regex'],
  tool_search_tool_bm25: ['tool_search_tool_bm25'],
};

/** Reports R37 and R52. */
export function checkServerTools(view: RequestView, report: Report): void {
  checkAsked(view, report);
  view.messages.forEach((message, place) => {
    message.blocks.forEach((block, index) => {
      if (block.type !== 'server_tool_use' || isAnswered(view, block, place)) return;
      checkDeferred(view, block, place, blockPath(message, index), report);
    });
  });
}

/**
 * True if the request has the result of the call. The result may come before the next user message. It may also come
 * after that message if the message has only results of client tools.
 */
function isAnswered(view: RequestView, call: BlockView, place: number): boolean {
  let isBehindResults = false;
  for (const message of view.messages.slice(place)) {
    if (message.role === 'assistant') {
      if (message.blocks.some((block) => isServerResult(block) && block['tool_use_id'] === call['id'])) return true;
    } else if (message.role === 'user') {
      if (isBehindResults || !isOnlyResults(message)) return false;
      isBehindResults = true;
    }
  }
  return false;
}

/** Reports R37: the result of a server tool must come after its call. */
function checkAsked(view: RequestView, report: Report): void {
  const asked = new Set<unknown>();
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      if (isServerUse(block)) asked.add(block['id']);
      if (!isServerResult(block)) return;
      if (asked.has(block['tool_use_id'])) return;
      const path = blockPath(message, index);
      const id = String(block['tool_use_id']);
      const call = `Each \`${block.type}\` block must have a corresponding \`server_tool_use\` block before it.`;
      const text = `unexpected \`tool_use_id\` found in \`${block.type}\` blocks: ${id}. ${call}`;
      report('R37', path, `${path}: ${text}`);
    });
  }
}

/**
 * Reports R52. If an answer also calls client tools, the API runs the server tool's call once it has the results of the
 * client tools. A request that still lacks the server tool's result may have only those client results after the
 * answer. An answer without client calls has paused and must be last (R38).
 */
function checkDeferred(view: RequestView, call: BlockView, place: number, path: string, report: Report): void {
  const name = String(call['name']);
  const types = TOOLS_OF[name];
  const isGone = types !== undefined && !view.tools.some(({ tool }) => isOneOf(tool, name, types));
  if (!isGone && isPending(view, place)) return;
  const text = `\`${name}\` tool use with id \`${String(call['id'])}\` was found without a corresponding \`${resultOf(name)}\` block`;
  report('R52', path, `${path}: ${text}${isGone ? `, but no \`${name}\` tool was provided` : ''}`);
}

/**
 * True if no user message follows, or if exactly one follows, which is the last message and has only results of client
 * tools.
 */
function isPending(view: RequestView, place: number): boolean {
  const rest = view.messages.slice(place + 1).filter(({ role }) => role !== 'assistant');
  const [follower] = rest;
  if (follower === undefined) return true;
  return rest.length === 1 && view.messages.at(-1) === follower && isOnlyResults(follower);
}

function isOneOf(tool: Readonly<Record<string, unknown>>, name: string, types: readonly string[]): boolean {
  return tool['name'] === name || types.some((type) => String(tool['type']).startsWith(type));
}

function resultOf(name: string): string {
  return `${name.startsWith('tool_search_') ? 'tool_search' : name}_tool_result`;
}

function isOnlyResults(message: MessageView): boolean {
  return message.blocks.length > 0 && message.blocks.every((block) => block.type === 'tool_result');
}
