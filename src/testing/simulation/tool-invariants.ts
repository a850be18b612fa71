/** The invariants of tool calls (I4, I14 and I18 of `invariants.ts`): how often, why and when a call started. */
import { rowOf } from '../../journal/rows/row-codec.ts';
import { type Ledger, sessionOfKey, type ToolStory } from './ledger.ts';
import type { SessionStory } from './session-story.ts';
import type { Stories } from './store-reading.ts';
import { ASKED_TOOLS } from './swarm.ts';

/**
 * Checks every call that a tool saw against the log of its session. `resultIn`: the incarnation after which the result
 * of a call was first found stored, by key. Violations go to the ledger.
 */
export function checkToolRuns(ledger: Ledger, stories: Stories, resultIn: ReadonlyMap<string, number>): void {
  for (const [key, call] of ledger.tools) {
    const { tool, effect, starts, effects } = call;
    const story = stories.get(sessionOfKey(key));
    // A `pure` call may run before the record that intends it is durable, and that record may be lost with its
    // incarnation (H2).
    if (effect !== 'pure' && story !== undefined) checkIntent(ledger, key, call, story);
    if (effect === 'once' && starts.length > 1)
      ledger.violate('repeated', `${tool} started ${starts.length} times for ${key} (I4)`);
    if (effect === 'probe' && effects > 1)
      ledger.violate('repeated', `${tool} took effect ${effects} times for ${key} (I4)`);
    const incarnations = starts.map(({ incarnation }) => incarnation);
    if (new Set(incarnations).size < starts.length)
      ledger.violate('repeated', `${tool} started twice for ${key} in one incarnation`);
    const answeredIn = resultIn.get(key);
    const last = incarnations.at(-1);
    if (answeredIn !== undefined && last !== undefined && last > answeredIn)
      ledger.violate('repeated', `${tool} ran for ${key}, whose result was there`);
  }
}

/** A call that is not `pure` starts only after the transitions that let it start, and these must be stored. */
function checkIntent(ledger: Ledger, key: string, { tool, starts }: ToolStory, story: SessionStory): void {
  const fact = story.calls.get(key);
  if (fact === undefined) return ledger.violate('failed', `${tool} ran for ${key}, a call the log does not have`);
  if (story.state.agent === 'careful' && ASKED_TOOLS.has(tool) && story.decided.get(key) !== true)
    ledger.violate('failed', `${tool} ran for ${key}, which no person allowed (I14)`);
  if (story.state.suspended !== undefined && fact.results.length === 0)
    ledger.violate('failed', `${tool} ran for ${key} of a run that is suspended (I14)`);
  const row = rowOf(fact.startsAfter);
  if (starts.some(({ storedRow }) => storedRow < row))
    ledger.violate('failed', `${tool} started for ${key} before the store had what lets it start (I18)`);
}
