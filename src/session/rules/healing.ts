/**
 * The safety net of §5.5: calls whose results were lost while everything that ran them lives. The runtime asks at a call's
 * deadline who holds it; one that nothing holds is answered here, through the mailbox as any result. Pure.
 */
import type { Decision } from '../state/decision.ts';
import type { AgentFacts, Effect, Environment, Input } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { isWaitingForApproval } from './run-loop.ts';
import { lostResultText } from './tool-texts.ts';

/** A call that a tool pool runs, or is about to. */
export interface CallAtWork {
  readonly id: string;
  /** Milliseconds its tool may take. */
  readonly timeoutMs: number;
}

/**
 * The calls a pool owes a result for. Calls that were not started have no deadline: those of a held answer or a suspended run,
 * and those that wait for a person. A runtime tool's call is answered by the turn that takes it.
 */
export function callsAtWork(state: SessionState, agent: Pick<AgentFacts, 'tool'>): readonly CallAtWork[] {
  const calls: CallAtWork[] = [];
  if (state.held !== undefined || state.suspended !== undefined) return calls;
  for (const call of state.openCalls.values()) {
    const timeoutMs = timeoutOf(state, call, agent);
    if (timeoutMs !== undefined) calls.push({ id: call.id, timeoutMs });
  }
  return calls;
}

/** Answers the lost calls among `callIds`; one that is answered, or was not started, is left alone. */
export function decideHeal(
  state: SessionState,
  { callIds }: Extract<Input, { type: 'heal' }>,
  { agent }: Environment,
): Decision {
  const effects: Effect[] = [];
  const atWork = new Map(callsAtWork(state, agent).map((call) => [call.id, call.timeoutMs]));
  for (const callId of new Set(callIds)) {
    const timeoutMs = atWork.get(callId);
    if (timeoutMs === undefined) continue;
    const content = lostResultText(state.openCalls.get(callId)?.name ?? '', timeoutMs);
    effects.push(
      // Whatever still counts the call as its own gives up the place it takes.
      { type: 'cancelTool', callId, reason: content },
      { type: 'again', input: { type: 'toolFinished', callId, content, success: false } },
    );
  }
  return { records: [], effects };
}

function timeoutOf(state: SessionState, call: OpenCall, agent: Pick<AgentFacts, 'tool'>): number | undefined {
  const facts = agent.tool(call.name);
  if (facts === undefined || facts.isRuntimeTool || isWaitingForApproval(state, call.id)) return undefined;
  return call.timeoutMs ?? facts.timeoutMs;
}
