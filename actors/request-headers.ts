/** The parts of an agent's requests that are not messages. */
import { isRecord } from '../src/base/json.ts';
import { sharedPromptLength, systemPrompt } from '../src/context/system-prompt.ts';
import type { ModelOptions } from '../src/models/model-options.ts';
import type { RequestHeader } from '../src/models/pool.ts';
import type { SessionState } from '../src/session/state/state.ts';
import type { AgentPlan } from './agent-plan.ts';
import type { AnswerParts } from './answer-forms.ts';

/**
 * The agent's options in a turn with a structured answer. No tool is forced, because a forced tool would keep the turn
 * from ending.
 */
export function answerOptions(plan: AgentPlan, { tool, format }: AnswerParts): ModelOptions {
  const { toolChoice, ...rest } = plan;
  const isKept = toolChoice === 'auto' || (toolChoice === 'none' && tool === undefined);
  const options: ModelOptions = isKept ? { ...rest, toolChoice } : rest;
  if (format === undefined) return options;
  const { request = {} } = options;
  const given = request['output_config'];
  return { ...options, request: { ...request, output_config: { ...(isRecord(given) ? given : {}), format } } };
}

/** Builds a header once per epoch and system text. Sessions with the same text share one object. */
export function headerOf(
  base: RequestHeader,
  agentSystem: string | undefined,
  guide: string | undefined,
): (state: SessionState) => RequestHeader {
  const plain = new Map<string | undefined, RequestHeader>();
  return (state) => {
    const system = systemPrompt(state, agentSystem, guide);
    const hasOwn = state.prompt !== undefined || state.goal !== undefined || state.system !== undefined;
    const isShared = !hasOwn && state.promptCount === 0 && state.memory?.shown === undefined;
    const known = isShared ? plain.get(system) : undefined;
    if (known !== undefined) return known;
    // The order of members is part of the request's bytes: model, max_tokens, system, tools, and the fields of the
    // agent's options.
    const { model, max_tokens, ...rest } = base;
    const header: RequestHeader = { model, max_tokens, ...(system === undefined ? {} : { system }), ...rest };
    if (isShared) plain.set(system, header);
    const sharedSystem = sharedPromptLength(state, agentSystem, guide);
    // The prompt of a session that adds nothing to it is one block.
    if (sharedSystem === 0 || sharedSystem >= (system?.length ?? 0)) return header;
    return { ...header, transport: { ...header.transport, sharedSystem } };
  };
}
