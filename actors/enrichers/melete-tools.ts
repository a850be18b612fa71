/** The tools by which Melete prepares a turn (contract §11.5). Each change is one `Input` of the session's actor. */
import { z } from 'zod';
import { defined } from '../../src/base/defined.ts';
import { ConfigError, ContentError } from '../../src/base/errors.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import { type EnricherTool, enricherTool } from './enricher-loop.ts';
import { askHost } from './enricher-sources.ts';
import type { EnricherStage } from './enricher-stage.ts';

/** The part of the stage that a tool uses. */
export type ToolStage = Pick<EnricherStage, 'act' | 'lookUp'>;

/** The actor's answer to a change of a goal: the changed goal. */
const goalResult = z.object({ id: z.number(), description: z.string() });

/** The tools for a main session. */
export function meleteTools(stage: ToolStage): readonly EnricherTool[] {
  return [
    renameSession(stage),
    activateSkill(stage),
    readWorkflow(stage),
    setGoal(stage),
    updateGoal(stage),
    finishGoal(stage),
    EVERYTHING_IS_READY,
  ];
}

/** The tool with which Melete says that everything is prepared. */
export const EVERYTHING_IS_READY: EnricherTool = enricherTool({
  name: 'everything_is_ready',
  description: 'Say that everything is prepared. The last thing you do.',
  input: z.object({}),
  run: () => 'The turn begins.',
});

function renameSession({ act }: ToolStage): EnricherTool {
  return enricherTool({
    name: 'rename_session',
    description: 'Give the session a name: an emoji and one to three words.',
    input: z.object({ emoji: z.string().describe('One emoji'), name: z.string().describe('One to three words') }),
    run: async ({ emoji, name }) => {
      if (emoji.trim() === '') throw new ContentError('Emoji cannot be blank');
      if (name.trim() === '') throw new ContentError('Name cannot be blank');
      const full = `${emoji.trim()} ${name.trim()}`;
      await act({ type: 'rename', name: full });
      return `The session is named ${full}`;
    },
  });
}

/**
 * The tool that puts a skill into the session's mailbox, so that the session's model receives it with the next request.
 * A skill that is active already is not added again.
 */
export function activateSkill({ act, lookUp }: ToolStage): EnricherTool {
  return enricherTool({
    name: 'activate_skill',
    description: 'Put a skill before the model with its next call.',
    input: z.object({ skill_name: z.string().describe('The name as it is listed') }),
    run: async ({ skill_name }) => {
      const name = skill_name.trim();
      const skill = await askHost(lookUp, { about: 'skill', name });
      if (skill === null) throw new ConfigError(`Unknown skill: ${name}`);
      await act({ type: 'activate', kind: 'skill', name: skill.name, content: skill.content });
      return activeText(skill, 'Active');
    },
  });
}

function readWorkflow({ act, lookUp }: ToolStage): EnricherTool {
  return enricherTool({
    name: 'read_workflow',
    description: 'Make a workflow the active one, and read it.',
    input: z.object({ workflow_name: z.string().describe('The name as it is listed') }),
    run: async ({ workflow_name }) => {
      const name = workflow_name.trim();
      const workflow = await askHost(lookUp, { about: 'workflow', name });
      if (workflow === null) throw new ConfigError(`Unknown workflow: ${name}`);
      await act({ type: 'activate', kind: 'workflow', name: workflow.name, content: workflow.content });
      return `${activeText(workflow, 'Active workflow')}\n\n${workflow.content}`;
    },
  });
}

function activeText({ name, description }: Definition, what: string): string {
  return `${what}: ${name} (${description})`;
}

function setGoal({ act }: ToolStage): EnricherTool {
  return enricherTool({
    name: 'set_goal',
    description: 'Add a goal, or a part of one: goals have two levels.',
    input: z.object({
      description: z.string().describe('What is to be reached'),
      parent_goal_id: z.number().int().nullish().describe('The goal it is a part of'),
    }),
    run: async ({ description, parent_goal_id }) => {
      const parent = parent_goal_id ?? undefined;
      const result = goalResult.parse(
        await act({
          type: 'goal',
          change: { action: 'create', description, ...defined({ parentId: parent }) },
        }),
      );
      return `${parent === undefined ? 'Goal' : 'Sub-goal'} created: ${result.description} (id: ${result.id})`;
    },
  });
}

function updateGoal({ act }: ToolStage): EnricherTool {
  return enricherTool({
    name: 'update_goal',
    description: 'Reword an open goal.',
    input: z.object({ goal_id: z.number().int(), description: z.string().describe('What is to be reached') }),
    run: async ({ goal_id, description }) => {
      const result = goalResult.parse(
        await act({ type: 'goal', change: { action: 'update', id: goal_id, description } }),
      );
      return `Goal updated: ${result.description} (id: ${result.id})`;
    },
  });
}

function finishGoal({ act }: ToolStage): EnricherTool {
  return enricherTool({
    name: 'finish_goal',
    description: 'Mark an open goal as reached, with all its parts.',
    input: z.object({ goal_id: z.number().int() }),
    run: async ({ goal_id }) => {
      const result = goalResult.parse(await act({ type: 'goal', change: { action: 'complete', id: goal_id } }));
      return `Goal completed: ${result.description} (id: ${result.id})`;
    },
  });
}
