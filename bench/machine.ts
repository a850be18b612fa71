/** Where and when: what stands beside every figure. */
import { spawnSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const GIB = 1_024 ** 3;

/** Lines that describe this run. */
export function describeMachine(): readonly string[] {
  const processors = cpus();
  return [
    `date: ${new Date().toISOString().slice(0, 10)}; commit: ${commit()}; Node ${process.version}`,
    `machine: ${processors[0]?.model.trim() ?? 'unknown'}, ${processors.length} cores, ${(totalmem() / GIB).toFixed(0)} GiB`,
    "durability: 'flush' (acknowledged after fdatasync); model: in the process, no latency, no HTTP",
  ];
}

/** Runnable tasks of the last minute: beside each figure, since a busy machine gives a low one. */
export function load(): number {
  return loadavg()[0] ?? 0;
}

function commit(): string {
  const git = (...words: readonly string[]): string =>
    spawnSync('git', [...words], { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? '';
  const hash = git('rev-parse', '--short', 'HEAD');
  if (hash === '') return 'unknown';
  return git('status', '--porcelain', '--', 'src', 'actors') === '' ? hash : `${hash} and changes`;
}
