/** Replies by rule: conditions on a request, and placeholders in a reply that the request fills. Pure. */
import { isRecord } from '../../base/json.ts';
import { type ContentBlock, type ToolResultBlock, textOf } from '../../base/messages.ts';
import type { ModelRequest } from '../provider.ts';
import type { Reply, ReplyCondition, ScriptRules } from './script.ts';

/** The facts of a request that rules test. */
interface Situation {
  readonly call: number;
  readonly system: string;
  /** The newest text of the user. */
  readonly text: string;
  /** The texts of the tool results of the last message, joined by newlines; undefined without any. */
  readonly result: string | undefined;
  /** The names of the tools whose calls the results of the last message answer. */
  readonly tools: readonly string[];
}

/** The reply of the first rule that holds, with its placeholders filled; undefined when no rule holds. */
export function ruleReply(script: ScriptRules, request: ModelRequest, call: number): Reply | undefined {
  const situation = situationOf(request, call);
  const rule = script.rules.find(({ when }) => holds(when, situation));
  const reply = rule?.reply ?? script.otherwise;
  return reply === undefined ? undefined : (fill(reply, situation) as Reply);
}

function holds(when: ReplyCondition, situation: Situation): boolean {
  if (when.call !== undefined && when.call !== situation.call) return false;
  if (when.system !== undefined && !situation.system.includes(when.system)) return false;
  if (when.text !== undefined && !situation.text.includes(when.text)) return false;
  if (when.tool !== undefined && !situation.tools.includes(when.tool)) return false;
  if (when.result === undefined) return true;
  if (typeof when.result === 'boolean') return when.result === (situation.result !== undefined);
  return situation.result?.includes(when.result) === true;
}

function situationOf(request: ModelRequest, call: number): Situation {
  const results = lastResults(request);
  const ids = new Set(results.map((result) => result.tool_use_id));
  const tools: string[] = [];
  for (const { content } of request.messages) {
    if (typeof content === 'string') continue;
    for (const block of content) {
      if (block.type === 'tool_use' && ids.has(block.id)) tools.push(block.name);
    }
  }
  return {
    call,
    system: request.system ?? '',
    text: newestUserText(request),
    result: results.length === 0 ? undefined : results.map(resultText).join('\n'),
    tools,
  };
}

function lastResults(request: ModelRequest): readonly ToolResultBlock[] {
  const content = request.messages.at(-1)?.content;
  if (content === undefined || typeof content === 'string') return [];
  return content.filter((block): block is ToolResultBlock => block.type === 'tool_result');
}

function resultText(result: ToolResultBlock): string {
  return textOf((result.content ?? '') as string | readonly ContentBlock[]);
}

function newestUserText(request: ModelRequest): string {
  const last = request.messages.findLast((message) => message.role === 'user' && textOf(message.content).trim() !== '');
  return last === undefined ? '' : textOf(last.content);
}

/** Fills `{{text}}` and `{{result}}` in every string of a reply, at any depth. */
function fill(value: unknown, situation: Situation): unknown {
  if (typeof value === 'string') {
    // The replacers are functions, because an inserted text may contain replacement patterns.
    return value.replaceAll('{{text}}', () => situation.text).replaceAll('{{result}}', () => situation.result ?? '');
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, situation));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item, situation)]));
}
