/** Melete: prepares the turn of a user's message (contract §8). A task for the muse loop; everything it does is an input. */

import { MELETE_LINE_CHARACTERS_MAX, MELETE_PENDING_MAX } from '../src/base/bounds.ts';
import { cutText } from '../src/base/json.ts';
import { transcript } from '../src/events/transcript.ts';
import { activeDefinitions } from '../src/session/activation.ts';
import { goalsOf } from '../src/session/goals.ts';
import { meleteSystem, meleteText } from './melete-prompt.ts';
import { meleteTools } from './melete-tools.ts';
import type { MuseTask } from './muse-loop.ts';
import { askHost } from './muse-sources.ts';
import type { MuseStage } from './muses.ts';

const SECOND_MS = 1_000;

/** The preparation of a session's next turn. Rejects where the host cannot be asked what there is to choose from. */
export async function meleteTask(stage: MuseStage): Promise<MuseTask> {
  const { settings, actor, agent } = stage;
  const definitions = await askHost(stage.lookUp, { about: 'definitions' });
  const model = agent.facts.enrichers?.melete?.model;
  if (model === undefined) throw new Error('a preparation without an enricher');
  const { maxTokens, messageWindow, timeout } = settings.melete;
  const { state } = actor;
  const waiting = state.mailbox.slice(0, MELETE_PENDING_MAX);
  const lines = transcript(state.messages.slice(-messageWindow), waiting, 'melete');
  return {
    session: actor.id,
    muse: 'melete',
    model,
    maxTokens,
    system: meleteSystem({
      name: state.name,
      ...(state.active ?? activeDefinitions(state)),
      definitions,
      goals: goalsOf(state),
    }),
    text: meleteText(lines.map((line) => cutText(line, MELETE_LINE_CHARACTERS_MAX))),
    tools: meleteTools(stage),
    timeoutMs: timeout * SECOND_MS,
  };
}
