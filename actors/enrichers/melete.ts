/**
 * Melete: prepares the turn of a user's message (contract §8). It is a task for the `EnricherLoop`. Each of its actions
 * is an input of the session.
 */

import { MELETE_LINE_CHARACTERS_MAX, MELETE_PENDING_MAX } from '../../src/base/bounds.ts';
import { cutText } from '../../src/base/json.ts';
import { textOf } from '../../src/base/messages.ts';
import { transcript } from '../../src/events/transcript.ts';
import { activeDefinitions } from '../../src/session/rules/activation.ts';
import { goalsOf } from '../../src/session/rules/goals.ts';
import { contentOf, isStored, withContent } from '../../src/session/rules/waiting-content.ts';
import type { FilledEntry, MailboxEntry, ReadContent } from '../../src/session/state/messages.ts';
import type { EnricherTask } from './enricher-loop.ts';
import { askHost } from './enricher-sources.ts';
import type { EnricherStage } from './enricher-stage.ts';
import { meleteSystem, meleteText } from './melete-prompt.ts';
import { meleteTools } from './melete-tools.ts';

const SECOND_MS = 1_000;

/**
 * The parts of a waiting entry that Melete's line about the entry shows. A content that is read back from the log is
 * cut at once, so that only one whole content is in memory at a time.
 */
function shortEntry(entry: MailboxEntry, readContent: ReadContent): FilledEntry {
  if (!isStored(entry.content)) return withContent(entry, readContent);
  const text = cutText(textOf(contentOf(entry, readContent)), MELETE_LINE_CHARACTERS_MAX);
  // The text is copied, because a slice of a string keeps the whole string in memory.
  return { ...entry, content: Buffer.from(text).toString() };
}

/** The task that prepares a session's next turn. Rejects if the host cannot be asked for the definitions. */
export async function meleteTask(stage: EnricherStage): Promise<EnricherTask> {
  const { settings, actor, agent } = stage;
  const definitions = await askHost(stage.lookUp, { about: 'definitions' });
  const model = agent.facts.enrichers?.melete?.model;
  if (model === undefined) throw new Error('a preparation without an enricher');
  const { maxTokens, messageWindow, timeout } = settings.melete;
  const { state } = actor;
  const waiting = state.mailbox.slice(0, MELETE_PENDING_MAX).map((entry) => shortEntry(entry, stage.readContent));
  const lines = transcript(state.messages.slice(-messageWindow), waiting, 'melete');
  return {
    session: actor.id,
    enricher: 'melete',
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
