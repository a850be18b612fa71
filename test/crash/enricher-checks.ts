/**
 * The traces of enrichers in a log: preparations of turns, names of sub-agents, summaries. Each run begins and ends
 * once. Each message is summarised once. No message leaves the window of a session with Mneme before its summary is
 * settled.
 */
import { firstBoundary, memoryZone } from '../../src/session/rules/memory-zone.ts';
import type { SessionRecord } from '../../src/session/state/records.ts';
import type { SessionState } from '../../src/session/state/state.ts';
import type { Ledger } from './ledger.ts';

/** The records about runs of enrichers, in short form. */
export interface EnricherFacts {
  /** The records of each preparation, by its run. */
  readonly preparations: Map<number, string[]>;
  /** Entries whose turn was prepared. */
  readonly prepared: number[];
  /** The records of each summary, by its run. */
  readonly summaries: Map<number, string[]>;
  /**
   * Boundaries up to which messages left without a summary, in a transition that settled no summary although one was
   * possible.
   */
  readonly leftUnsettled: number[];
}

/** Facts of an empty log. */
export function noEnricherFacts(): EnricherFacts {
  return { preparations: new Map(), prepared: [], summaries: new Map(), leftUnsettled: [] };
}

/** Notes the records of one transition, each before `apply` applies it to `state`. */
export function noteEnrichers(
  facts: EnricherFacts,
  state: SessionState,
  records: readonly SessionRecord[],
  apply: (record: SessionRecord) => void,
): void {
  let isSettled = false;
  for (const record of records) {
    const summary = state.memory?.summarising?.run;
    switch (record.type) {
      case 'preparing':
      case 'recalling':
      case 'prepared':
        push(facts.preparations, record.run, record.type);
        if (record.type === 'prepared' && record.entry !== undefined) facts.prepared.push(record.entry);
        break;
      case 'summaryBegun':
        push(facts.summaries, record.run, 'begun');
        break;
      case 'summaryEnded':
        push(facts.summaries, record.run, 'ended');
        break;
      case 'remembered':
      case 'summaryFailed':
      case 'summaryDropped':
        isSettled = true;
        push(facts.summaries, summary ?? 0, 'settled');
        break;
      case 'evicted':
        if (!isSettled && mightBeSummedUp(state)) facts.leftUnsettled.push(record.below);
        break;
      default:
        break;
    }
    apply(record);
  }
}

/**
 * True if whole messages can leave and their summary has not just failed; after a failure the window is cut without a
 * summary.
 */
function mightBeSummedUp({ messages, memory, nextMessageSeq }: SessionState): boolean {
  const boundary = firstBoundary(messages);
  if (boundary === undefined || memory?.failedAt === nextMessageSeq) return false;
  return memoryZone(messages, boundary, Number.POSITIVE_INFINITY, nextMessageSeq) !== undefined;
}

/**
 * Findings go to the ledger. `remembers`: the sessions of the store summarise the messages that leave their windows.
 */
export function checkEnrichers(
  { state, enrichers }: { readonly state: SessionState; readonly enrichers: EnricherFacts },
  ledger: Ledger,
  remembers: boolean,
): void {
  const { id } = state;
  for (const [run, said] of enrichers.preparations) {
    if (said.filter((each) => each === 'prepared').length > 1)
      ledger.violate('duplicated', `preparation ${run} of ${id} ended more than once`);
  }
  if (new Set(enrichers.prepared).size < enrichers.prepared.length)
    ledger.violate('duplicated', `a turn of ${id} was prepared twice: ${enrichers.prepared.join(', ')}`);
  for (const [run, said] of enrichers.summaries) {
    for (const what of ['begun', 'ended', 'settled'])
      if (said.filter((each) => each === what).length > 1)
        ledger.violate('duplicated', `summary ${run} of ${id} was ${what} more than once`);
  }
  for (const level of [1, 2]) {
    const snapshots = (state.memory?.snapshots ?? []).filter((each) => each.level === level);
    const twice = snapshots.find(({ from }, index) => from <= (snapshots[index - 1]?.to ?? -1));
    if (twice !== undefined)
      ledger.violate('duplicated', `${twice.from} to ${twice.to} of ${id} is summed up twice at level ${level}`);
  }
  if (!remembers || state.parent !== undefined) return;
  for (const below of enrichers.leftUnsettled)
    ledger.violate('lost', `what is below ${below} left the window of ${id}, and nobody had summed it up`);
}

/** Reports a turn that is still being prepared after a life without a kill has finished. */
export function checkEnrichersFinished(state: SessionState, ledger: Ledger): void {
  if (state.enrichment === undefined) return;
  ledger.violate('stuck', `${state.id} is still ${state.enrichment.stage} in run ${state.enrichment.run}`);
}

function push(map: Map<number, string[]>, run: number, what: string): void {
  const list = map.get(run);
  if (list === undefined) map.set(run, [what]);
  else list.push(what);
}
