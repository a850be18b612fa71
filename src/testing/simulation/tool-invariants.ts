/**
 * The invariants of tool calls (I4, I5, I14, I15, I18 and I26 of `invariants.ts`): how often and when a call started,
 * what let it start, and its result.
 */

import { TOOL_REPEATS_MAX } from '../../base/bounds.ts';
import { rowOf } from '../../journal/rows/row-codec.ts';
import { callKey } from '../../session/decide/tools.ts';
import { INTERRUPT_NOTICE, lostResultText, OUTCOME_UNKNOWN } from '../../session/rules/tool-texts.ts';
import { type CallFact, type Ledger, sessionOfKey, type ToolStory } from './ledger.ts';
import type { SessionStory } from './session-story.ts';
import { isGivenUpEarly, resultOf, TOOL_TIMEOUT_MS } from './simulated-tools.ts';
import type { Stories } from './store-reading.ts';
import { ASKED_TOOLS } from './swarm.ts';

/** Finds in a shortened result the path of the file with the whole text. */
const SAVED_TO = /saved to: (\S+)/;
/**
 * How often one attempt of a call may start in one incarnation of its shard: once, then `TOOL_REPEATS_MAX` times after
 * another call ended its thread, and then once more alone on a thread.
 */
const STARTS_MAX: number = TOOL_REPEATS_MAX + 2;

/**
 * Checks every call that a tool saw against the log of its session. `resultIn`: by the key of a call, the incarnation
 * of the shard (`SimulatedMachine.incarnationOf`) when a check first found the call's result in the store. Violations
 * go to the ledger.
 */
export function checkToolRuns(ledger: Ledger, stories: Stories, resultIn: ReadonlyMap<string, number>): void {
  for (const [key, call] of ledger.tools) {
    const { tool, effect, starts, effects } = call;
    const story = stories.get(sessionOfKey(key));
    // A `pure` call may run before the record that asks for the call is durable. A crash may then lose the record (H2).
    if (effect !== 'pure' && story !== undefined) checkIntent(ledger, key, call, story);
    if (effect === 'once' && starts.length > 1)
      ledger.violate('repeated', `${tool} started ${starts.length} times for ${key} (I4)`);
    if (effect === 'probe' && effects > 1)
      ledger.violate('repeated', `${tool} took effect ${effects} times for ${key} (I4)`);
    const incarnations = starts.map(({ incarnation }) => incarnation);
    for (const { incarnation, attempt } of starts) {
      const times = starts.filter((each) => each.incarnation === incarnation && each.attempt === attempt).length;
      if (times > STARTS_MAX)
        ledger.violate('repeated', `${tool} started ${times} times for ${key} as one attempt (R7)`);
    }
    const answeredIn = resultIn.get(key);
    const last = incarnations.at(-1);
    if (answeredIn !== undefined && last !== undefined && last > answeredIn)
      ledger.violate('repeated', `${tool} ran for ${key}, whose result was there`);
  }
}

/** Checks that a call that is not `pure` started only after its store had the transitions that let it start. */
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

/**
 * Checks that each call has one result, or is open, or waited in a suspended run whose branch was left (`isLeft`).
 * Violations go to the ledger.
 */
export function checkResults(ledger: Ledger, { calls, state }: SessionStory): void {
  const open = new Set([...state.openCalls.values()].map((call) => callKey(state, call)));
  for (const [key, call] of calls) {
    const places = call.results.length + (open.has(key) ? 1 : 0);
    if (places > 1 || (places === 0 && !call.isLeft))
      ledger.violate(places === 0 ? 'lost' : 'duplicated', `call ${key} has ${call.results.length} results`);
    checkResult(ledger, key, call);
  }
}

/** Checks that a result is the tool's own, or that its text marks it as a substitute. */
function checkResult(ledger: Ledger, key: string, { tool, results }: CallFact): void {
  const result = results[0];
  const run = ledger.tools.get(key);
  if (result !== undefined && !result.success && isGivenUpEarly(result.content))
    ledger.violate('failed', `call ${key} of ${tool} was given up before its last attempt (I26)`);
  if (
    result !== undefined &&
    !result.success &&
    result.content === lostResultText(tool, TOOL_TIMEOUT_MS) &&
    !ledger.lostOutcomes.has(key)
  )
    ledger.violate('lost', `call ${key} of ${tool} was given up as lost, and its outcome was not lost (I17)`);
  if (result === undefined || !result.success || result.content.startsWith(INTERRUPT_NOTICE)) return;
  if (result.content === OUTCOME_UNKNOWN)
    return ledger.violate('changed', `call ${key} of ${tool} was cut off and counts as a success (I5)`);
  if (!result.content.startsWith('result of ') || tool === 'mark_goal_completed') return;
  if (ledger.isDeleted(sessionOfKey(key))) return;
  if (run === undefined || result.content !== resultOf(tool, key)) {
    ledger.violate('changed', `call ${key} of ${tool} was answered ${JSON.stringify(result.content)}`);
  }
}

/** The files with the whole texts of shortened results, according to the results of a session. */
export function savedTo({ calls }: Pick<SessionStory, 'calls'>): readonly string[] {
  const texts = [...calls.values()].flatMap(({ results }) => results.map(({ content }) => content));
  return texts.flatMap((text) => SAVED_TO.exec(text)?.[1] ?? []);
}

/** Checks that the files of `savedTo` are durable (I15). */
export function checkKept(ledger: Ledger, story: SessionStory, isKept: (path: string) => boolean): void {
  for (const path of savedTo(story)) {
    if (!isKept(path))
      ledger.violate('lost', `a result of ${story.id} is saved to ${path}, which is not durable (I15)`);
  }
}
