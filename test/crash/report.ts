/** The crash loop's findings as text for a person. */
import type { CrashReport } from './crash-loop.ts';
import type { ViolationKind } from './ledger.ts';

const KINDS: readonly ViolationKind[] = [
  ...(['lost', 'duplicated', 'reordered', 'torn', 'illegal', 'orphan', 'resurrected', 'left', 'changed'] as const),
  ...(['repeated', 'redone', 'unbalanced', 'stuck', 'failed'] as const),
];

/** Lines for the terminal: what ran, the verdict in one line, and each violation. */
export function describeReport(report: CrashReport): readonly string[] {
  const { byDurability, counts, ends, violations } = report;
  const durabilities = Object.entries(byDurability).map(([name, count]) => `${count} ${name}`);
  const verdict = KINDS.map((kind) => `${violations.filter((each) => each.kind === kind).length} ${kind}`).join(', ');
  return [
    `seed ${report.seed}, Node ${process.version}, ${report.seconds.toFixed(0)} s, ${(ends.kills / report.seconds).toFixed(1)} kills a second`,
    `${report.generations} generations, each over a store of its own (${durabilities.join(', ')})`,
    `${ends.kills} kills, ${ends.killsInRecovery} of them inside recovery, ${ends.killsInErasure} inside an erasure, ${ends.killsInRemoval} inside a removal of old history, ${ends.killsInCompaction} inside a compaction`,
    `${report.compactions} compactions, ${report.removals} removals of old history, ${report.scans} scans for bytes of deleted sessions (named in ${report.places.join(', ')})`,
    `${ends.closes} closes, ${ends.terms} ends by SIGTERM, ${ends.cuts} by a second SIGTERM, ${ends.stops} stopped and continued`,
    `${counts.acknowledged} messages and ${counts.spawned} spawns acknowledged, ${counts.recalled} recalled, ${counts.deleted} sessions deleted, ${counts.edits} edits, ${counts.forks} forks`,
    `${counts.answers} answers and ${counts.events} events told`,
    `${report.sessions} sessions, ${report.messages} messages in their logs, ${report.checkpoints} checkpoints`,
    `${counts.modelCalls} model calls, ${counts.toolRuns} tool runs, ${counts.probes} probes`,
    `${counts.museCalls} calls of enrichers, ${report.prepared} turns prepared, ${report.summaries} summaries`,
    verdict,
    ...violations.map(({ kind, what }) => `  ${kind}: ${what}`),
    ...(violations.length === 0
      ? []
      : [`kept: ${report.directory}; again: npm run crash -- --kills ${ends.kills} --seed ${report.seed}`]),
  ];
}
