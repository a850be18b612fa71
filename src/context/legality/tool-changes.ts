/** Rules for tools that are added or removed within a conversation, `tool_addition` and `tool_removal`: R54. Pure. */
import { isRecord } from '../../base/json.ts';
import { type BlockView, blockPath, needsBeta, type Report, type RequestView } from './report.ts';
import { endsInServerResult, systemGroups } from './system-messages.ts';

const DEFINITIONS = ['inline-tools-2026-09-15'];
const REFERENCES = [...DEFINITIONS, 'mid-conversation-tool-changes-2026-07-01', 'mcp-client-2026-09-15'];

/** Reports R54. */
export function checkToolChanges(view: RequestView, report: Report): void {
  checkPlaces(view, report);
  // The tools of a continued thread are kept by the API and are not in this request.
  const isContinued = isRecord(view.body['thread']) && view.body['thread']['type'] === 'continue';
  const known = new Map(view.tools.map(({ tool }) => [tool['name'], kindOf(tool)]));
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      if (!isToolChange(block) || message.role !== 'system') return;
      checkChange(view, block, blockPath(message, index), isContinued ? undefined : known, report);
    });
  }
}

function isToolChange(block: BlockView): boolean {
  return block.type === 'tool_addition' || block.type === 'tool_removal';
}

function checkPlaces(view: RequestView, report: Report): void {
  for (const message of view.messages) {
    if (message.role === 'system') continue;
    message.blocks.forEach((block, index) => {
      if (!isToolChange(block)) return;
      const path = blockPath(message, index);
      report('R54', path, `${path}: \`${block.type}\` blocks can only be in \`system\` messages`);
    });
  }
  for (const { messages, before } of systemGroups(view)) {
    if (!endsInServerResult(before)) continue;
    for (const message of messages) {
      const index = message.blocks.findIndex(isToolChange);
      if (index === -1) continue;
      const path = blockPath(message, index);
      report('R54', path, `${path}: tools cannot change directly after a paused turn`);
    }
  }
}

/** The kind of a tool. A tool may have the name of an earlier tool of the same kind, and then replaces it. */
function kindOf(tool: Readonly<Record<string, unknown>>): unknown {
  return tool['type'] ?? 'custom';
}

/**
 * Checks one added or removed tool. `known`: the kinds of the tools defined so far, by name; undefined if they are not
 * known. A new definition is added to `known`.
 */
function checkChange(
  view: RequestView,
  block: BlockView,
  path: string,
  known: Map<unknown, unknown> | undefined,
  report: Report,
): void {
  const change = isRecord(block['tool']) ? block['tool'] : {};
  const isDefinition = change['type'] === 'tool_definition';
  needsBeta(view, isDefinition ? DEFINITIONS : REFERENCES, 'R54', path, report);
  if (known === undefined) return;
  if (isDefinition) {
    const definition = isRecord(change['definition']) ? change['definition'] : {};
    const name = definition['name'];
    if (known.has(name) && known.get(name) !== kindOf(definition)) {
      const text = `tool '${String(name)}' takes the name of an available tool of another kind`;
      report('R54', path, `${path}: ${text}`, true, 'tool_name_conflict');
    }
    known.set(name, kindOf(definition));
  } else if (change['type'] === 'tool_reference' && !known.has(change['name'])) {
    const text = `tool '${String(change['name'])}' is not defined at this position`;
    report('R54', path, `${path}: ${text}`, true, 'tool_reference_unresolved');
  }
}
