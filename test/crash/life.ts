/**
 * One life of a victim, seen from outside: a process that is started ahead of its turn, given a plan, listened to, and sent
 * signals until it is gone.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { CLOSE_DEADLINE_MS } from '../../src/base/bounds.ts';
import { CUT_SHORT_CODE, LIFE_VARIABLE, type Line, type Plan, SIDE_VARIABLE } from './protocol.ts';

/** Milliseconds a victim that nobody kills may take to do what it was told. */
const LIFE_MS_MAX = 120_000;
/** Milliseconds its close may take: the deadline of the runtime and as much again, before a thread of it is ended by force. */
const CLOSE_MS_MAX = 2 * CLOSE_DEADLINE_MS;
/** Milliseconds a victim that hangs has to write down where each of its threads stands. */
const REPORT_MS = 10_000;

/** Processes that are not gone: none outlives this one, stopped ones least of all. */
const living = new Set<ChildProcess>();
process.on('exit', () => {
  for (const each of living) each.kill('SIGKILL');
});

/** One signal, so long after the moment before. */
export interface SignalStep {
  readonly signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT';
  readonly delayMs: number;
}

/** What is done to a victim: signals one after the other, from the `times`-th line of a type on. */
export interface Assault {
  readonly after: 'opening' | 'opened' | 'recovered' | 'acknowledged' | 'closing';
  readonly times: number;
  readonly steps: readonly SignalStep[];
}

/** How a life ended: `cut` is its own exit at a second SIGTERM. */
export interface LifeEnd {
  readonly how: 'killed' | 'cut' | 'closed';
  /** The types of lines that were told at least once. */
  readonly told: ReadonlySet<Line['type']>;
  readonly signals: readonly SignalStep['signal'][];
  /** From `opening` to `opened`, ms; undefined when it did not get there. */
  readonly openMs: number | undefined;
}

/** What a life is told to do, and who listens. */
export interface LifeOrders {
  readonly plan: Plan;
  /** Missing: it ends by itself. */
  readonly assault: Assault | undefined;
  readonly hear: (line: Line) => void;
  /** Called while the process is stopped; it is continued when this resolves and the time has passed. */
  readonly stopped: () => Promise<void>;
}

/** See the head of the file. */
export class Life {
  readonly number: number;
  readonly #process: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #signals: SignalStep['signal'][] = [];
  readonly #hangReport: string;
  #errors = '';
  #isOverdue = false;

  /** Starts the process of `script`. `sideDirectory`: where tools and provider tell what ran. */
  constructor(number: number, script: string, sideDirectory: string) {
    this.number = number;
    const report = `hang-of-life-${number}.json`;
    this.#hangReport = join(sideDirectory, report);
    const reporting = ['--report-on-signal', `--report-directory=${sideDirectory}`, `--report-filename=${report}`];
    this.#process = spawn(process.execPath, [...reporting, script], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, NODE_OPTIONS: '', [SIDE_VARIABLE]: sideDirectory, [LIFE_VARIABLE]: String(number) },
    });
    this.#closed = once(this.#process, 'close');
    living.add(this.#process);
    this.#process.once('exit', () => living.delete(this.#process));
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-4_000);
    });
    // A victim that dies before it is told its plan says why on its own stderr.
    this.#process.stdin?.on('error', () => undefined);
  }

  /** Lives the plan; resolves when the process is gone. Rejects when it ended otherwise than it was to. */
  async live({ plan, assault, hear, stopped }: LifeOrders): Promise<LifeEnd> {
    const told = new Set<Line['type']>();
    const times = new Map<Line['type'], number>();
    let heard = 0;
    this.#after(LIFE_MS_MAX, () => this.#giveUp());
    const take = (line: Line): void => {
      if (!told.has(line.type)) times.set(line.type, performance.now());
      told.add(line.type);
      if (line.type === 'closing') this.#after(CLOSE_MS_MAX, () => this.#giveUp());
      hear(line);
      if (line.type !== assault?.after) return;
      heard += 1;
      if (heard === assault.times) this.#attack(assault.steps, stopped);
    };
    let rest = '';
    this.#process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) take(JSON.parse(line) as Line);
    });
    this.#process.stdin?.write(`${JSON.stringify(plan)}\n`);
    await this.#closed;
    for (const timer of this.#timers) clearTimeout(timer);
    const [opening, opened] = [times.get('opening'), times.get('opened')];
    const openMs = opening === undefined || opened === undefined ? undefined : opened - opening;
    return { how: this.#how(told), told, signals: this.#signals, openMs };
  }

  /** For a life that is not needed any more. */
  async discard(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#closed;
  }

  /** It hangs. Node's report has the JavaScript stack of every thread, unless one is stuck in native code. */
  #giveUp(): void {
    if (this.#isOverdue) return;
    this.#isOverdue = true;
    this.#process.kill('SIGUSR2');
    this.#after(REPORT_MS, () => this.#process.kill('SIGKILL'));
  }

  #attack(steps: readonly SignalStep[], stopped: () => Promise<void>): void {
    const [step, ...rest] = steps;
    if (step === undefined) return;
    this.#after(step.delayMs, () => {
      this.#signal(step.signal);
      if (step.signal !== 'SIGSTOP') this.#attack(rest, stopped);
      else void stopped().then(() => this.#attack(rest, stopped));
    });
  }

  #signal(signal: SignalStep['signal']): void {
    if (this.#process.kill(signal)) this.#signals.push(signal);
  }

  #after(delayMs: number, work: () => void): void {
    this.#timers.add(setTimeout(work, delayMs));
  }

  #how(told: ReadonlySet<Line['type']>): LifeEnd['how'] {
    const { exitCode, signalCode } = this.#process;
    if (this.#isOverdue) {
      const where = `where its threads stand: ${this.#hangReport}`;
      throw new Error(`life ${this.number} hangs, after ${[...told].join(', ')}; ${where}: ${this.#errors}`);
    }
    if (signalCode === 'SIGKILL' && this.#signals.includes('SIGKILL')) return 'killed';
    const terms = this.#signals.filter((signal) => signal === 'SIGTERM').length;
    if (exitCode === CUT_SHORT_CODE && terms > 1) return 'cut';
    if (exitCode === 0 && told.has('closed')) return 'closed';
    throw new Error(
      `life ${this.number} ended by itself (${exitCode ?? signalCode}), after ${[...told].join(', ')}: ${this.#errors}`,
    );
  }
}
