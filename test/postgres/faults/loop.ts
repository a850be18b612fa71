/**
 * `npm run cluster:faults -- --kills 200 --seed 1`: a fail-over pair of real processes on a real PostgreSQL server, to
 * which faults are done. A third process then reads everything with an empty directory, and every promise is checked. On
 * a violation it exits with 1 and keeps the directory. A kill does not test power loss, because the kernel keeps the data
 * it was given.
 */
import { parseArgs } from 'node:util';
import { runFaultLoop } from './fault-loop.ts';
import { describeReport } from './report.ts';

const DEFAULTS = {
  seed: String(Date.now() % 1_000_000),
  kills: '200',
  freezes: '50',
  'black-holes': '50',
  cuts: '500',
  restarts: '20',
  stalls: '20',
  lease: '2000',
  sessions: '100',
  minutes: '60',
};
const LISTS = { outages: '5000,60000', 'set-backs': '1,5,300' };

const { values } = parseArgs({
  options: {
    ...Object.fromEntries(
      Object.entries({ ...DEFAULTS, ...LISTS }).map(([name, value]) => [
        name,
        { type: 'string', default: value } as const,
      ]),
    ),
    verbose: { type: 'boolean', default: false },
  },
});
const given = new Map(Object.entries(values));
const number = (name: keyof typeof DEFAULTS): number => wholeNumber(String(given.get(name)));
const list = (name: keyof typeof LISTS): readonly number[] =>
  String(given.get(name))
    .split(',')
    .filter((each) => each !== '')
    .map(wholeNumber);

// The processes are killed at the exit event of this process, which a plain death by a signal would skip.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
const report = await runFaultLoop({
  seed: number('seed'),
  kills: number('kills'),
  freezes: number('freezes'),
  blackHoles: number('black-holes'),
  cuts: number('cuts'),
  restarts: number('restarts'),
  stalls: number('stalls'),
  outages: list('outages'),
  setBacks: list('set-backs'),
  leaseMs: number('lease'),
  sessions: number('sessions'),
  minutes: number('minutes'),
  ...(given.get('verbose') === true ? { progress: (text: string) => console.log(text) } : {}),
});
for (const line of describeReport(report)) console.log(line);
process.exit(report.violations.length === 0 ? 0 : 1);

function wholeNumber(text: string): number {
  if (/^\d+$/u.test(text)) return Number(text);
  const numbers = Object.keys(DEFAULTS).map((name) => `[--${name} <number>]`);
  const lists = Object.keys(LISTS).map((name) => `[--${name} <number,number>]`);
  console.error(`usage: npm run cluster:faults -- ${[...numbers, ...lists, '[--verbose]'].join(' ')}`);
  process.exit(2);
}
