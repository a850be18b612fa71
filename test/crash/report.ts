/** The crash loop's findings as a person reads them. */
import type { CrashReport } from './crash-loop.ts';
import type { ViolationKind } from './ledger.ts';

const KINDS: readonly ViolationKind[] = [
  ...(['lost', 'duplicated', 'reordered', 'illegal', 'changed'] as const),
  ...(['repeated', 'unbalanced', 'stuck', 'failed'] as const),
];

/** Lines for the terminal: what ran, the verdict in one line, and each violation. */
export function describeReport(report: CrashReport): readonly string[] {
  const { counts, violations } = report;
  const verdict = KINDS.map((kind) => `${violations.filter((each) => each.kind === kind).length} ${kind}`).join(', ');
  return [
    `seed ${report.seed}, Node ${process.version}, ${report.seconds.toFixed(0)} s`,
    `${report.kills} kills, ${report.killsInRecovery} of them inside recovery; ${report.closes} lives closed by themselves`,
    `${counts.acknowledged} messages and ${counts.spawned} spawns acknowledged, ${counts.answers} answers and ${counts.events} events told`,
    `${report.sessions} sessions, ${report.messages} messages in their logs, ${counts.modelCalls} model calls, ${counts.toolRuns} tool runs`,
    verdict,
    ...violations.map(({ kind, what }) => `  ${kind}: ${what}`),
    ...(violations.length === 0
      ? []
      : [`kept: ${report.directory}; again: npm run crash -- --kills ${report.kills} --seed ${report.seed}`]),
  ];
}
