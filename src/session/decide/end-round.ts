/** Ends a running turn without another model call. Every call gets a response, so that the log stays legal. Pure. */
import type { ErrorShape } from '../../base/errors.ts';
import { isWaitingForApproval } from '../rules/run-loop.ts';
import { outcomeUnknown } from '../rules/tool-texts.ts';
import { questionOf } from '../rules/waiting-calls.ts';
import type { Decision } from '../state/decision.ts';
import type { Effect, Environment } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { CurrentCall, SessionState } from '../state/state.ts';
import { compactionInterrupted } from './compression.ts';

/**
 * Gives up a model call in flight, or closes an open round with a failed response for each open tool call (I5).
 * `firstId`: the next free pending id. `notice`: the content of those responses; a call that may have taken effect also
 * gets "outcome unknown", as after a crash. `error`: why the turn failed; missing: the turn was cancelled.
 */
export function endRound(
  state: SessionState,
  environment: Environment,
  options: { readonly firstId: number; readonly notice: string; readonly error?: ErrorShape },
): Decision {
  const { error } = options;
  const effects: Effect[] = [];
  if (state.state === 'awaiting') {
    const { current } = state;
    if (current !== undefined) effects.push({ type: 'cancelModel', halfStep: current.halfStep });
    if (current?.compaction !== undefined) return { records: endCompaction(current, error), effects };
    const ended: SessionRecord =
      error === undefined || current === undefined
        ? { type: 'released' }
        : { type: 'failed', halfStep: current.halfStep, error };
    return { records: [ended], effects };
  }
  const records: SessionRecord[] = [];
  const responses = state.mailbox.filter((entry) => entry.type === 'tool_response').map((entry) => entry.id);
  let id = options.firstId;
  for (const call of state.openCalls.values()) {
    records.push({
      type: 'accepted',
      id,
      entry: {
        type: 'tool_response',
        content: mayHaveHappened(state, call, environment) ? outcomeUnknown(options.notice) : options.notice,
        source: { type: 'tool', name: call.name },
        toolUseId: call.id,
        success: false,
      },
    });
    effects.push({ type: 'cancelTool', callId: call.id, reason: options.notice });
    responses.push(id);
    id += 1;
  }
  records.push({ type: 'closed', entries: responses, reason: 'cancelled', ...(error === undefined ? {} : { error }) });
  return { records, effects };
}

/** True if the call has started and its tool has effects, so a cancelled call may have taken effect. */
function mayHaveHappened(state: SessionState, { id, name }: OpenCall, { agent }: Environment): boolean {
  if (state.held !== undefined) return false;
  // A call that waits for a person's decision has not started. A call whose MCP server asks a question has started.
  if (isWaitingForApproval(state, id) && questionOf(state, id)?.elicitation === undefined) return false;
  const effect = agent.tool(name)?.effect;
  return effect !== undefined && effect !== 'pure';
}

/**
 * The records that give up a compression and end the state from before it: a round with all results, or a model call.
 * If the compression began in idle, nothing else has to end.
 */
function endCompaction(current: CurrentCall, error: ErrorShape | undefined): readonly SessionRecord[] {
  const given = compactionInterrupted(current.halfStep);
  if (current.compaction?.returnsTo === 'idle') return [given];
  const suspended = current.compaction?.overflow?.suspended;
  const errorMember = error === undefined ? {} : { error };
  if (suspended === undefined) return [given, { type: 'closed', entries: [], reason: 'cancelled', ...errorMember }];
  return [given, error === undefined ? { type: 'released' } : { type: 'failed', halfStep: suspended.halfStep, error }];
}
