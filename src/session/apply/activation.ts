/**
 * Events about active skills and workflows. Which definitions are active follows from the window and the mailbox; no
 * record states it.
 */
import { activeDefinitions, sameSkills } from '../rules/activation.ts';
import type { Fold } from './fold.ts';

/** Publishes skills and workflow if they differ from those published last. */
export function publishActive(fold: Fold): void {
  const { state } = fold;
  const before = state.active;
  const active = activeDefinitions(state);
  const { skills, workflow } = active;
  state.active = skills.length === 0 && workflow === null ? undefined : active;
  if (!sameSkills(before?.skills ?? [], skills) && fold.counts()) fold.publish({ type: 'skills.updated', skills });
  if ((before?.workflow ?? null) !== workflow && fold.counts()) fold.publish({ type: 'workflow.updated', workflow });
}
