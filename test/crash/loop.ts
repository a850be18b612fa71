/**
 * `npm run crash -- --kills 200 --seed 1`: kills a process that works on a real store, again and again. After each kill
 * it checks that every promise was kept. On a violation it exits with 1 and keeps the directory. A kill does not test
 * power loss, because the kernel keeps the data it was given.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { runCrashLoop } from './crash-loop.ts';
import { describeReport } from './report.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    lanes: { type: 'string', default: String(availableParallelism() + 1) },
    verbose: { type: 'boolean', default: false },
  },
});
const [kills, seed, lanes] = [Number(values.kills), Number(values.seed), Number(values.lanes)];
if (![kills, lanes].every((each) => Number.isInteger(each) && each > 0) || !Number.isInteger(seed)) {
  console.error('usage: npm run crash -- [--kills <number>] [--seed <number>] [--lanes <number>] [--verbose]');
  process.exit(2);
}
// The victims are killed at the exit event of this process, which a plain death by a signal would skip.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
const report = await runCrashLoop({
  kills,
  seed,
  lanes,
  ...(values.verbose ? { progress: (text: string) => console.log(text) } : {}),
});
for (const line of describeReport(report)) console.log(line);
process.exit(report.violations.length === 0 ? 0 : 1);
