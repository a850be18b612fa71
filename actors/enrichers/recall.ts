/** Mneme's recall before a turn whose goals changed (contract §6.9): its prompts, and a task for the `EnricherLoop`. */
import { z } from 'zod';
import { BYTES_PER_TOKEN } from '../../src/base/bounds.ts';
import { ConfigError, ContentError } from '../../src/base/errors.ts';
import type { Goal } from '../../src/base/goals.ts';
import { cutText } from '../../src/base/json.ts';
import { surfacedIds } from '../../src/session/decide/enricher-tools.ts';
import { goalsOf } from '../../src/session/rules/goals.ts';
import { type EnricherTask, type EnricherTool, enricherTool } from './enricher-loop.ts';
import { askHost } from './enricher-sources.ts';
import type { EnricherStage } from './enricher-stage.ts';
import { ACTS_BY_TOOLS, goalLines, section } from './melete-prompt.ts';

const SECOND_MS = 1_000;

/** The task that recalls messages for a session's goals. */
export async function recallTask(stage: EnricherStage): Promise<EnricherTask> {
  const { settings, actor, agent } = stage;
  const model = agent.facts.enrichers?.mneme?.model;
  if (model === undefined) throw new Error('a recall without an enricher');
  const goals = goalsOf(actor.state);
  return {
    session: actor.id,
    enricher: 'recall',
    model,
    maxTokens: settings.mneme.maxTokens,
    system: recallSystem(goals, surfacedIds(actor.state)),
    text: recallText(goals),
    tools: [searchMessages(stage), viewMessages(stage), surfaceMemory(stage), NOTHING_TO_SURFACE],
    timeoutMs: settings.melete.timeout * SECOND_MS,
  };
}

const NOTHING_TO_SURFACE: EnricherTool = enricherTool({
  name: 'nothing_to_surface',
  description: 'Say that nothing said before is worth bringing back.',
  input: z.object({}),
  run: () => 'Nothing is surfaced.',
});

function searchMessages({ lookUp, actor }: EnricherStage): EnricherTool {
  return enricherTool({
    name: 'search_messages',
    description:
      'Search what was said in earlier conversations. Words are found in any form; "quoted words" are found in a row; AND, OR, NOT and NEAR join.',
    input: z.object({ query: z.string().describe('Words to look for') }),
    run: async ({ query }) => {
      if (query.trim() === '') throw new ContentError('Query cannot be blank');
      return askHost(lookUp, { about: 'search', query, session: actor.id });
    },
  });
}

function viewMessages({ lookUp, actor }: EnricherStage): EnricherTool {
  return enricherTool({
    name: 'view_messages',
    description: 'Show a message found by search_messages with those before and after it.',
    input: z.object({ message_id: z.string().describe('The id, as search_messages gives it: <session>#<number>') }),
    run: ({ message_id }) => askHost(lookUp, { about: 'view', id: message_id, session: actor.id }),
  });
}

function surfaceMemory({ lookUp, act, actor, settings }: EnricherStage): EnricherTool {
  return enricherTool({
    name: 'surface_memory',
    description: 'Put a message of an earlier conversation before the model with its next call.',
    input: z.object({
      message_id: z.string().describe('The id: <session>#<number>'),
      why: z.string().describe('What it is good for, in a sentence'),
    }),
    run: async ({ message_id, why }) => {
      if (why.trim() === '') throw new ContentError('Why cannot be blank');
      const found = await askHost(lookUp, { about: 'message', id: message_id, session: actor.id });
      if (found === null) throw new ConfigError(`Message not found: ${message_id.trim()}`);
      const { id, title, text } = found;
      const snippet = cutText(text, settings.recall.maxSnippetTokens * BYTES_PER_TOKEN);
      await act({ type: 'surface', id, content: `message ${id} (${title}): ${snippet}` });
      return `Message ${id} is surfaced.`;
    },
  });
}

const IDENTITY = [
  'You are Mneme. You remember for another model, which talks with the user and does the work.',
  ACTS_BY_TOOLS,
].join(' ');

const TASK = section('What to do', [
  'Search earlier conversations for what helps to reach the open goals: decisions, preferences, facts, mistakes made before. Look at a message with view_messages before you rely on it.',
  'Call surface_memory for each message the other model should see, few and to the point. Call nothing_to_surface when there is none. Then say no more.',
]);

/** The system prompt. `surfaced`: ids of the memories the other model sees already. */
function recallSystem(goals: readonly Goal[], surfaced: readonly string[]): string {
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

/** The text of the only message. */
function recallText(goals: readonly Goal[]): string {
  const open = goalLines(goals);
  if (open.length === 0) return 'No goal is open. Surface what helps with what is being talked about, or nothing.';
  return ['Look for what helps to reach these goals:', ...open].join('\n');
}

function linesOf(goals: readonly Goal[]): readonly string[] {
  const open = goalLines(goals);
  return open.length === 0 ? ['None'] : open;
}
