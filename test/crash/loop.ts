/**
 * `npm run crash -- --kills 200 --seed 1`: kills a process that works on a real store, again and again, and checks after each
 * kill that nothing it promised is broken. Exit code 1 and the kept directory when something is. A kill does not test power
 * loss: what the kernel was handed survives it.
 */
import { parseArgs } from 'node:util';
import { runCrashLoop } from './crash-loop.ts';
import { describeReport } from './report.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    verbose: { type: 'boolean', default: false },
  },
});
const [kills, seed] = [Number(values.kills), Number(values.seed)];
if (!Number.isInteger(kills) || kills < 1 || !Number.isInteger(seed)) {
  console.error('usage: npm run crash -- [--kills <number>] [--seed <number>] [--verbose]');
  process.exit(2);
}
const report = await runCrashLoop({
  kills,
  seed,
  ...(values.verbose ? { progress: (text: string) => console.log(text) } : {}),
});
for (const line of describeReport(report)) console.log(line);
process.exit(report.violations.length === 0 ? 0 : 1);
