/**
 * Names a sub-agent that was spawned without a name, before its first half-step (contract §7.3, §7.5). An enricher
 * chooses a name, and the parent checks it, because only the parent knows the siblings. If anything fails, the child
 * keeps its first name, `agent-N`. Pure.
 */
import { ConfigError, InvalidNameError } from '../../base/errors.ts';
import { checkNickname } from '../../base/ids.ts';
import { childPrompt, spawnConfirmation } from '../rules/child-texts.ts';
import type { ChildLink } from '../state/child-link.ts';
import { type Decision, NO_RECORDS, NOTHING, refuse } from '../state/decision.ts';
import type { Effect, Input } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';

/** Handles a nickname that was chosen for this child. The parent checks the name in the same batch. */
export function decideNickname(state: SessionState, nickname: string): Decision {
  if (state.enrichment?.stage !== 'naming') return refuse(new ConfigError('A sub-agent is named once, as it begins'));
  return {
    records: NO_RECORDS,
    effects: [{ type: 'sendToParent', input: { type: 'nameChild', child: state.id, nickname } }],
  };
}

/**
 * Checks a child's name, in the parent: the name must be unique among the siblings. Nothing changes if the child has
 * this name already.
 */
export function decideChildName(state: SessionState, input: Extract<Input, { type: 'nameChild' }>): Decision {
  const { child, nickname } = input;
  const link = state.children.get(child);
  if (link === undefined) return refuse(new ConfigError(`there is no sub-agent ${child}`));
  const siblings = new Set(state.childNames);
  siblings.delete(link.name);
  const checked = checkNickname(nickname, siblings);
  if ('error' in checked) return refuse(new InvalidNameError(checked.error));
  const { name } = checked;
  const result: Effect = { type: 'result', value: { name } };
  if (name === link.name) return { records: NO_RECORDS, effects: [result] };
  return {
    records: [{ type: 'childNamed', child, name }],
    effects: [{ type: 'sendToChild', child, input: { type: 'nicknamed', name } }, result],
  };
}

/** Records the child's new name, in the same batch, with the part of its prompt that states the name. */
export function decideNamed(name: string): Decision {
  return { records: [{ type: 'named', name, prompt: childPrompt(name) }], effects: [] };
}

/**
 * Handles the end of a child's naming, with or without success. The call that spawned the child gets its result, which
 * contains the child's name.
 */
export function decideChildReady(state: SessionState, child: string): Decision {
  const link = state.children.get(child);
  const answer = link === undefined ? undefined : spawnAnswer(state, link);
  return answer === undefined ? NOTHING : { records: NO_RECORDS, effects: [answer] };
}

/** The result of the spawn call of a child that ended before it was named; empty if no call waits for that result. */
export function answerForEnded(state: SessionState, link: ChildLink): readonly Effect[] {
  const answer = spawnAnswer(state, link);
  return answer === undefined ? NO_RECORDS : [answer];
}

/** The result of the call that spawned a child; undefined if no open call spawned it. */
export function spawnAnswer(state: SessionState, link: ChildLink): Effect | undefined {
  const { spawnCallId: callId, name, id } = link;
  if (callId === undefined || !state.openCalls.has(callId)) return undefined;
  const content = spawnConfirmation(link.specialist === true ? 'Specialist' : 'Sub-agent', name, id, link.queued);
  return { type: 'again', input: { type: 'toolFinished', callId, content, success: true } };
}

/** The child that a call has already spawned. */
export function childOfCall(state: SessionState, callId: string): ChildLink | undefined {
  for (const link of state.children.values()) if (link.spawnCallId === callId) return link;
  return undefined;
}
