/** The findings of the loop of faults as text for a person. */
import type { FaultReport } from './fault-loop.ts';
import { quantile, VIOLATION_KINDS } from './findings.ts';

/** Milliseconds by which a first commit may be later than a lease, and an append later than the database. */
const TAKE_OVER_MS = 500;
const APPEND_MS = 1_000;

/** Lines for the terminal: what ran, the times, the verdict in one line, and each violation. */
export function describeReport(report: FaultReport): readonly string[] {
  const { counts, times, violations, options } = report;
  const verdict = VIOLATION_KINDS.map((kind) => `${violations.filter((each) => each.kind === kind).length} ${kind}`);
  const quick = times.appendMs.filter((ms) => ms <= APPEND_MS).length;
  const prompt = times.firstCommitMs.filter((ms) => ms <= options.leaseMs + TAKE_OVER_MS).length;
  return [
    `seed ${options.seed}, Node ${process.version}, ${report.seconds.toFixed(0)} s, lease ${options.leaseMs} ms, ${options.sessions} sessions in each of ${counts.clusters} clusters`,
    ...(report.isCut ? [`the ${options.minutes} minutes ended before the faults did`] : []),
    `owners: ${counts.kills} kills, ${counts.freezes} freezes, ${counts.blackHoles} black holes with late packets; ${counts.claims} claims`,
    `former owners: ${counts.formerAsked} messages sent to them after a take-over, ${counts.formerRefused} refused; ${counts.thawed} calls began at the end of a freeze, after the lease`,
    `line: ${counts.cuts} cuts, ${counts.lostAnswers} commits whose answer was lost, ${counts.lateLanded + counts.lateRefused} statements after their client had given up (${counts.lateLanded} committed, ${counts.lateRefused} refused)`,
    `database: ${counts.restarts} restarts, ${counts.stalls} stalls, ${counts.outages} outages, ${counts.setBacks} set-backs (${counts.healed} healed, ${counts.diverged} reported as diverged)`,
    `log: ${counts.entries} entries, ${counts.bytes} bytes`,
    `work: ${counts.acknowledged} messages acknowledged, ${counts.answers} answers, ${counts.children} sub-agents, ${counts.modelCalls} model calls, ${counts.toolRuns} tool runs, ${counts.onceCalls} calls of a "once" tool (${counts.onceUnknown} with an unknown outcome)`,
    `kill to claim: ${spread(times.claimMs)}`,
    `kill to first commit: ${spread(times.firstCommitMs)}; ${prompt} of ${times.firstCommitMs.length} within the lease and ${TAKE_OVER_MS} ms`,
    `database up to first append: ${spread(times.appendMs)}; ${quick} of ${times.appendMs.length} within ${APPEND_MS} ms`,
    `longest time without an answer in an outage beyond the hold: ${spread(times.refusalMs)}`,
    verdict.join(', '),
    ...violations.map(({ kind, what }) => `  ${kind}: ${what}`),
    ...(violations.length === 0 ? [] : [`kept: ${report.directory}`]),
  ];
}

function spread(numbers: readonly number[]): string {
  const [half, most, longest] = [quantile(numbers, 0.5), quantile(numbers, 0.95), quantile(numbers, 1)];
  if (half === undefined || most === undefined || longest === undefined) return 'none';
  return `p50 ${half.toFixed(0)} ms, p95 ${most.toFixed(0)} ms, longest ${longest.toFixed(0)} ms`;
}
