/**
 * The skills and workflows of every simulated runtime. They never change. The model also asks for names that do not
 * exist.
 */
import type { Definition, DefinitionSource } from '../../definitions/definition.ts';

const SKILLS = ['baking', 'frying', 'washing'].map(definition);
const WORKFLOWS = ['plan', 'build'].map(definition);

/** The names that the model asks for. */
export const SKILL_NAMES: readonly string[] = [...SKILLS.map(({ name }) => name), 'flying'];
export const WORKFLOW_NAMES: readonly string[] = [...WORKFLOWS.map(({ name }) => name), 'wait'];

/** The definitions given to a simulated runtime. */
export const SIMULATED_DEFINITIONS: DefinitionSource = {
  skill: (name) => SKILLS.find((each) => each.name === name),
  workflow: (name) => WORKFLOWS.find((each) => each.name === name),
  skills: () => SKILLS,
  workflows: () => WORKFLOWS,
};

function definition(name: string): Definition {
  return { name, description: `about ${name}`, content: `How to do with ${name}.` };
}
