/** Rules for structured outputs and strict tools: R57, R58. Pure. */
import { isRecord } from '../../base/json.ts';
import { pausedEnd } from './content.ts';
import {
  type BlockView,
  blockPath,
  given,
  member,
  type PausedTurnTest,
  type Report,
  type RequestView,
} from './report.ts';
import { type SchemaCost, strictSchemaFault } from './strict-schema.ts';

/** Limits of one request, over all its schemas (R57). */
const STRICT_TOOLS_MAX = 20;
export const SCHEMA_COST_MAX: Readonly<SchemaCost> = Object.freeze({ optional: 24, unions: 16 });

/** Reports R57 and R58. */
export function checkStructuredOutput(
  view: RequestView,
  isPausedTurn: PausedTurnTest | undefined,
  report: Report,
): void {
  const cost: SchemaCost = { optional: 0, unions: 0 };
  const check = (schema: unknown, path: string): void => {
    const fault = strictSchemaFault(schema, cost);
    if (fault !== undefined) report('R57', path, `${path}: ${fault}`);
  };
  const strict = view.tools.filter(({ tool }) => tool['strict'] === true);
  for (const { tool, index } of strict) check(tool['input_schema'], `tools.${index}.custom.input_schema`);
  const named = member(view.body['output_config'], 'format');
  const format = named ?? view.body['output_format'];
  if (given(format)) {
    check(member(format, 'schema'), given(named) ? 'output_config.format.schema' : 'output_format.schema');
    checkConflicts(view, isPausedTurn, report);
  }
  if (strict.length > STRICT_TOOLS_MAX || isCostly(cost)) {
    report('R57', 'tools', 'Schema is too complex for compilation.');
  }
}

function isCostly({ optional, unions }: SchemaCost): boolean {
  return optional > SCHEMA_COST_MAX.optional || unions > SCHEMA_COST_MAX.unions;
}

/** Reports R58. */
function checkConflicts(view: RequestView, isPausedTurn: PausedTurnTest | undefined, report: Report): void {
  const last = view.messages.at(-1);
  const { ranTools, isPaused } = pausedEnd(view.messages, isPausedTurn);
  // R12 reports a prefill (an assistant message at the end) for models that accept no prefill. R38 reports a paused
  // turn that was changed.
  if (last?.role === 'assistant' && !isPaused && !ranTools && view.traits.prefill === true) {
    report('R58', `messages.${last.index}`, 'output_config.format is not supported with assistant message prefill');
  }
  for (const message of view.messages) {
    const index = message.blocks.findIndex(cites);
    if (index === -1) continue;
    const path = blockPath(message, index);
    report('R58', path, `${path}: citations are not supported with output_config.format`);
    return;
  }
}

/** True if the block, or a block inside its result, is a source with citations enabled. */
function cites(block: Readonly<Record<string, unknown>> | BlockView): boolean {
  if (member(block['citations'], 'enabled') === true) return true;
  const { content } = block;
  return (
    block['type'] === 'tool_result' && Array.isArray(content) && content.some((part) => isRecord(part) && cites(part))
  );
}
