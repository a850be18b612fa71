/** Melete's prompts for a new sub-agent. Texts only. */

import type { DefinitionLine } from './enricher-sources.ts';
import { ACTS_BY_TOOLS, fenced, listed, section, skillsLine } from './melete-prompt.ts';

/** The state of a sub-agent before its first half-step. */
export interface NamerView {
  /** Names that are taken. */
  readonly siblings: readonly string[];
  readonly skills: readonly string[];
  readonly offered: readonly DefinitionLine[];
}

const IDENTITY = [
  'You are Melete. You prepare sub-agents: models that were given a task by another model and work on it by themselves.',
  ACTS_BY_TOOLS,
].join(' ');

const NAMING = section('Naming the sub-agent', [
  'Call assign_nickname once, with a short name that says what the sub-agent does. If it is taken, choose another one.',
]);

const SKILLS = section('Skills', [
  'A skill is a page of knowledge. Call activate_skill for each one the task needs. It is better to activate no skill than one that does not fit.',
]);

const COMPLETION = section('When you are done', ['Call everything_is_ready once, and say no more.']);

/** The system prompt for a sub-agent. */
export function namerSystem({ siblings, skills, offered }: NamerView): string {
  const free = offered.filter(({ name }) => !skills.includes(name));
  return [
    IDENTITY,
    NAMING,
    SKILLS,
    COMPLETION,
    section('The sub-agent now', [skillsLine(skills)]),
    ...(siblings.length === 0
      ? []
      : [
          section(
            'Names that are taken',
            siblings.map((name) => `- ${name}`),
          ),
        ]),
    section('Available skills', listed(free)),
  ].join('\n\n');
}

/** The only user message of the request. */
export function namerText(lines: readonly string[]): string {
  return [
    'A sub-agent was spawned with this task:',
    fenced(lines),
    'Give it a nickname, activate the skills it needs, then call everything_is_ready.',
  ].join('\n\n');
}
