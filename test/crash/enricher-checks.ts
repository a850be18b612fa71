/**
 * What enrichers leave in a log: preparations of turns, names of sub-agents, summaries. Each run begins and ends once, what was
 * summed up is summed up once, and nothing leaves the window of a session that remembers before that is settled.
 */
import { firstBoundary, memoryZone } from '../../src/session/rules/memory-zone.ts';
import type { SessionRecord } from '../../src/session/state/records.ts';
import type { SessionState } from '../../src/session/state/state.ts';
import type { Ledger } from './ledger.ts';

/** The records that are about runs of enrichers, in short. */
export interface EnricherFacts {
  /** What was said of each preparation, by its run. */
  readonly preparations: Map<number, string[]>;
  /** Entries whose turn was prepared. */
  readonly prepared: number[];
  /** What was said of each summary, by its run. */
  readonly summaries: Map<number, string[]>;
  /** Boundaries up to which messages left, in a turn that settled no summary, though they could have been summed up. */
  readonly leftUnsettled: number[];
}

/** Nothing gathered yet. */
export function noEnricherFacts(): EnricherFacts {
  return { preparations: new Map(), prepared: [], summaries: new Map(), leftUnsettled: [] };
}

/** Notes the records of one turn, each before it is applied to `state` by `apply`. */
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

/** Messages can be taken away whole, and a summary of them has not just failed: else the window goes on without one. */
function mightBeSummedUp({ messages, memory, nextMessageSeq }: SessionState): boolean {
  const boundary = firstBoundary(messages);
  if (boundary === undefined || memory?.failedAt === nextMessageSeq) return false;
  return memoryZone(messages, boundary, Number.POSITIVE_INFINITY, nextMessageSeq) !== undefined;
}

/** Findings go to the ledger. `remembers`: the store is one whose sessions sum up what leaves their windows. */
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

/** A life without a kill has finished, and still a turn is being prepared. */
export function checkEnrichersFinished(state: SessionState, ledger: Ledger): void {
  if (state.enrichment === undefined) return;
  ledger.violate('stuck', `${state.id} is still ${state.enrichment.stage} in run ${state.enrichment.run}`);
}

function push(map: Map<number, string[]>, run: number, what: string): void {
  const list = map.get(run);
  if (list === undefined) map.set(run, [what]);
  else list.push(what);
}
