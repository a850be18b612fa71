/** Rules for the calls that the provider runs itself: R37, R52. Pure. */
import { type BlockView, blockPath, type MessageView, type Report, type RequestView } from './legality-report.ts';

/** Server tools whose calls bear the name of their tool; calls of other server tools bear another name. */
const NAMED_TOOLS: ReadonlySet<unknown> = new Set(['web_search', 'web_fetch']);

/** Reports R37 and R52. */
export function checkServerTools(view: RequestView, report: Report): void {
  checkAsked(view, report);
  const answered = new Set<unknown>();
  for (const { blocks } of view.messages) {
    for (const block of blocks) if (isServerResult(block)) answered.add(block['tool_use_id']);
  }
  view.messages.forEach((message, place) => {
    message.blocks.forEach((block, index) => {
      if (block.type !== 'server_tool_use' || answered.has(block['id'])) return;
      checkDeferred(view, block, place, blockPath(message, index), report);
    });
  });
}

/** True for a result of a tool that the provider runs. */
export function isServerResult(block: BlockView): boolean {
  return block.type !== 'tool_result' && block.type.endsWith('_tool_result');
}

/** Reports R37: a result of a provider's own tool follows its call. */
function checkAsked(view: RequestView, report: Report): void {
  const asked = new Set<unknown>();
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      if (block.type === 'server_tool_use' || block.type === 'mcp_tool_use') asked.add(block['id']);
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
 * R52: the API runs its own call after the results of the calls beside it. Until then nothing may follow but these
 * results. A turn without such calls has paused and stays last (R38).
 */
function checkDeferred(view: RequestView, call: BlockView, place: number, path: string, report: Report): void {
  const rest = view.messages.slice(place + 1).filter(({ role }) => role !== 'assistant');
  const [follower] = rest;
  if (follower === undefined) return;
  const name = String(call['name']);
  const isLast = rest.length === 1 && view.messages.at(-1) === follower;
  const isPending = isLast && isOnlyResults(follower);
  const isGone = NAMED_TOOLS.has(name) && !view.tools.some(({ tool }) => tool['name'] === name);
  if (isPending && !isGone) return;
  const text = `\`${name}\` tool use with id \`${String(call['id'])}\` was found without a corresponding \`${name}_tool_result\` block`;
  report('R52', path, `${path}: ${text}${isGone ? `, but no \`${name}\` tool was provided` : ''}`);
}

function isOnlyResults(message: MessageView): boolean {
  return message.blocks.length > 0 && message.blocks.every((block) => block.type === 'tool_result');
}
