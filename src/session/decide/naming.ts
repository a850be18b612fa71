/**
 * The naming of a sub-agent that was spawned without a name (contract §7.3, §7.5), before its first half-step. Melete
 * chooses a name, and the parent allows it, as only the parent knows the siblings. If anything fails, the child keeps
 * the `agent-N` from its birth. Pure.
 */
import { ConfigError, InvalidNameError } from '../../base/errors.ts';
import { checkNickname } from '../../base/ids.ts';
import { childPrompt, spawnConfirmation } from '../rules/child-texts.ts';
import type { ChildLink } from '../state/child-link.ts';
import { type Decision, NO_RECORDS, NOTHING, refuse } from '../state/decision.ts';
import type { Effect, Input } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';

/** Handles a nickname chosen for this child: the parent is asked in the same batch whether it allows the name. */
export function decideNickname(state: SessionState, nickname: string): Decision {
  if (state.enrichment?.stage !== 'naming') return refuse(new ConfigError('A sub-agent is named once, as it begins'));
  return {
    records: NO_RECORDS,
    effects: [{ type: 'sendToParent', input: { type: 'nameChild', child: state.id, nickname } }],
  };
}

/**
 * The parent's side: the name must be unique among the siblings. If it equals the child's current name, nothing
 * changes.
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

/** The child's side, in the same batch: its name, and the line of its prompt that gives its identity. */
export function decideNamed(name: string): Decision {
  return { records: [{ type: 'named', name, prompt: childPrompt(name) }], effects: [] };
}

/** A child's naming has ended, no matter how: the call that spawned it is answered now, with its name. */
export function decideChildReady(state: SessionState, child: string): Decision {
  const link = state.children.get(child);
  const answer = link === undefined ? undefined : spawnAnswer(state, link);
  return answer === undefined ? NOTHING : { records: NO_RECORDS, effects: [answer] };
}

/** A child ended before it was named: the call that spawned it is answered nevertheless. */
export function answerForEnded(state: SessionState, link: ChildLink): readonly Effect[] {
  const answer = spawnAnswer(state, link);
  return answer === undefined ? NO_RECORDS : [answer];
}

/** The result of the call that spawned a child, if that call waits for one. */
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
