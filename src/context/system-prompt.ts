/** The system prompt of a session (contract §7.4, §9): byte-stable within an epoch. Pure. */
import { textOf } from '../base/messages.ts';
import { taskSection } from '../session/rules/child-texts.ts';
import type { SessionState } from '../session/state/state.ts';

/**
 * The sections of the system prompt joined by blank lines, or `undefined` if there are none. They are, in this order:
 * - the agent's own text, or its function's text of this epoch;
 * - the sections for its enrichers (`guide`);
 * - a child's identity, and its task while that is open;
 * - the memory of messages that left the window.
 */
export function systemPrompt(state: SessionState, agentSystem: string | undefined, guide?: string): string | undefined {
  const sections: string[] = [];
  if (state.promptCount > 0) {
    // The first system message of the history replaces the agent's own text; further system messages follow the first.
    for (const message of state.messages) {
      const text = message.prompt === true ? textOf(message.content) : '';
      if (text.trim() !== '') sections.push(text);
    }
  } else {
    const own = agentSystem ?? state.system?.text;
    if (own !== undefined && own.trim() !== '') sections.push(own);
  }
  if (guide !== undefined) sections.push(guide);
  if (state.prompt !== undefined) sections.push(state.prompt);
  if (state.goal !== undefined && !state.goal.completed) sections.push(taskSection(state.goal.description));
  if (state.memory?.shown !== undefined) sections.push(state.memory.shown);
  return sections.length === 0 ? undefined : sections.join('\n\n');
}
