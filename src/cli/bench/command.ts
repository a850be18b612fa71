/** `troupe bench`: measures the runtime's own work on this machine and this disk. Needs only the package. */
import { rmSync } from 'node:fs';
import { access, constants, mkdtemp, rm, stat } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { shownPath } from '../places/data-directory.ts';
import { type Output, paintFor, type StopSignal, type Surroundings } from '../surroundings.ts';
import { counted, number, oneLine, printableJson, wrap } from '../text-layout.ts';
import { measureDisk } from './disk.ts';
import { type BenchReport, benchJson, benchText } from './report.ts';
import { type Isolation, measureWork, StoppedError, sessionsFor, type WorkFigures } from './workloads.ts';

const SECONDS_DEFAULT = 15;
const SECONDS_MAX = 3_600;
const CALLS_DEFAULT = 6;
const CALLS_MAX = 100_000;
const DISK_SHARE = 0.05;
const COLUMNS = 79;

/** See the head of the file. */
export const benchCommand: Command = {
  positionals: [],
  options: {
    seconds: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: SECONDS_MAX,
      help: `Time to take, about (default: ${SECONDS_DEFAULT})`,
    },
    directory: {
      kind: 'text',
      value: 'DIR',
      help: 'Measure the disk of this directory (default: the directory for temporary files)',
    },
    'calls-per-minute': {
      kind: 'count',
      value: 'M',
      min: 1,
      max: CALLS_MAX,
      help: `Model calls an agent makes in a minute, to count agents with (default: ${CALLS_DEFAULT})`,
    },
    json: { kind: 'flag', help: 'Print one JSON object; progress goes to stderr' },
  },
  details: [
    'A turn is a question, a call of a tool, its result, an answer: two model calls, four messages, each flushed before anything depends on it. One session makes turns one after another; 1,000 sessions make three each, all at once; one parent has 1,000 children that answer it; fewer than ten seconds measure 100 of them for each second. First with the threads of the defaults (isolated), then on one thread (inline).',
    'Code is compiled before anything is measured; figures are medians; every answer is checked. The store is in a new directory and is removed afterwards. Other work on the machine lowers the figures.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr, environment } = surroundings;
  const seconds = given.count('seconds') ?? SECONDS_DEFAULT;
  const parent = await writableDirectory(given.text('directory'), surroundings);
  const messages = given.flag('json') ? stderr : stdout;
  const stop = stopSignal(surroundings);
  const directory = await mkdtemp(join(parent, 'troupe-bench-'));
  // The data may be gigabytes, so it must be removed however the process ends.
  const forget = surroundings.onExit(() => rmSync(directory, { recursive: true, force: true }));
  try {
    const place = shownPath(parent, surroundings);
    const head = headOf(seconds, place);
    printStart(head, messages);
    const disk = await measureDisk(directory, DISK_SHARE * seconds);
    const work = (isolation: Isolation): Promise<WorkFigures> =>
      measureWork({
        directory: join(directory, isolation),
        isolation,
        seconds: ((1 - DISK_SHARE) * seconds) / 2,
        sessions: head.sessions,
        isStopped: () => stop.came() !== undefined,
      });
    const isolated = await work('isolated');
    const inline = await work('inline');
    const callsPerMinute = given.count('calls-per-minute') ?? CALLS_DEFAULT;
    const report: BenchReport = { ...head, disk, isolated, inline, callsPerMinute };
    stdout.write(
      given.flag('json') ? `${printableJson(benchJson(report))}\n` : benchText(report, paintFor(stdout, environment)),
    );
    return EXIT.ok;
  } catch (error) {
    const signal = stop.came();
    if (signal === undefined || !(error instanceof StoppedError)) throw error;
    messages.write('Stopped; no measurement was finished.\n');
    return EXIT[signal];
  } finally {
    stop.forget();
    await rm(directory, { recursive: true, force: true });
    forget();
  }
}

type Head = Pick<BenchReport, 'directory' | 'seconds' | 'node' | 'machine' | 'cores' | 'load' | 'sessions'>;

function headOf(seconds: number, directory: string): Head {
  const load = process.platform === 'win32' ? undefined : loadavg()[0];
  const machine = oneLine(cpus()[0]?.model ?? 'an unknown processor');
  return {
    directory,
    seconds,
    node: process.version,
    machine,
    cores: availableParallelism(),
    load,
    sessions: sessionsFor(seconds),
  };
}

function printStart({ directory, seconds, node, machine, cores, load }: Head, output: Output): void {
  const busy = load === undefined ? '' : `, load ${number(load, 1)}`;
  const text = `Measuring for about ${seconds} s in ${directory}: ${machine}, ${counted(cores, 'core')}${busy}, Node ${node}.`;
  output.write(`${wrap(text, COLUMNS).join('\n')}\n\n`);
}

async function writableDirectory(given: string | undefined, { directory }: Surroundings): Promise<string> {
  const path = given === undefined ? tmpdir() : resolve(directory, given);
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) throw new UsageError(`--directory ${path} is not a directory`);
  try {
    await access(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new UsageError(`--directory ${path} cannot be written to`, { cause: error });
  }
  return path;
}

/** Remembers the first signal, so that the work ends before the next repetition. */
function stopSignal(surroundings: Surroundings): {
  readonly came: () => StopSignal | undefined;
  readonly forget: () => void;
} {
  let came: StopSignal | undefined;
  const forget = surroundings.onStop((signal) => {
    came ??= signal;
  });
  return { came: () => came, forget };
}
