/**
 * One life of the victim, seen from outside: a process that is started ahead of its turn, given a plan, listened to, and
 * killed or awaited.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { LIFE_VARIABLE, type Line, type Plan, SIDE_VARIABLE } from './protocol.ts';

/** Milliseconds a victim that nobody kills may take to do what it was told. */
const LIFE_MS_MAX = 120_000;

/** When to kill: so long after the `times`-th line of a type. */
export interface KillTime {
  readonly after: 'opening' | 'opened' | 'recovered' | 'acknowledged' | 'closing';
  readonly times: number;
  readonly delayMs: number;
}

/** How a life ended. */
export interface LifeEnd {
  readonly wasKilled: boolean;
  /** The types of lines that were told at least once. */
  readonly told: ReadonlySet<Line['type']>;
  /** From `opening` to `opened`, ms; undefined when it did not get there. */
  readonly openMs: number | undefined;
}

/** See the head of the file. */
export class Life {
  readonly number: number;
  readonly #process: ChildProcess;
  readonly #closed: Promise<unknown>;
  #errors = '';

  constructor(number: number, sideDirectory: string) {
    this.number = number;
    const loader = new URL('../loader/register.mjs', import.meta.url).href;
    const script = fileURLToPath(new URL('./workload.ts', import.meta.url));
    this.#process = spawn(process.execPath, ['--import', loader, script], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, NODE_OPTIONS: '', [SIDE_VARIABLE]: sideDirectory, [LIFE_VARIABLE]: String(number) },
    });
    this.#closed = once(this.#process, 'close');
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-4_000);
    });
    // A victim that dies before it is told its plan says why on its own stderr.
    this.#process.stdin?.on('error', () => undefined);
  }

  /** Lives the plan; resolves when the process is gone. Rejects when it ended otherwise than it was to. */
  async live(plan: Plan, kill: KillTime | undefined, hear: (line: Line) => void): Promise<LifeEnd> {
    const told = new Set<Line['type']>();
    const times = new Map<Line['type'], number>();
    let wasKilled = false;
    let heard = 0;
    const end = (): void => {
      wasKilled = true;
      this.#process.kill('SIGKILL');
    };
    const deadline = setTimeout(() => this.#process.kill('SIGKILL'), LIFE_MS_MAX);
    const timers = [deadline];
    let rest = '';
    this.#process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const each of lines) {
        const line = JSON.parse(each) as Line;
        if (!told.has(line.type)) times.set(line.type, performance.now());
        told.add(line.type);
        hear(line);
        if (line.type !== kill?.after) continue;
        heard += 1;
        if (heard === kill.times) timers.push(setTimeout(end, kill.delayMs));
      }
    });
    this.#process.stdin?.write(`${JSON.stringify(plan)}\n`);
    await this.#closed;
    for (const timer of timers) clearTimeout(timer);
    if (!wasKilled && !told.has('closed')) {
      throw new Error(
        `life ${this.number} ended by itself (${this.#process.exitCode ?? this.#process.signalCode}), after ${[...told].join(', ')}: ${this.#errors}`,
      );
    }
    const opening = times.get('opening');
    const opened = times.get('opened');
    return { wasKilled, told, openMs: opening === undefined || opened === undefined ? undefined : opened - opening };
  }

  /** For a life that is not needed any more. */
  async discard(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#closed;
  }
}
