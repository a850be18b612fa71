/** The system prompt of a session (contract §7.4, §9): byte-stable within an epoch. Pure. */
import { textOf } from '../base/messages.ts';
import { taskSection } from '../session/rules/child-texts.ts';
import type { SessionState } from '../session/state/state.ts';

const BETWEEN_SECTIONS = '\n\n';

/**
 * The sections of the system prompt joined by blank lines, or `undefined` if there are none. They are, in this order:
 * - the agent's own text, or the text of its function in this epoch, or the system messages of the history;
 * - the sections for its enrichers (`guide`);
 * - a child's identity, and its task while the task is open;
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
  return sections.length === 0 ? undefined : sections.join(BETWEEN_SECTIONS);
}

/**
 * The length, in UTF-16 units, of the part at the beginning of the system prompt that all sessions of an agent share:
 * the agent's own text and the sections for its enrichers. 0 if the session replaced the agent's own text, or if a
 * function makes that text.
 */
export function sharedPromptLength(state: SessionState, agentSystem: string | undefined, guide?: string): number {
  if (state.promptCount > 0 || agentSystem === undefined || agentSystem.trim() === '') return 0;
  const guideLength = guide === undefined ? 0 : guide.length + BETWEEN_SECTIONS.length;
  return agentSystem.length + BETWEEN_SECTIONS.length + guideLength;
}

/** A tool, as the sections for enrichers list it. */
interface ToolLine {
  readonly name: string;
  /** One line that says what the tool is for; a tool without this line is not listed. */
  readonly snippet?: string;
  /** Rules for the use of the tool, one sentence each. */
  readonly guidelines?: readonly string[];
}

/**
 * The sections that a session with enrichers has besides the embedder's own text (contract §9); undefined if no
 * enricher is on. The sections describe how entries of enrichers and sub-agents arrive, which tools there are, and how
 * to use the tools. The sections are the same for every session of an agent, so they are byte-stable.
 */
export function enricherSections(options: {
  readonly melete: boolean;
  readonly mneme: boolean;
  readonly tools: readonly ToolLine[];
}): string | undefined {
  const { melete, mneme, tools } = options;
  if (!melete && !mneme) return undefined;
  const listed = tools.flatMap(({ name, snippet }) => (snippet === undefined ? [] : [`- ${name}: ${snippet}`]));
  const rules = [...new Set(tools.flatMap(({ guidelines = [] }) => guidelines))].map((rule) => `- ${rule}`);
  return [
    sisters(melete, mneme),
    ...(listed.length === 0 ? [] : [['## Available Tools', ...listed].join('\n')]),
    ...(rules.length === 0 ? [] : [['## Tool Guidelines', ...rules].join('\n')]),
  ].join('\n\n');
}

const MELETE =
  'Melete prepares your turns. What she lays out for you arrives as `from_melete_skill`, `from_melete_workflow` and `from_melete_goal`: skills and workflows to work by, and the goals of this conversation as they change.';
const MNEME =
  'Mneme remembers. When the conversation grows long, she sums up its oldest part, which you then find below as memory; what was said before and matters now arrives as `from_mneme`.';
const SUBAGENTS = 'Sub-agents, where you start some, answer as `from_<nickname>`.';
const DELIVERY =
  '**How delivery works:** these are results of calls you did not make. They are brought to you as soon as they are there; you cannot ask for them, and need not look for them. Never call a tool whose name begins with `from_`. When you wait for one, end your turn.';

function sisters(melete: boolean, mneme: boolean): string {
  return ['## Your Sisters', ...(melete ? [MELETE] : []), ...(mneme ? [MNEME] : []), SUBAGENTS, DELIVERY].join('\n\n');
}
