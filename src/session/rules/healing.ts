/**
 * The safety net of §5.5 for calls whose results were lost although the pools and threads that ran them still live. At
 * a call's deadline the runtime asks whether a pool holds the call. A call that no pool holds is answered here, through
 * the mailbox like any result. Pure.
 */
import type { Decision } from '../state/decision.ts';
import type { AgentFacts, Effect, Environment, Input } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { isWaitingForApproval } from './run-loop.ts';
import { lostResultText } from './tool-texts.ts';

/** A call that a tool pool runs or will run. */
export interface CallAtWork {
  readonly id: string;
  /** Milliseconds its tool may take. */
  readonly timeoutMs: number;
}

/**
 * The calls whose results must come from a pool. Calls that have not started have no deadline: those of a held answer
 * or a suspended run, and those that wait for a decision. A call of a runtime tool has no pool: its own transition
 * answers it.
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

/** Answers the lost calls among `callIds`. Calls that are answered or have not started are left alone. */
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
      // If a pool still counts this call, cancelling it frees its slot.
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
