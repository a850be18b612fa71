/**
 * Rules for thinking that one body reveals: R22 to R28. R20 and R21 compare with the model's earlier answers, which the
 * fake model that gave them keeps (`src/testing/thinking-ledger.ts`). Pure.
 */
import { isRecord } from '../base/json.ts';
import type { MessageView, Report, RequestView } from './legality-report.ts';

/** The smallest thinking budget, in tokens (R24). */
const THINKING_TOKENS_MIN = 1_024;

/** Reports R22 to R28. */
export function checkThinking(view: RequestView, report: Report): void {
  const thinking = isRecord(view.body['thinking']) ? view.body['thinking'] : {};
  const mode = thinking['type'];
  if (mode === 'enabled') {
    if (!view.traits.manualThinking) {
      report(
        'R25',
        'thinking.type',
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and an effort.',
      );
    } else {
      checkBudget(view, thinking['budget_tokens'], report);
      checkTurnStart(view.messages, report);
    }
  }
  const isOn = mode === 'enabled' || mode === 'adaptive';
  if (mode === 'disabled' || (!isOn && view.traits.thinkingOffByDefault)) {
    checkFinalThinking(view.messages.at(-1), report);
  }
  checkSampling(view, isOn, report);
  checkForcedTool(view, isOn, report);
  const effort = isRecord(view.body['output_config']) ? view.body['output_config']['effort'] : undefined;
  const isHighest = effort === 'xhigh' || effort === 'max';
  if (mode === 'disabled' && isHighest && !view.traits.effortWithoutThinking) {
    report('R27', 'thinking', `thinking cannot be disabled with effort '${effort}' for this model`);
  }
}

/** R24. */
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
 * R22: under manual thinking the current turn starts with thinking if it uses tools. The turn is everything since the
 * last user message that answers no call. Earlier turns may have lost their thinking.
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

/** R23. */
function checkFinalThinking(last: MessageView | undefined, report: Report): void {
  if (last?.role !== 'assistant') return;
  const found = last.blocks.find((block) => block.type === 'thinking' || block.type === 'redacted_thinking');
  if (found === undefined) return;
  const path = `messages.${last.index}`;
  const text = `When thinking is disabled, an \`assistant\` message in the final position cannot contain \`${found.type}\`.`;
  report('R23', path, `${path}: ${text}`);
}

/** R26. */
function checkSampling(view: RequestView, thinks: boolean, report: Report): void {
  for (const key of ['temperature', 'top_p', 'top_k']) {
    if (view.body[key] !== undefined && !view.traits.sampling) {
      report('R26', key, `\`${key}\` is deprecated for this model.`);
    }
  }
  const temperature = view.body['temperature'];
  if (view.traits.sampling && thinks && temperature !== undefined && temperature !== 1) {
    report('R26', 'temperature', '`temperature` may only be set to 1 when thinking is enabled.');
  }
}

/** R28. */
function checkForcedTool(view: RequestView, thinks: boolean, report: Report): void {
  const choice = isRecord(view.body['tool_choice']) ? view.body['tool_choice']['type'] : undefined;
  if (thinks && (choice === 'any' || choice === 'tool')) {
    report('R28', 'tool_choice', 'Thinking may not be enabled when tool_choice forces tool use.');
  }
}
