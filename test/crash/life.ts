/**
 * One life of a victim, seen from outside. The process is started ahead of time and gets a plan. Its reports are read,
 * and it is sent signals until it has ended.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { CLOSE_DEADLINE_MS } from '../../src/base/bounds.ts';
import { CUT_SHORT_CODE, LIFE_VARIABLE, type Line, type Plan, SIDE_VARIABLE } from './protocol.ts';

/** Milliseconds within which a victim without a kill must finish its plan. */
const LIFE_MS_MAX = 120_000;
/** Milliseconds that its close may take: twice the deadline after which the runtime ends a thread by force. */
const CLOSE_MS_MAX = 2 * CLOSE_DEADLINE_MS;
/** Milliseconds in which a hanging victim must write the stack of each of its threads. */
const REPORT_MS = 10_000;

/** Share of the time for which history is kept after which a life is killed. */
const RETAINED_SHARE = 0.8;

/** Processes that still run. None may outlive this process; a stopped one would never end. */
const living = new Set<ChildProcess>();
process.on('exit', () => {
  for (const each of living) each.kill('SIGKILL');
});

/** One signal, and its delay after the previous one. */
export interface SignalStep {
  readonly signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT';
  readonly delayMs: number;
}

/** Signals sent to a victim one after another, starting at the `times`-th line of a type. */
export interface Assault {
  readonly after: 'opening' | 'opened' | 'recovered' | 'acknowledged' | 'closing' | 'compacting' | 'deleted' | 'erased';
  readonly times: number;
  readonly steps: readonly SignalStep[];
}

/** How a life ended: `cut` is its own exit at a second SIGTERM. */
export interface LifeEnd {
  readonly how: 'killed' | 'cut' | 'closed';
  /** The types of lines that were written at least once. */
  readonly told: ReadonlySet<Line['type']>;
  readonly signals: readonly SignalStep['signal'][];
  /** From `opening` to `opened`, ms; undefined if it did not open. */
  readonly openMs: number | undefined;
  /** From `compacting` to `compacted`, ms; undefined if it compacted nothing. */
  readonly compactMs: number | undefined;
}

/** The options of a life, and its listeners. */
export interface LifeOrders {
  readonly plan: Plan;
  /** If missing, the life ends by itself. */
  readonly assault: Assault | undefined;
  readonly hear: (line: Line) => void;
  /** Called while the process is stopped. The process continues after this resolves and the time has passed. */
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

  /** Starts the process of `script`. `sideDirectory`: the directory in which tools and provider record their runs. */
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
    // A victim that dies before it gets its plan prints the reason on its stderr.
    this.#process.stdin?.on('error', () => undefined);
  }

  /** Runs the plan; resolves when the process is gone. Rejects if it ended in another way than planned. */
  async live({ plan, assault, hear, stopped }: LifeOrders): Promise<LifeEnd> {
    const told = new Set<Line['type']>();
    const times = new Map<Line['type'], number>();
    let heard = 0;
    this.#after(LIFE_MS_MAX, () => this.#giveUp());
    // Retention removes only what an earlier life wrote, so the checks have read it.
    if (plan.retentionMs !== undefined) this.#after(RETAINED_SHARE * plan.retentionMs, () => this.#signal('SIGKILL'));
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
    const between = (first: Line['type'], second: Line['type']): number | undefined => {
      const [from, to] = [times.get(first), times.get(second)];
      return from === undefined || to === undefined ? undefined : to - from;
    };
    const [openMs, compactMs] = [between('opening', 'opened'), between('compacting', 'compacted')];
    return { how: this.#how(told), told, signals: this.#signals, openMs, compactMs };
  }

  /** Ends a life that is no longer needed. */
  async discard(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#closed;
  }

  /** The victim hangs. Node's report has the JavaScript stack of every thread, unless one is stuck in native code. */
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
