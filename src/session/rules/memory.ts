/**
 * A session's memory of messages that have left its window: snapshots (summaries), and the run that is writing one
 * (contract §1.5, §6.5, §6.8). Pure: each change returns a new value.
 *
 * Invariants:
 *  M1 at most one run is in progress (Δ20). Each run has its own number, and the end of any run but the current one is
 *     ignored (A5);
 *  M2 a snapshot of messages is kept until a level 2 snapshot covers it completely. Of each level, only the newest
 *     `SNAPSHOTS_KEPT_MAX` snapshots are kept;
 *  M3 the system prompt shows the memory as it was when the epoch opened. The next epoch is the first to show a newer
 *     snapshot (A8).
 */

import { SNAPSHOTS_KEPT_MAX } from '../../base/bounds.ts';
import type { Memory, Snapshot, SummaryRun } from '../state/memory.ts';
import { estimateTokens } from '../state/tokens.ts';

/** An empty memory. */
export const NO_MEMORY: Memory = Object.freeze({ snapshots: [], budgets: { 1: 0, 2: 0 } });

/** True if a summary is being written. */
export function isSummarising(memory: Memory | undefined): boolean {
  return memory?.summarising !== undefined && memory.summarising.ended === undefined;
}

/** True if a half-step waits for the summary that is being written. */
export function isPreparing(memory: Memory | undefined): boolean {
  return memory?.summarising?.isAwaited === true;
}

/** Snapshots of messages that no level 2 snapshot covers completely, oldest first. */
export function uncovered(snapshots: readonly Snapshot[]): readonly Snapshot[] {
  const covers = snapshots.filter((each) => each.level === 2);
  return snapshots.filter(
    ({ level, from, to }) => level === 1 && !covers.some((cover) => cover.from <= from && cover.to >= to),
  );
}

/** A memory with one more snapshot, and without the snapshots that the new snapshot covers. */
export function withSnapshot(memory: Memory, run: SummaryRun, text: string): Memory {
  const { level, from, to } = run;
  const snapshot: Snapshot = { level, text, from, to, tokens: estimateTokens(text) };
  const all = [...memory.snapshots, snapshot].sort((a, b) => a.to - b.to);
  const recent = uncovered(all).slice(-SNAPSHOTS_KEPT_MAX);
  const old = all.filter((each) => each.level === 2).slice(-SNAPSHOTS_KEPT_MAX);
  return { ...memory, snapshots: [...old, ...recent].sort((a, b) => a.to - b.to) };
}

/** A memory with this run in progress; `undefined`: without a run. */
export function withRun(memory: Memory, run: SummaryRun | undefined): Memory {
  const { summarising: _summarising, ...rest } = memory;
  return run === undefined ? rest : { ...rest, summarising: run };
}

/** A memory whose current content is shown from now on, because a new epoch opens. */
export function withShown(memory: Memory): Memory {
  const { shown: _shown, ...rest } = memory;
  const shown = memoryText(rest);
  return shown === undefined ? rest : { ...rest, shown };
}

/** Operations on the history that replace the conversation, or remove it. */
const REPLACING: ReadonlySet<string> = new Set(['set', 'replaceAll', 'seed', 'unset']);

/** A memory after an operation on the history. The memory of a replaced conversation is dropped. */
export function afterEdit(memory: Memory, operation: string): Memory {
  if (!REPLACING.has(operation)) return memory;
  // A run in progress continues, because a half-step may wait for it. Its result is dropped afterwards.
  const { shown: _shown, restsAt: _restsAt, ...rest } = memory;
  return { ...rest, snapshots: [] };
}

/** The memory for a fork. It lacks the run in progress, because that run belongs to the original session. */
export function settledMemory(memory: Memory): Memory {
  const { failedAt: _failedAt, restsAt: _restsAt, ...rest } = withRun(memory, undefined);
  return rest;
}

/** The sections of the system prompt (§6.8), or undefined if there is nothing to show. */
export function memoryText({ snapshots, budgets }: Memory): string | undefined {
  const old = section(
    'Long-term Memory',
    snapshots.filter((each) => each.level === 2),
    budgets[2],
  );
  const recent = section('Recent Memory', uncovered(snapshots), budgets[1]);
  const sections = [...old, ...recent];
  return sections.length === 0 ? undefined : sections.join('\n\n');
}

/** The newest snapshots that fit, at least one, oldest first. */
function section(heading: string, snapshots: readonly Snapshot[], budget: number): readonly string[] {
  const fitting: string[] = [];
  let tokens = 0;
  for (const snapshot of [...snapshots].reverse()) {
    tokens += snapshot.tokens;
    if (fitting.length > 0 && tokens > budget) break;
    fitting.unshift(snapshot.text);
  }
  return fitting.length === 0 ? [] : [[`## ${heading}`, ...fitting].join('\n\n')];
}
