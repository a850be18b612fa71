/**
 * Skills and workflows (definitions) of a session (contract §6.3, §8). No flag stores whether a definition is active.
 * A definition is active while its text is in the window or waits in the mailbox. Pure.
 */

import type { ActiveDefinitions, SessionState } from '../state/state.ts';

/** The active definitions of a session: skills of the window before waiting skills, and the latest workflow. */
export function activeDefinitions(state: SessionState): ActiveDefinitions {
  const skills = new Set<string>();
  let workflow: string | null = null;
  for (const message of state.messages) {
    if (message.phantom !== true || message.type !== 'tool_call') continue;
    const name = message.source?.name ?? '';
    if (message.toolName === SKILL_CALL) skills.add(name);
    else if (message.toolName === WORKFLOW_CALL) workflow = name;
  }
  for (const entry of state.mailbox) {
    const name = entry.source.name ?? '';
    if (entry.type === SKILL_CALL) skills.add(name);
    else if (entry.type === WORKFLOW_CALL) workflow = name;
  }
  return { skills: [...skills], workflow };
}

/** True when both lists have the same names in the same order. */
export function sameSkills(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, index) => name === b[index]);
}

export const SKILL_CALL = 'from_melete_skill';

export const WORKFLOW_CALL = 'from_melete_workflow';
