/** Texts that introduce a child and its parent to each other (contract §7.3, §7.4). Pure. */

import type { AnswerIssue } from '../state/answer-form.ts';
import type { AskedOfModel } from '../state/inputs.ts';

/**
 * The text added to the system prompt of a child's agent: who the child is, and how it communicates. The name has no
 * `@`.
 */
export function childPrompt(name: string): string {
  return [
    `You are ${name}, a sub-agent of the primary agent.`,
    'Everything you write reaches the primary agent by itself; you need no tool for it. If the task is unclear, ask: the primary agent can answer you.',
  ].join('\n\n');
}

/** The message that makes a cancelled or failed child continue its task. */
export const CONTINUE_TASK = 'Please continue.';

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
 * The result of a spawn call. `isQueued`: the child waits until another child has finished. The text has no `@name`,
 * because a model that repeated it would address the child (§7.3).
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

/**
 * A child's question, for its parent's model. The text has no `@name`, for the reason given at `spawnConfirmation`.
 * `issues`: why the parent's last answer does not fit.
 */
export function parentQuestion(
  name: string,
  { question, choices, form }: AskedOfModel,
  issues?: readonly AnswerIssue[],
): string {
  const lines = [`[question from ${name}] ${question}`];
  if (issues !== undefined) {
    lines.push('Your answer does not fit its schema:', ...issues.map(({ path, message }) => `${path}: ${message}`));
  }
  if (choices !== undefined) lines.push(`Possible answers: ${choices.join('; ')}`);
  if (form !== undefined) lines.push(`The answer is a JSON object of this schema: ${JSON.stringify(form.schema)}`);
  lines.push(`${name} waits for your answer: write its name with an @ in front, and the answer.`);
  return lines.join('\n');
}
