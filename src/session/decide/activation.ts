/**
 * Activates a skill or a workflow (a definition) of a session (contract §6.3, §8). `rules/activation.ts` says when a
 * definition is active. Pure.
 */

import { ConfigError, LimitError, type TroupeError } from '../../base/errors.ts';
import { activeDefinitions, SKILL_CALL, WORKFLOW_CALL } from '../rules/activation.ts';
import { mailboxRefusal } from '../rules/mailbox.ts';
import { type Decision, refuse } from '../state/decision.ts';
import type { Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/**
 * Puts the text of a definition into the mailbox, unless the definition is active. The result says whether the text was
 * added.
 */
export function decideActivation(
  state: SessionState,
  input: Extract<Input, { type: 'activate' }>,
  environment: Environment,
): Decision {
  const { kind, name, content } = input;
  if (kind === 'workflow' && state.parent !== undefined) {
    return refuse(new ConfigError('Workflows are for main sessions; a sub-agent has skills only'));
  }
  const active = state.active ?? activeDefinitions(state);
  const isActive = kind === 'skill' ? active.skills.includes(name) : active.workflow === name;
  if (isActive) return { records: [], effects: [{ type: 'result', value: { activated: false } }] };
  const refusal = refusalOf(state, content, environment);
  if (refusal !== undefined) return refuse(refusal);
  const record: SessionRecord = {
    type: 'accepted',
    id: state.nextPendingId,
    entry: { type: kind === 'skill' ? SKILL_CALL : WORKFLOW_CALL, content, source: { type: kind, name } },
  };
  return { records: [record], effects: [{ type: 'result', value: { activated: true } }] };
}

function refusalOf(state: SessionState, content: string, environment: Environment): TroupeError | undefined {
  const { limits } = environment;
  const bytes = Buffer.byteLength(content);
  if (bytes <= limits.messageBytes) return mailboxRefusal(state, bytes, environment);
  return new LimitError(`a definition of ${bytes} bytes is over limits.messageBytes (${limits.messageBytes})`, {
    data: { limit: 'messageBytes', value: bytes },
  });
}
