/**
 * The run of the enricher Melete before a sub-agent's first half-step: it names the sub-agent and activates skills
 * (contract §7.3).
 */
import { z } from 'zod';
import { ContentError } from '../../src/base/errors.ts';
import { NICKNAME_CHARACTERS_MAX } from '../../src/base/ids.ts';
import { transcript } from '../../src/events/transcript.ts';
import { activeDefinitions } from '../../src/session/rules/activation.ts';
import { type EnricherTask, type EnricherTool, enricherTool } from './enricher-loop.ts';
import { askHost } from './enricher-sources.ts';
import type { EnricherStage } from './enricher-stage.ts';
import { activateSkill, EVERYTHING_IS_READY } from './melete-tools.ts';
import { namerSystem, namerText } from './namer-prompt.ts';

const SECOND_MS = 1_000;

/**
 * The task that names a sub-agent. `siblings`: names that are taken. Rejects if the host cannot be asked, or if the
 * agent has no model for naming.
 */
export async function namerTask(stage: EnricherStage, siblings: readonly string[]): Promise<EnricherTask> {
  const { settings, actor, agent } = stage;
  const { skills: offered } = await askHost(stage.lookUp, { about: 'definitions' });
  const model = agent.facts.enrichers?.namer?.model;
  if (model === undefined) throw new Error('the agent has no enricher that names sub-agents');
  const { state } = actor;
  const { maxTokens, messageWindow, timeout } = settings.melete;
  const { skills } = state.active ?? activeDefinitions(state);
  return {
    session: actor.id,
    enricher: 'melete',
    model,
    maxTokens,
    system: namerSystem({ siblings, skills, offered }),
    text: namerText(transcript(state.messages.slice(-messageWindow), [], 'melete')),
    tools: [assignNickname(stage), activateSkill(stage), EVERYTHING_IS_READY],
    timeoutMs: timeout * SECOND_MS,
  };
}

function assignNickname({ act }: EnricherStage): EnricherTool {
  return enricherTool({
    name: 'assign_nickname',
    description: `Name the sub-agent: lower-case words joined by hyphens, at most ${NICKNAME_CHARACTERS_MAX} characters, one that no sibling has.`,
    input: z.object({ nickname: z.string().describe('For instance proof-reader') }),
    run: async ({ nickname }) => {
      if (nickname.trim() === '') throw new ContentError('Nickname cannot be blank');
      const { name } = z.object({ name: z.string() }).parse(await act({ type: 'nickname', nickname }));
      return `The sub-agent is called ${name}`;
    },
  });
}
