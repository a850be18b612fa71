/**
 * Melete's prompts: its identity, its tools, the state of its session, and the messages that it prepares for. Texts
 * only.
 */
import type { Goal } from '../../src/base/goals.ts';
import type { DefinitionLine, DefinitionList } from './enricher-sources.ts';

/** The state of a session when its turn is prepared. */
export interface MeleteView {
  readonly name: string | undefined;
  readonly skills: readonly string[];
  readonly workflow: string | null;
  readonly definitions: DefinitionList;
  /** All goals; completed root goals are not shown. */
  readonly goals: readonly Goal[];
}

/** The rule for every enricher: only its tool calls have an effect. */
export const ACTS_BY_TOOLS = 'You act through your tools alone: nothing you write is read by anybody.';

const IDENTITY = [
  'You are Melete. You prepare the ground for another model, which talks with the user and does the work.',
  ACTS_BY_TOOLS,
].join(' ');

const NAMING = section('Naming the session', [
  'Call rename_session when the session has no name, or when its subject has changed. A name is one emoji, then one to three words.',
]);

const SKILLS = section('Skills', [
  'A skill is a page of knowledge. Call activate_skill for each one that the next answer needs and that is not active yet. It is better to activate no skill than one that does not fit.',
]);

const WORKFLOWS = section('Workflows', [
  'A workflow is a way of working in steps. When a workflow describes what the user asks for, call read_workflow. The workflow becomes active, and you read it to make goals of its steps.',
]);

const GOALS = section('Goals', [
  'Goals say what the user wants to reach. Call set_goal for something new that takes more than an answer, with sub-goals for its parts; update_goal when a goal has come to mean something else; finish_goal when the conversation shows that it is reached. Leave small talk and single questions without goals.',
]);

const COMPLETION = section('When you are done', [
  'Do only what is needed, most often nothing. Then call everything_is_ready once, and say no more.',
]);

/** The system prompt for a main session. */
export function meleteSystem(view: MeleteView): string {
  return [
    IDENTITY,
    NAMING,
    SKILLS,
    WORKFLOWS,
    GOALS,
    COMPLETION,
    stateOf(view),
    ...offered(view),
    ...goalsOf(view.goals),
  ].join('\n\n');
}

/** The text of the only message: recent messages and waiting entries, fenced. */
export function meleteText(lines: readonly string[]): string {
  return [
    'Aoide, the model that talks with the user, is about to work on this:',
    fenced(lines),
    'Prepare what it will need, then call everything_is_ready.',
  ].join('\n\n');
}

/** Puts lines between fences. No line can contain the closing fence. */
export function fenced(lines: readonly string[]): string {
  const text = lines.join('\n');
  let fence = '```';
  while (text.includes(fence)) fence += '`';
  return `${fence}\n${text}\n${fence}`;
}

function stateOf({ name, skills, workflow }: MeleteView): string {
  return section('The session now', [
    `Name: ${name ?? '(unnamed)'}`,
    skillsLine(skills),
    `Active workflow: ${workflow ?? 'None'}`,
  ]);
}

function offered({ definitions, skills, workflow }: MeleteView): readonly string[] {
  const isNew = ({ name }: DefinitionLine): boolean => !skills.includes(name);
  return [
    section('Available skills', listed(definitions.skills.filter(isNew))),
    section('Available workflows', listed(definitions.workflows.filter(({ name }) => name !== workflow))),
  ];
}

/** The line that names the active skills. */
export function skillsLine(skills: readonly string[]): string {
  return `Active skills: ${skills.length === 0 ? 'None' : skills.join(', ')}`;
}

/** Definitions, one per line. */
export function listed(definitions: readonly DefinitionLine[]): readonly string[] {
  return definitions.length === 0 ? ['None'] : definitions.map(({ name, description }) => `- ${name}: ${description}`);
}

function goalsOf(goals: readonly Goal[]): readonly string[] {
  const lines = goalLines(goals);
  return lines.length === 0 ? [] : [section('Goals that are open', lines)];
}

/** Open goals with their ids, and their parts with a mark for each that is done. */
export function goalLines(goals: readonly Goal[]): readonly string[] {
  return goals
    .filter((goal) => goal.status === 'active')
    .flatMap((goal) => [
      `- ${goal.description} (id: ${goal.id})`,
      ...goal.subGoals.map(
        (part) => `  - [${part.status === 'completed' ? 'x' : ' '}] ${part.description} (id: ${part.id})`,
      ),
    ]);
}

/** A section with its heading. */
export function section(heading: string, lines: readonly string[]): string {
  return [`## ${heading}`, ...lines].join('\n');
}
