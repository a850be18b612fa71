/**
 * Rules for thinking and effort that one body can show to be broken: R22 to R25, R27, R45 to R47, R59, and the setting
 * of R21. R20 and the rest of R21 compare a request with the model's earlier answers. The tests' fake model checks
 * these two (`src/testing/thinking-ledger.ts`). Pure.
 */
import { isRecord } from '../../base/json.ts';
import { THINKING_TYPES, type ThinkingType } from '../model-traits.ts';
import { given, type MessageView, member, type Report, type RequestView, type RuleId } from './report.ts';

/** The smallest thinking budget, in tokens (R24). */
const THINKING_TOKENS_MIN = 1_024;

/** The beta flag that `thinking.block_binding` needs (R21). */
export const BINDING_BETA = 'thinking-binding-controls-2026-08-01';

/** Reports R22 to R25, R45 to R47, and R21 for its setting `block_binding`. */
export function checkThinking(view: RequestView, report: Report): void {
  const thinking = isRecord(view.body['thinking']) ? view.body['thinking'] : {};
  const mode = thinking['type'];
  checkMode(view, mode, report);
  if (mode === 'between_tools') checkBetweenTools(thinking, report);
  else if (given(thinking['block_binding'])) {
    // The API's message names this field without its path.
    if (!view.hasBeta(BINDING_BETA)) {
      report('R21', 'thinking.block_binding', 'block_binding: Extra inputs are not permitted');
    }
  }
  if (mode === 'enabled' && view.traits.thinkingTypes?.has('enabled') !== false) {
    checkBudget(view, thinking['budget_tokens'], report);
    checkTurnStart(view.messages, report);
  }
  const isOn = mode === 'enabled' || mode === 'adaptive' || mode === 'between_tools';
  if (mode === 'disabled' || (!isOn && view.traits.thinksByDefault !== true)) {
    checkFinalThinking(view.messages.at(-1), report);
  }
}

/** Reports R47 for any further setting of `between_tools`, because this mode has none. */
function checkBetweenTools(thinking: Readonly<Record<string, unknown>>, report: Report): void {
  for (const key of ['display', 'budget_tokens', 'block_binding']) {
    if (!given(thinking[key])) continue;
    const path = `thinking.between_tools.${key}`;
    report('R47', path, `${path}: Extra inputs are not permitted`);
  }
}

/** For each mode of thinking: the rule that a request with this mode breaks on a model without the mode. */
const MODE_RULES: Readonly<Record<ThinkingType, RuleId>> = {
  enabled: 'R25',
  disabled: 'R45',
  adaptive: 'R46',
  between_tools: 'R47',
};

/** Reports R25, R45, R46 and R47 for a thinking mode. */
function checkMode(view: RequestView, mode: unknown, report: Report): void {
  const { thinkingTypes } = view.traits;
  const type = THINKING_TYPES.find((each) => each === mode);
  if (type === undefined || thinkingTypes === undefined || thinkingTypes.has(type)) return;
  report(MODE_RULES[type], 'thinking.type', modeText(type, thinkingTypes));
}

function modeText(type: ThinkingType, accepted: ReadonlySet<ThinkingType>): string {
  const refused = `"thinking.type.${type}" is not supported for this model.`;
  if (type === 'adaptive') return 'adaptive thinking is not supported on this model';
  if (type === 'between_tools') return refused;
  const lowest = '"thinking.type.between_tools" for the lowest thinking setting, or "thinking.type.adaptive"';
  const remedy = accepted.has('between_tools') ? lowest : '"thinking.type.adaptive"';
  const how = type === 'disabled' && accepted.has('between_tools') ? '' : ' and "output_config.effort"';
  return `${refused} Use ${remedy}${how} to control thinking behavior.`;
}

/** Reports R24. */
function checkBudget(view: RequestView, budget: unknown, report: Report): void {
  const path = 'thinking.enabled.budget_tokens';
  if (typeof budget !== 'number' || budget < THINKING_TOKENS_MIN) {
    const text = `Input should be greater than or equal to ${THINKING_TOKENS_MIN}`;
    report('R24', path, `${path}: ${text}`);
    return;
  }
  const outputTokensMax = view.body['max_tokens'];
  if (typeof outputTokensMax === 'number' && budget >= outputTokensMax) {
    report('R24', path, '`max_tokens` must be greater than `thinking.budget_tokens`');
  }
}

/**
 * Reports R22: with thinking of type `enabled`, the model's current turn must start with thinking if it has calls. The
 * turn is everything after the last user message without results of calls. Earlier turns may have lost their thinking.
 */
function checkTurnStart(messages: readonly MessageView[], report: Report): void {
  const opening = messages.findLastIndex(
    (message) => message.role === 'user' && !message.blocks.some((block) => block.type === 'tool_result'),
  );
  const turn = messages.slice(opening + 1).filter((message) => message.role === 'assistant');
  const first = turn[0];
  if (!turn.some((message) => message.blocks.some((block) => block.type === 'tool_use'))) return;
  const start = first?.blocks[0];
  if (first === undefined || start === undefined) return;
  if (start.type === 'thinking' || start.type === 'redacted_thinking') return;
  const path = `messages.${first.index}.content.0.type`;
  report(
    'R22',
    path,
    `${path}: Expected \`thinking\` or \`redacted_thinking\`, but found \`${start.type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`,
  );
}

/** Reports R23. */
function checkFinalThinking(last: MessageView | undefined, report: Report): void {
  if (last?.role !== 'assistant') return;
  const found = last.blocks.find((block) => block.type === 'thinking' || block.type === 'redacted_thinking');
  if (found === undefined) return;
  const path = `messages.${last.index}`;
  const text = `When thinking is disabled, an \`assistant\` message in the final position cannot contain \`${found.type}\`.`;
  report('R23', path, `${path}: ${text}`);
}

/** Efforts that may be combined with `between_tools` (R47). */
const BETWEEN_TOOLS_EFFORTS: readonly unknown[] = ['low', 'medium', 'high'];

/** Reports R27, R59, and R47 for efforts. */
export function checkEffort(view: RequestView, report: Report): void {
  const own = member(view.body['output_config'], 'effort');
  checkLevel(view, own, 'output_config.effort', report);
  for (const { index, fields } of view.messages) {
    const effort = member(fields['output_config'], 'effort');
    const path = `messages.${index}.output_config.effort`;
    checkLevel(view, effort, path, report);
    if (!given(effort) || effort === own || modeOf(view) !== 'between_tools') continue;
    report('R47', path, `${path}: must not differ from the request's with "thinking.type.between_tools".`);
  }
}

function checkLevel(view: RequestView, effort: unknown, path: string, report: Report): void {
  if (!given(effort)) return;
  const { efforts, effortsWithoutThinking, thinkingTypes } = view.traits;
  if (efforts !== undefined && !efforts.some((each) => each === effort)) {
    report('R59', path, `${path}: '${String(effort)}' is not supported for this model.`);
    return;
  }
  const mode = modeOf(view);
  if (mode === 'between_tools' && !BETWEEN_TOOLS_EFFORTS.includes(effort)) {
    report('R47', path, `${path}: '${String(effort)}' is not supported with "thinking.type.between_tools".`);
  }
  // On a model whose thinking cannot be disabled, the request breaks R45 instead.
  if (mode !== 'disabled' || thinkingTypes?.has('disabled') === false || effortsWithoutThinking === undefined) return;
  if (effortsWithoutThinking.some((each) => each === effort)) return;
  report('R27', 'thinking', `thinking cannot be disabled with effort '${String(effort)}' for this model`);
}

function modeOf(view: RequestView): unknown {
  return member(view.body['thinking'], 'type');
}
