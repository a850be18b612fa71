/** What the fold tells of skills and workflows: they change with the window and the mailbox, by no record of their own. */
import { activeDefinitions, sameSkills } from '../rules/activation.ts';
import type { Fold } from './fold.ts';

/** Tells skills and workflow where they are others than those told last. */
export function tellActive(fold: Fold): void {
  const { state } = fold;
  const before = state.active;
  const active = activeDefinitions(state);
  const { skills, workflow } = active;
  state.active = skills.length === 0 && workflow === null ? undefined : active;
  if (!sameSkills(before?.skills ?? [], skills) && fold.counts()) fold.tell({ type: 'skills.updated', skills });
  if ((before?.workflow ?? null) !== workflow && fold.counts()) fold.tell({ type: 'workflow.updated', workflow });
}
