/**
 * The loop: life after life over one directory, each with its own plan and its own end, and after each the checks. The next
 * victim is started while one lives, so that loading its modules costs no time between two lives.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checker } from './checks.ts';
import { type Counts, Ledger, type Violation } from './ledger.ts';
import { type KillTime, Life } from './life.ts';
import { CALL_FILE, type CallLine, type Plan, randomFrom, TOOL_FILE, type ToolLine } from './protocol.ts';
import { LineReader } from './side-file.ts';
import { StoreFacts } from './store-facts.ts';

/** What to do. */
export interface CrashOptions {
  /** Processes to kill; lives that may close are not counted. */
  readonly kills: number;
  readonly seed: number;
  /** Called after each life with one line. */
  readonly progress?: (text: string) => void;
}

/** What happened. */
export interface CrashReport {
  readonly seed: number;
  readonly kills: number;
  /** Of these: between the start of `open` and the flush of what recovery wrote, with interrupted sessions in the store. */
  readonly killsInRecovery: number;
  readonly closes: number;
  readonly sessions: number;
  readonly messages: number;
  readonly counts: Counts;
  readonly violations: readonly Violation[];
  /** The store and the side files; gone when nothing was wrong. */
  readonly directory: string;
  readonly seconds: number;
}

/** Violations after which the loop stops: the rest would be the same story again. */
const VIOLATIONS_MAX = 20;
/** Acknowledged keys and told answers that each life goes back to. */
const REPEATS = 8;

/** Runs the loop; resolves with what was found. Rejects when a victim cannot live at all. */
export async function runCrashLoop(options: CrashOptions): Promise<CrashReport> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-crash-'));
  const report = await new CrashLoop(options, directory).run();
  if (report.violations.length === 0) await rm(directory, { recursive: true, force: true });
  return report;
}

class CrashLoop {
  readonly #options: CrashOptions;
  readonly #directory: string;
  readonly #random: () => number;
  readonly #ledger = new Ledger();
  readonly #checker: Checker;
  readonly #store: StoreFacts;
  readonly #tools: LineReader<ToolLine>;
  readonly #calls: LineReader<CallLine>;
  #kills = 0;
  #killsInRecovery = 0;
  #closes = 0;
  #interrupted = 0;
  #openMs = 300;
  #sessions = 0;
  #messages = 0;

  constructor(options: CrashOptions, directory: string) {
    this.#options = options;
    this.#directory = directory;
    this.#random = randomFrom(options.seed);
    this.#checker = new Checker(this.#ledger);
    this.#store = new StoreFacts(join(directory, 'store'));
    this.#tools = new LineReader(join(directory, TOOL_FILE));
    this.#calls = new LineReader(join(directory, CALL_FILE));
  }

  async run(): Promise<CrashReport> {
    const startedAt = performance.now();
    await mkdir(this.#directory, { recursive: true });
    let next = new Life(1, this.#directory);
    while (this.#kills < this.#options.kills && this.#ledger.violations.length < VIOLATIONS_MAX) {
      const life = next;
      next = new Life(life.number + 1, this.#directory);
      await this.#live(life, this.#killTime(), 'work');
    }
    if (this.#ledger.violations.length < VIOLATIONS_MAX) await this.#live(next, undefined, 'finish');
    else await next.discard();
    return {
      seed: this.#options.seed,
      kills: this.#kills,
      killsInRecovery: this.#killsInRecovery,
      closes: this.#closes,
      sessions: this.#sessions,
      messages: this.#messages,
      counts: this.#ledger.counts,
      violations: this.#ledger.violations,
      directory: this.#directory,
      seconds: (performance.now() - startedAt) / 1_000,
    };
  }

  /** Most die at work, some while they open or recover, some while they close; some are let go. */
  #killTime(): KillTime | undefined {
    const chance = this.#random();
    const delayMs = this.#random();
    if (chance < 0.15) return { after: 'opening', times: 1, delayMs: delayMs * 1.2 * this.#openMs };
    if (chance < 0.35) return { after: 'opened', times: 1, delayMs: delayMs * 8 };
    if (chance < 0.55) return { after: 'recovered', times: 1, delayMs: delayMs * 60 };
    // By acknowledgements, so that a slow machine kills as deep in the work as a fast one.
    if (chance < 0.9)
      return { after: 'acknowledged', times: 1 + Math.floor(this.#random() * 40), delayMs: delayMs * 40 };
    return chance < 0.95 ? { after: 'closing', times: 1, delayMs: delayMs * 30 } : undefined;
  }

  async #live(life: Life, kill: KillTime | undefined, mode: Plan['mode']): Promise<void> {
    const plan = this.#plan(life.number, kill, mode);
    const end = await life.live(plan, kill, (line) => this.#ledger.hear(line));
    if (end.openMs !== undefined) this.#openMs = end.openMs;
    if (end.wasKilled) this.#kills += 1;
    else this.#closes += 1;
    const isInRecovery = end.wasKilled && end.told.has('opening') && !end.told.has('recovered');
    if (isInRecovery && this.#interrupted > 0) this.#killsInRecovery += 1;
    await this.#check(life.number, end.wasKilled, mode);
    this.#options.progress?.(
      `life ${life.number}: ${end.wasKilled ? `killed ${isInRecovery ? 'opening' : 'working'}` : 'closed'}, ` +
        `${this.#ledger.counts.acknowledged} acknowledged, ${this.#interrupted} interrupted, ${this.#ledger.violations.length} violations`,
    );
  }

  #plan(life: number, kill: KillTime | undefined, mode: Plan['mode']): Plan {
    const isInline = this.#random() < 0.35;
    const closes = mode === 'work' && (kill === undefined || kill.after === 'closing');
    const unacknowledged = [...this.#ledger.messages.values()].filter(
      (story) => story.pendingId === undefined && story.isRefused === undefined,
    );
    const acknowledged = [...this.#ledger.messages.values()].filter((story) => story.pendingId !== undefined);
    const isKeyed = ({ key }: { readonly key?: string }): boolean => key !== undefined;
    const unspawned = [...this.#ledger.spawns.values()].filter((story) => story.child === undefined);
    const spawned = [...this.#ledger.spawns.values()].filter((story) => story.child !== undefined);
    return {
      directory: join(this.#directory, 'store'),
      life,
      seed: Math.floor(this.#random() * 2 ** 32),
      threads: { sessions: isInline ? 0 : 1, models: isInline ? 0 : Number(this.#random() < 0.7) },
      isInline,
      mode,
      ...(closes ? { closeAfterMs: this.#random() * 60 } : {}),
      resend: [...unacknowledged, ...this.#some(acknowledged)].map((story) => story.message).filter(isKeyed),
      respawn: [...unspawned, ...this.#some(spawned)].map((story) => story.wish).filter(isKeyed),
      ask: this.#some([...this.#ledger.answers.values()]).map(({ session, pendingId }) => ({ session, pendingId })),
      watch: ['long-0', 'long-1', 'pool-3'].map((session) => ({ session, after: this.#toldUpTo(session) })),
    };
  }

  /** Some of a list, the newest rather than the oldest. */
  #some<T>(list: readonly T[]): readonly T[] {
    const recent = list.slice(-10 * REPEATS);
    return Array.from(
      { length: Math.min(REPEATS, recent.length) },
      () => recent[Math.floor(this.#random() * recent.length)],
    ).filter((each) => each !== undefined);
  }

  /** A little before the newest event told, so that what is told again can be compared. */
  #toldUpTo(session: string): number {
    const told = this.#ledger.events.get(session);
    if (told === undefined) return 0;
    let last = 0;
    for (const seq of told.keys()) last = Math.max(last, seq);
    return Math.max(0, last - 10);
  }

  async #check(life: number, wasKilled: boolean, mode: Plan['mode']): Promise<void> {
    this.#ledger.hearTools(this.#tools.next());
    this.#ledger.hearCalls(this.#calls.next());
    const reading = await this.#store.read(mode === 'finish');
    this.#checker.check(reading, { number: life, wasKilled });
    if (mode === 'finish') this.#checker.checkFinished(reading.sessions);
    this.#interrupted = 0;
    this.#messages = 0;
    for (const { state } of reading.sessions.values()) {
      if (state.state !== 'idle' || state.mailbox.length > 0) this.#interrupted += 1;
      this.#messages += state.nextMessageSeq - 1;
    }
    this.#sessions = reading.sessions.size;
  }
}
