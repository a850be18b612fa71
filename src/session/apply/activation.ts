/**
 * Publishes events about active skills and workflows. The active ones are derived from the window and the mailbox; no
 * record lists them.
 */
import { activeDefinitions, sameSkills } from '../rules/activation.ts';
import type { Fold } from './fold.ts';

/** Publishes the active skills and the workflow, each only if it differs from the last event. */
export function publishActive(fold: Fold): void {
  const { state } = fold;
  const before = state.active;
  const active = activeDefinitions(state);
  const { skills, workflow } = active;
  state.active = skills.length === 0 && workflow === null ? undefined : active;
  if (!sameSkills(before?.skills ?? [], skills) && fold.counts()) fold.publish({ type: 'skills.updated', skills });
  if ((before?.workflow ?? null) !== workflow && fold.counts()) fold.publish({ type: 'workflow.updated', workflow });
}
