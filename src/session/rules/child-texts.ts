/** Texts that introduce a child and its parent to each other (contract §7.3, §7.4). Pure. */

/** Identity and communication of a child, added to its agent's system prompt. The name has no `@`. */
export function childPrompt(name: string): string {
  return [
    `You are ${name}, a sub-agent of the primary agent.`,
    'Everything you write reaches the primary agent by itself; you need no tool for it. If the task is unclear, ask: the primary agent can answer you.',
  ].join('\n\n');
}

/** The section that names the task while it is open. */
export function taskSection(description: string): string {
  return [
    'Your Task',
    '=========',
    description,
    '',
    'When the task is done, call mark_goal_completed with the result.',
  ].join('\n');
}

/**
 * The result of a spawn call. `isQueued`: the child waits until another one has finished. It contains no `@name`: if the model repeated it, it would be routed to the child (§7.3).
 */
export function spawnConfirmation(
  kind: 'Sub-agent' | 'Specialist',
  name: string,
  id: string,
  isQueued = false,
): string {
  const start = isQueued ? ' It starts when one of the others has finished.' : '';
  return `${kind} ${name} spawned (session ${id}).${start} Its messages will appear here by themselves; do not wait or poll. To address it, write its name with an @ in front.`;
}
