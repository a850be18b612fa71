/** Mneme's prompts for recalling earlier conversations (contract §6.9). Texts only. */
import type { Goal } from '../../src/base/goals.ts';
import { ACTS_BY_TOOLS, goalLines, section } from './melete-prompt.ts';

const IDENTITY = [
  'You are Mneme. You remember for another model, which talks with the user and does the work.',
  ACTS_BY_TOOLS,
].join(' ');

const TASK = section('What to do', [
  'Search earlier conversations for what helps to reach the open goals: decisions, preferences, facts, mistakes made before. Look at a message with view_messages before you rely on it.',
  'Call surface_memory for each message the other model should see, few and to the point. Call nothing_to_surface when there is none. Then say no more.',
]);

/** The system prompt. `surfaced`: ids of the memories the other model sees already. */
export function recallSystem(goals: readonly Goal[], surfaced: readonly string[]): string {
  const seen =
    surfaced.length === 0
      ? []
      : [
          section(
            'Surfaced already',
            surfaced.map((id) => `- message ${id}`),
          ),
        ];
  return [IDENTITY, TASK, section('Goals that are open', linesOf(goals)), ...seen].join('\n\n');
}

/** The one message. */
export function recallText(goals: readonly Goal[]): string {
  const open = goalLines(goals);
  if (open.length === 0) return 'No goal is open. Surface what helps with what is being talked about, or nothing.';
  return ['Look for what helps to reach these goals:', ...open].join('\n');
}

function linesOf(goals: readonly Goal[]): readonly string[] {
  const open = goalLines(goals);
  return open.length === 0 ? ['None'] : open;
}
