/** The system prompt of a session (contract §7.4, §9): byte-stable within an epoch. Pure. */
import { textOf } from '../base/messages.ts';
import { taskSection } from '../session/child-texts.ts';
import type { SessionState } from '../session/state.ts';

/**
 * The sections of the system prompt joined by blank lines, or `undefined` when there are none: the agent's own text (its
 * function's text of this epoch where it is one), a child's identity, its task while that is open.
 */
export function systemPrompt(state: SessionState, agentSystem: string | undefined): string | undefined {
  const sections: string[] = [];
  if (state.promptCount > 0) {
    // A system message of the history takes the place of the agent's own text; further ones follow it.
    for (const message of state.messages) {
      const text = message.prompt === true ? textOf(message.content) : '';
      if (text.trim() !== '') sections.push(text);
    }
  } else {
    const own = agentSystem ?? state.system?.text;
    if (own !== undefined && own.trim() !== '') sections.push(own);
  }
  if (state.prompt !== undefined) sections.push(state.prompt);
  if (state.goal !== undefined && !state.goal.completed) sections.push(taskSection(state.goal.description));
  return sections.length === 0 ? undefined : sections.join('\n\n');
}
