/**
 * Sections that the system prompt of a session with enrichers has besides the embedder's own text (contract §9). They
 * describe how deliveries work, the available tools, and their use. They are the same for every session of an agent, so
 * they are byte-stable. Pure.
 */

/** A tool as these sections list it. */
interface ToolLine {
  readonly name: string;
  /** One line that says what the tool is for; a tool without this line is not listed. */
  readonly snippet?: string;
  /** Rules for the use of the tool, one sentence each. */
  readonly guidelines?: readonly string[];
}

/** The sections, or undefined if no enricher is on. */
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
