/**
 * A generation is a series of lives over one directory. Each life has its own plan and end, and checks follow each.
 * Then one life finishes, and the whole store is read again. The next victim starts while the current one lives, so
 * that loading its modules costs no time between two lives.
 */
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreLockedError } from '../../src/base/errors.ts';
import type { Durability } from '../../src/journal/journal.ts';
import { DATA_FILE } from '../../src/journal/lmdb/tables.ts';
import { compact } from '../../src/journal/store/compaction.ts';
import { isThere } from '../../src/journal/store/durable-file.ts';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { drawFate, type Fate, SHORT_TIMEOUTS } from './assaults.ts';
import { scanCanaries } from './canaries.ts';
import { Checker } from './checks.ts';
import { type Counts, Ledger, type Violation } from './ledger.ts';
import { Life, type LifeEnd } from './life.ts';
import {
  CALL_FILE,
  type CallLine,
  familyOf,
  isMortal,
  type Plan,
  randomFrom,
  TOOL_FILE,
  type ToolLine,
} from './protocol.ts';
import { LineReader } from './side-file.ts';
import { type Reading, StoreFacts } from './store-facts.ts';

/** The parameters of one generation. */
export interface GenerationOptions {
  readonly number: number;
  readonly seed: number;
  /** Number of processes to kill; lives that end otherwise do not count. */
  readonly kills: number;
  readonly durability: Durability;
  /** The number of session threads that the store has. */
  readonly shards: number;
  /**
   * True if enrichers run for its sessions. This holds for all its lives, since the effects of enrichers are part of
   * the sessions' requests.
   */
  readonly isEnriched: boolean;
  /** The directory of store and side files; the generation creates it. */
  readonly directory: string;
  /** The victim's compiled script. */
  readonly script: string;
  /** Called after each life with one line. */
  readonly progress?: (text: string) => void;
  /** Checked before each life: another generation may have found too many violations. */
  readonly isOver: () => boolean;
}

/** How lives ended. */
export interface Ends {
  kills: number;
  /** Kills that left a deleted session in the store's rows, results or index, which the next life erases. */
  killsInErasure: number;
  /** Kills that left old history of a session in its rows, after it was removed. */
  killsInRemoval: number;
  /** Kills while the files were compacted, by `compact` or at an open. */
  killsInCompaction: number;
  /** Kills between the start of `open` and the flush of the recovery, with interrupted sessions in the store. */
  killsInRecovery: number;
  /** By the runtime's `close`, or because everything was finished. */
  closes: number;
  /** By SIGTERM, in good order. */
  terms: number;
  /** By a second SIGTERM, while they closed. */
  cuts: number;
  /** Stopped for longer than their timeouts, and continued. */
  stops: number;
}

/** The result of one generation. */
export interface GenerationReport {
  readonly ends: Ends;
  readonly sessions: number;
  readonly messages: number;
  readonly checkpoints: number;
  /** Prepared turns and summaries in the logs. */
  readonly prepared: number;
  readonly summaries: number;
  readonly compactions: number;
  readonly removals: number;
  readonly scans: number;
  readonly places: ReadonlySet<string>;
  readonly counts: Counts;
  readonly violations: readonly Violation[];
}

/** The folder in which a shard's file is copied (`compaction.ts`). */
const UNFINISHED_COPY = 'compacting';
/** Violations after which the generation stops: more would repeat the same story. */
const VIOLATIONS_MAX = 20;
/** Number of acknowledged keys, and of reported answers, that each life requests again. */
const REPEATS = 8;
/** Assumed milliseconds of an open before one was measured: with worker threads, and on one thread. */
const OPEN_MS = { threads: 300, inline: 80 };
const FLOOD_SESSIONS = 350;
/** The same of a compaction. */
const COMPACT_MS = 100;
/** Sessions with an image of 1 MB. Once they are erased, the next open compacts a file (`COMPACT_FREE_BYTES_MIN`). */
const BALLAST_SESSIONS = 26;
/** Milliseconds for which history is kept: longer than most lives, and shorter than a generation. */
const RETENTION_MS = 4_000;
/** Share of the lives that remove old history. */
const RETENTION_SHARE = 0.7;
/** Readings between two scans for bytes of deleted sessions. */
const SCAN_EVERY = 5;
/** Most sessions of earlier lives that a life deletes. */
const LATE_DELETIONS = 2;
/** Share of lives without worker threads. Such lives open in a quarter of the time. */
const INLINE_SHARE = 0.45;

/** A count of zero for each kind of end. */
export function noEnds(): Ends {
  const kills = { kills: 0, killsInRecovery: 0, killsInErasure: 0, killsInRemoval: 0, killsInCompaction: 0 };
  return { ...kills, closes: 0, terms: 0, cuts: 0, stops: 0 };
}

/** Runs the generation; resolves with its findings. Rejects if a victim cannot run at all. */
export async function runGeneration(options: GenerationOptions): Promise<GenerationReport> {
  return new Generation(options).run();
}

class Generation {
  readonly #options: GenerationOptions;
  readonly #random: () => number;
  readonly #ledger = new Ledger();
  readonly #checker: Checker;
  readonly #store: StoreFacts;
  readonly #tools: LineReader<ToolLine>;
  readonly #calls: LineReader<CallLine>;
  readonly #ends: Ends = noEnds();
  readonly #openMs = { ...OPEN_MS };
  #compactMs = COMPACT_MS;
  #compactions = 0;
  #scans = 0;
  readonly #places = new Set<string>();
  /** The identities of the data files at the last look. */
  #files: readonly (number | undefined)[] = [];
  #hasUnfinishedCopy = false;
  #interrupted = 0;
  #interruptedBefore = 0;
  #reading: Reading | undefined;

  constructor(options: GenerationOptions) {
    const { directory, seed } = options;
    this.#options = options;
    this.#random = randomFrom(seed);
    this.#checker = new Checker(this.#ledger);
    this.#store = new StoreFacts(join(directory, 'store'));
    this.#tools = new LineReader(join(directory, TOOL_FILE));
    this.#calls = new LineReader(join(directory, CALL_FILE));
  }

  async run(): Promise<GenerationReport> {
    const { directory, script, kills } = this.#options;
    await mkdir(directory, { recursive: true });
    let next = new Life(1, script, directory);
    try {
      while (this.#ends.kills < kills && !this.#isOver) {
        const life = next;
        next = new Life(life.number + 1, script, directory);
        await this.#live(life, 'work');
      }
      if (!this.#isOver) await this.#live(next, 'finish');
    } finally {
      await next.discard();
    }
    return this.#report();
  }

  get #isOver(): boolean {
    return this.#ledger.violations.length >= VIOLATIONS_MAX || this.#options.isOver();
  }

  #report(): GenerationReport {
    const sessions = [...(this.#reading?.sessions.values() ?? [])];
    return {
      ends: this.#ends,
      sessions: sessions.length,
      messages: sessions.reduce((sum, { state }) => sum + state.nextMessageSeq - 1, 0),
      checkpoints: this.#reading?.checkpoints ?? 0,
      prepared: sessions.reduce((sum, { enrichers }) => sum + enrichers.prepared.length, 0),
      compactions: this.#compactions,
      removals: this.#reading?.removals ?? 0,
      scans: this.#scans,
      places: this.#places,
      summaries: sessions.reduce((sum, { state }) => sum + (state.memory?.snapshots.length ?? 0), 0),
      counts: this.#ledger.counts,
      violations: this.#ledger.violations,
    };
  }

  async #live(life: Life, mode: Plan['mode']): Promise<void> {
    // The first life creates the store with its final number of session threads.
    const isInline = this.#reading !== undefined && this.#reading.shards > 0 && this.#random() < INLINE_SHARE;
    const openMs = this.#openMs[isInline ? 'inline' : 'threads'];
    const { kills, killsInRecovery } = this.#ends;
    const interrupted = this.#interrupted;
    const compactMs = this.#compactMs;
    const odds = { random: this.#random, openMs, compactMs, kills, killsInRecovery, interrupted };
    // Only a store can be compacted.
    const fate: Fate = mode === 'finish' ? {} : drawFate({ ...odds, hasStore: (this.#reading?.shards ?? 0) > 0 });
    const end = await life.live({
      plan: this.#plan(life.number, { fate, mode, isInline }),
      assault: fate.assault,
      hear: (line) => this.#ledger.hear(line),
      stopped: () => this.#tryLock(),
    });
    if (end.openMs !== undefined) this.#openMs[isInline ? 'inline' : 'threads'] = end.openMs;
    if (end.compactMs !== undefined) this.#compactMs = end.compactMs;
    await this.#countCompactions(end);
    if (fate.isCompaction === true) await this.#checkCompaction();
    else await this.#check({ life: life.number, end, fate, mode });
    this.#count(end);
    await this.#scan(life.number, mode);
    this.#publishProgress(life.number, end);
  }

  #count({ how, told, signals }: LifeEnd): void {
    const ends = this.#ends;
    if (signals.includes('SIGCONT')) ends.stops += 1;
    if (how === 'cut') ends.cuts += 1;
    else if (how === 'killed') ends.kills += 1;
    else if (signals.includes('SIGTERM')) ends.terms += 1;
    else ends.closes += 1;
    const isInRecovery = how === 'killed' && told.has('opening') && !told.has('recovered');
    if (isInRecovery && this.#interruptedBefore > 0) ends.killsInRecovery += 1;
    if (how !== 'killed' || told.has('compacting')) return;
    if ((this.#reading?.erasing ?? 0) > 0) ends.killsInErasure += 1;
    if ((this.#reading?.removing ?? 0) > 0) ends.killsInRemoval += 1;
  }

  /** A compacted file is another file; an unfinished copy is in the folder `compacting`. */
  async #countCompactions({ how, told }: LifeEnd): Promise<void> {
    const store = join(this.#options.directory, 'store');
    const files: (number | undefined)[] = [];
    let hasCopy = false;
    for (let shard = 0; shard < this.#options.shards; shard += 1) {
      const directory = shardDirectory(store, shard);
      files.push((await stat(join(directory, DATA_FILE)).catch(() => undefined))?.ino);
      hasCopy ||= await isThere(join(directory, UNFINISHED_COPY));
    }
    const before = this.#files;
    this.#compactions += files.filter((file, shard) => before[shard] !== undefined && before[shard] !== file).length;
    this.#files = files;
    this.#hasUnfinishedCopy = hasCopy;
    const isInCompaction = hasCopy || (told.has('compacting') && !told.has('compacted'));
    if (how === 'killed' && isInCompaction) this.#ends.killsInCompaction += 1;
  }

  async #checkCompaction(): Promise<void> {
    const before = this.#reading;
    const reading = await this.#store.read(true);
    this.#reading = reading;
    if (before !== undefined) this.#checker.checkCompacted(reading, before);
  }

  /** No byte of an erased session is left. After the last life the files are compacted first. */
  async #scan(life: number, mode: Plan['mode']): Promise<void> {
    const isLast = mode === 'finish';
    // The next life removes an unfinished copy, whose tables cannot be read.
    if (!isLast && (life % SCAN_EVERY !== 0 || this.#hasUnfinishedCopy)) return;
    const store = join(this.#options.directory, 'store');
    if (isLast) {
      if ((this.#reading?.erasing ?? 0) > 0) this.#ledger.violate('stuck', 'deleted sessions are not erased');
      await compact(store);
      await this.#checkCompaction();
    }
    this.#scans += 1;
    const { left, places } = await scanCanaries(store, this.#reading?.families ?? new Set(), isLast);
    for (const text of left) this.#ledger.violate('left', text);
    for (const place of places) this.#places.add(place);
  }

  #plan(
    life: number,
    { fate, mode, isInline }: { readonly fate: Fate; readonly mode: Plan['mode']; readonly isInline: boolean },
  ): Plan {
    const { durability, shards, isEnriched, directory } = this.#options;
    const { sessions } = this.#ledger;
    const messages = [...this.#ledger.messages.values()].filter(({ message }) => message.key !== undefined);
    const unacknowledged = messages.filter(({ pendingId, isRefused }) => pendingId === undefined && !isRefused);
    const acknowledged = messages.filter(({ pendingId }) => pendingId !== undefined);
    const spawns = [...this.#ledger.spawns.values()].filter(({ wish }) => wish.key !== undefined);
    const unspawned = spawns.filter(({ child }) => child === undefined);
    const spawned = spawns.filter(({ child }) => child !== undefined);
    const answers = [...this.#ledger.answers.values()].filter(({ session }) => !sessions.mayBeGone(session));
    return {
      directory: join(directory, 'store'),
      life,
      seed: Math.floor(this.#random() * 2 ** 32),
      durability,
      threads: { sessions: isInline ? 0 : shards, models: isInline ? 0 : Number(this.#random() < 0.6) },
      isInline,
      isEnriched,
      mode: fate.isCompaction === true ? 'compact' : mode,
      ...(this.#removesHistory(fate, mode) ? { retentionMs: RETENTION_MS } : {}),
      ballast: fate.hasBallast === true ? BALLAST_SESSIONS : 0,
      ...(fate.closeAfterMs === undefined ? {} : { closeAfterMs: fate.closeAfterMs }),
      ...(fate.isStopped === true ? { timeouts: SHORT_TIMEOUTS } : {}),
      flood: fate.isFlood === true ? FLOOD_SESSIONS : 0,
      remove: [...sessions.unacknowledged, ...this.#due(mode)],
      resume: mode === 'finish' ? sessions.maybePaused : [],
      resend: [...unacknowledged, ...this.#some(acknowledged)].map((story) => story.message),
      respawn: [...unspawned, ...this.#some(spawned)].map((story) => story.wish),
      ask: this.#some(answers).map(({ session, pendingId }) => ({ session, pendingId })),
      watch: ['long-0', 'long-1', 'pool-3'].map((session) => ({ session, after: this.#toldUpTo(session) })),
    };
  }

  /** Lives that must last longer than the time for which history is kept do not remove any. */
  #removesHistory({ isStopped, isFlood, hasBallast }: Fate, mode: Plan['mode']): boolean {
    return mode === 'work' && !isStopped && !isFlood && !hasBallast && this.#random() < RETENTION_SHARE;
  }

  /** Sessions of earlier lives to delete. At the end whole families stay whose deletion was never requested. */
  #due(mode: Plan['mode']): readonly string[] {
    const { sessions } = this.#ledger;
    const ids = [...(this.#reading?.sessions.keys() ?? [])];
    const there = ids.filter((id) => isMortal(id) && !id.includes(':') && !sessions.mayBeGone(id));
    if (mode !== 'finish') return this.#some(there).slice(0, LATE_DELETIONS);
    const begun = new Set([...sessions.deletions.keys()].map(familyOf));
    return there.filter((id) => begun.has(familyOf(id)));
  }

  /** A sample of a list that prefers newer elements. */
  #some<T>(list: readonly T[]): readonly T[] {
    const recent = list.slice(-10 * REPEATS);
    return Array.from(
      { length: Math.min(REPEATS, recent.length) },
      () => recent[Math.floor(this.#random() * recent.length)],
    ).filter((each) => each !== undefined);
  }

  /** A number a little before the newest reported event, so that repeated reports can be compared. */
  #toldUpTo(session: string): number {
    const told = this.#ledger.events.get(session);
    if (told === undefined) return 0;
    let last = 0;
    for (const seq of told.keys()) last = Math.max(last, seq);
    return Math.max(0, last - 10);
  }

  /** A stopped process still owns its directory. */
  async #tryLock(): Promise<void> {
    try {
      await (await acquireStoreLock(join(this.#options.directory, 'store'))).release();
      this.#ledger.violate('failed', 'the directory of a process that is stopped was given to another');
    } catch (error) {
      if (!(error instanceof StoreLockedError)) this.#ledger.violate('failed', `the lock: ${error}`);
    }
  }

  async #check(past: {
    readonly life: number;
    readonly end: LifeEnd;
    readonly fate: Fate;
    readonly mode: Plan['mode'];
  }): Promise<void> {
    const { life, end, fate, mode } = past;
    this.#ledger.hearTools(this.#tools.next());
    this.#ledger.hearCalls(this.#calls.next());
    const reading = await this.#store.read(mode === 'finish');
    this.#reading = reading;
    this.#checker.check(reading, {
      number: life,
      wasKilled: end.how !== 'closed',
      isStrict: this.#options.durability === 'strict',
      isEnriched: this.#options.isEnriched,
      ...(fate.isStopped === true ? { toolTimeoutMs: SHORT_TIMEOUTS.toolMs } : {}),
    });
    if (mode === 'finish') this.#checker.checkFinished(reading.sessions);
    this.#interruptedBefore = this.#interrupted;
    this.#interrupted = 0;
    for (const { state } of reading.sessions.values())
      if (state.state !== 'idle' || state.mailbox.length > 0) this.#interrupted += 1;
  }

  #publishProgress(life: number, { how, signals, told }: LifeEnd): void {
    const { number, durability, shards, isEnriched, progress } = this.#options;
    const { violations } = this.#ledger;
    const where = told.has('compacting') ? 'compacting' : told.has('recovered') ? 'at work' : 'opening';
    progress?.(
      `generation ${number} (${durability}, ${shards} threads${isEnriched ? ', enriched' : ''}) life ${life}: ${how} ${where} ${signals.join(' ')}, ` +
        `${this.#ledger.counts.acknowledged} acknowledged, ${this.#interrupted} interrupted, ${violations.length} violations${violations.map(({ what }) => `; ${what}`).join('')}`,
    );
  }
}
