/**
 * One cluster of the loop: its nodes, its client, the faults that are done to it, and the verdict at its end.
 *
 * Owns: the schema, the directories, the nodes and the client. Does not own: the server, and which faults come when.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { TestServer } from '../support/server.ts';
import { isThawed, judge } from './checks.ts';
import { Driver } from './driver.ts';
import type { Counts, Times, Violation, ViolationKind } from './findings.ts';
import { NodeProcess } from './node-process.ts';
import type { EffectLine, Note, SessionFacts } from './protocol.ts';
import { RegisterBook } from './register-book.ts';

/** Milliseconds after which something that was awaited is called stuck. */
const STUCK_MS = 60_000;
/** Milliseconds between two looks at the database. */
const LOOK_MS = 10;
/** Messages that a former owner is sent after another one has the sessions. */
const FORMER_MESSAGES = 3;

/** The parts of a cluster. */
export interface ClusterParts {
  readonly server: TestServer;
  /** The compiled program of a node. */
  readonly script: string;
  /** The schema in the database, which no other cluster has. */
  readonly schema: string;
  /** A new directory for everything of this cluster. */
  readonly directory: string;
  readonly sessions: number;
  readonly pauseMs: number;
  readonly leaseMs: number;
  readonly holdMs: number;
  readonly threads: number;
  /** True if outages are longer than commits are held, so that messages may be refused. */
  readonly mayRefuse: boolean;
  readonly random: () => number;
  readonly counts: Counts;
  readonly times: Times;
  readonly report: (violation: Violation) => void;
}

/** Something that was awaited did not come. */
export class StuckError extends Error {}

/** See the head of this file. */
export class FaultyCluster {
  readonly driver: Driver;
  readonly book: RegisterBook;
  readonly #parts: ClusterParts;
  readonly #effects: string;
  readonly #nodes = new Set<NodeProcess>();
  readonly #former: string[] = [];
  /** The times at which nodes continued after a freeze. */
  readonly #thawed = new Map<string, number>();
  #started = 0;
  #owner: NodeProcess | undefined;
  #standby: NodeProcess | undefined;

  constructor(parts: ClusterParts) {
    const { directory, sessions, pauseMs, random, server, schema } = parts;
    this.#parts = parts;
    mkdirSync(directory, { recursive: true });
    this.#effects = join(directory, 'effects.jsonl');
    this.book = new RegisterBook(server.url, schema);
    this.driver = new Driver({ sessions, pauseMs, random, file: join(directory, 'acknowledged') });
  }

  get owner(): NodeProcess {
    if (this.#owner === undefined) throw new StuckError('there is no owner');
    return this.#owner;
  }

  /** Starts an owner under load. `hasStandby`: and a node that waits. */
  async open(hasStandby: boolean): Promise<void> {
    this.#parts.counts.clusters += 1;
    await this.book.open();
    const first = await this.#start();
    await this.#opened(first);
    this.driver.attach(first);
    if (hasStandby) this.#standby = await this.#start();
    await inTime(this.driver.progress(this.#parts.sessions), 'the first acknowledgements');
  }

  // ---- faults that end an owner -------------------------------------------------------------------------------------

  async kill(): Promise<void> {
    const former = await this.#readyToMove();
    const before = Math.max(...(await this.book.ends()).epochs);
    const killedMs = Date.now();
    await former.kill();
    this.#nodes.delete(former);
    await this.#takenOver();
    const { counts, times } = this.#parts;
    counts.kills += 1;
    await inTime(this.driver.caughtUp(), 'the messages that were open at a kill');
    const [claimMs, firstMs] = [await this.book.claimMs(), await this.book.firstEntryMs(before)];
    if (claimMs !== undefined) times.claimMs.push(claimMs - killedMs);
    if (firstMs !== undefined) times.firstCommitMs.push(firstMs - killedMs);
    await this.#startStandby(former);
  }

  /** The owner stands still until another one has the sessions. */
  async freeze(): Promise<void> {
    const former = await this.#readyToMove();
    former.signal('SIGSTOP');
    await this.#takenOver();
    const asked = this.#askFormer(former);
    await wait(this.#parts.random() * 200);
    this.#thawed.set(former.plan.name, Date.now());
    former.signal('SIGCONT');
    await this.#formerEnded(former, asked);
    this.#parts.counts.freezes += 1;
    await inTime(this.driver.caughtUp(), 'the messages that were open at a freeze');
    await this.#startStandby(former);
  }

  /** The owner loses its network; what it sent arrives after another one has the sessions. */
  async blackHole(): Promise<void> {
    const former = await this.#readyToMove();
    former.line.blackHole();
    await this.#takenOver();
    const asked = this.#askFormer(former);
    await wait(this.#parts.random() * 200);
    former.line.deliver();
    await this.#formerEnded(former, asked);
    this.#parts.counts.blackHoles += 1;
    await inTime(this.driver.caughtUp(), 'the messages that were open in a black hole');
    await this.#startStandby(former);
  }

  // ---- faults of the line -------------------------------------------------------------------------------------------

  /** Waits for so many entries, and cuts the connections of the owner in one of three ways. */
  async cut(entries: number): Promise<void> {
    const { counts, random } = this.#parts;
    const { line } = this.owner;
    await this.#entriesAfter(entries);
    const chance = random();
    if (chance < 0.3) {
      line.loseAnswers();
      // Every entry beyond these was written while answers were lost.
      const from = (await this.book.ends()).entries;
      await this.#until(async () => (await this.book.ends()).entries > from, 'an entry whose answer is lost', 2_000);
      counts.lostAnswers += (await this.book.ends()).entries - from;
      line.cut();
    } else if (chance < 0.45) {
      const end = await line.delayAppend(random() * 40, random() * 40, 2_000);
      if (end === 'landed') counts.lateLanded += 1;
      if (end === 'refused') counts.lateRefused += 1;
    } else {
      await wait(random() * 30);
      line.cut();
    }
    counts.cuts += 1;
  }

  // ---- faults of the database ---------------------------------------------------------------------------------------

  /** Kills the database, starts it again after `downMs`, and checks that no session has moved. */
  async outage(downMs: number): Promise<void> {
    const { counts, times, server, holdMs } = this.#parts;
    await this.#readyToMove();
    const before = (await this.book.ends()).epochs;
    const refusals = totalOf(this.driver.refusals);
    await server.kill();
    await wait(downMs);
    if (downMs > holdMs) {
      times.refusalMs.push(this.driver.longestMs);
      if (totalOf(this.driver.refusals) === refusals) this.#violated('stuck', `no message was refused in ${downMs} ms`);
    }
    await server.restart();
    const upMs = Date.now();
    await this.#appendsAfter(upMs);
    await this.#stayed(before, `an outage of ${downMs} ms`);
    if (downMs === 0) counts.restarts += 1;
    else counts.outages += 1;
  }

  /** The database answers no node for a while, and then works off what it was sent. */
  async stall(stallMs: number): Promise<void> {
    await this.#readyToMove();
    const before = (await this.book.ends()).epochs;
    const lines = [...this.#nodes].map(({ line }) => line);
    for (const line of lines) line.blackHole();
    await wait(stallMs);
    if (this.#parts.random() < 0.5) lines.reverse();
    for (const line of lines) line.deliver();
    await this.#appendsAfter(Date.now());
    await this.#stayed(before, `a stall of ${stallMs.toFixed(0)} ms`);
    this.#parts.counts.stalls += 1;
  }

  /** The log goes back by so many entries, and the owner appends them again. */
  async setBack(entries: number): Promise<void> {
    const { counts } = this.#parts;
    await this.#until(async () => (await this.book.ends()).entries > 2 * entries, `${entries} entries`);
    const before = (await this.book.ends()).epochs;
    const taken = await this.book.setBack(entries);
    if (taken !== entries) throw new Error(`${taken} entries were taken out in place of ${entries}`);
    counts.setBacks += 1;
    await inTime(this.driver.progress(this.#parts.sessions), 'acknowledgements after the log went back');
    await this.#unmoved(before, `a log that went back by ${entries}`);
    counts.healed += 1;
  }

  /** The log goes back while there is no owner, and a node with a copy that has more opens it. Nothing is checked after it. */
  async setBackAlone(entries: number): Promise<void> {
    const { counts } = this.#parts;
    await this.#until(async () => (await this.book.ends()).entries > 2 * entries, `${entries} entries`);
    this.driver.pause();
    const former = this.owner;
    await inTime(this.driver.caughtUp(), 'the last acknowledgements');
    await inTime(former.close(), 'a close');
    this.#nodes.delete(former);
    await this.book.setBack(entries);
    counts.setBacks += 1;
    const next = await this.#start(former.plan.directory);
    await this.#opened(next);
    const isAside = readdirSync(former.plan.directory).some((name) => name.startsWith('diverged-'));
    if (isAside && next.log.includes('put aside')) counts.diverged += 1;
    else this.#violated('silent', `a log that went back by ${entries} without an owner`);
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  /** Everything comes to rest; then a node with an empty directory reads all of it, and the verdict follows. */
  async verify(): Promise<void> {
    const { counts } = this.#parts;
    this.driver.pause();
    await inTime(this.driver.caughtUp(), 'the last acknowledgements');
    await this.#standby?.kill();
    const owner = this.owner;
    await inTime(owner.drain(), 'the end of all work').catch(async (error: unknown) => {
      const text = await inTime(owner.explain(), 'an explanation');
      throw new StuckError(`waited for the end of all work: ${text}`, { cause: error });
    });
    await inTime(owner.close(), 'a close');
    this.#nodes.clear();
    const reader = await this.#start();
    await this.#opened(reader);
    await inTime(reader.drain(), 'the end of all work at the reader');
    const sessions = await inTime(reader.read(), 'all sessions');
    await inTime(reader.close(), 'the close of the reader');
    this.#nodes.delete(reader);
    const effects = this.#readEffects();
    const leases = await this.book.leases();
    const { acknowledged, answers, wrong } = this.driver;
    const violations = judge({
      ...{ acknowledged, answers, wrong, sessions, effects },
      former: this.#former,
      thawed: this.#thawed,
      overMs: (node, atMs) => leases.overMs(node, atMs),
    });
    const log = await this.book.checkLog();
    const { refusals } = this.driver;
    if (!this.#parts.mayRefuse && refusals.size > 0) {
      this.#violated('refused', [...refusals].map(([code, count]) => `${count} ${code}`).join(', '));
    }
    for (const violation of [...violations, ...log.violations]) this.#violated(violation.kind, violation.what);
    this.#count(sessions, effects);
    counts.thawed += effects.filter(
      (effect) => isThawed(effect, this.#thawed) && leases.overMs(effect.node, effect.atMs) > 0,
    ).length;
    counts.entries += log.size.entries;
    counts.bytes += log.size.bytes;
    counts.claims += log.size.claims;
  }

  /** Ends everything that still runs. */
  async close(): Promise<void> {
    await Promise.all([...this.#nodes].map((node) => node.kill()));
    await this.book.close();
  }

  /** The last lines that the nodes wrote to their logs, for a person. */
  logs(): readonly string[] {
    return [...this.#nodes].map(({ plan, log }) => `${plan.name}: ${log.slice(-2_000)}`);
  }

  #count(sessions: readonly SessionFacts[], effects: readonly EffectLine[]): void {
    const { counts } = this.#parts;
    counts.acknowledged += this.driver.total;
    counts.answers += this.driver.answers.size;
    counts.children += sessions.filter(({ parent }) => parent !== undefined).length;
    counts.toolRuns += effects.filter(({ kind }) => kind === 'tool').length;
    counts.modelCalls += effects.filter(({ kind }) => kind === 'model').length;
    const onces = sessions.flatMap(({ messages }) =>
      messages.filter(({ type, tool }) => type === 'tool_response' && tool === 'once'),
    );
    counts.onceCalls += onces.length;
    counts.onceUnknown += onces.filter(({ failed }) => failed === true).length;
  }

  #readEffects(): readonly EffectLine[] {
    return readFileSync(this.#effects, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as EffectLine);
  }

  /** A node with this directory; with a new one by default. */
  async #start(directory?: string): Promise<NodeProcess> {
    const { leaseMs, holdMs, threads, schema, script, server } = this.#parts;
    this.#started += 1;
    const name = `n${this.#started}`;
    const node = await NodeProcess.start({
      script,
      socket: server.socket,
      plan: {
        ...{ name, schema, leaseMs, holdMs, threads, effects: this.#effects },
        directory: directory ?? join(this.#parts.directory, name),
      },
      listen: (from: NodeProcess, note: Note) => this.driver.listen(from, note),
    });
    this.#nodes.add(node);
    return node;
  }

  /** Half of the standbys have the copy of a former owner. */
  async #startStandby(former: NodeProcess): Promise<void> {
    this.#standby = await this.#start(this.#parts.random() < 0.5 ? former.plan.directory : undefined);
  }

  /** Waits until the standby may take over, and some messages are acknowledged. Resolves to the owner. */
  async #readyToMove(): Promise<NodeProcess> {
    const { random, leaseMs } = this.#parts;
    await inTime(this.driver.progress(10 + Math.floor(random() * 20)), 'acknowledgements before a fault');
    const standby = this.#standby;
    if (standby !== undefined) {
      const isWarm = async (): Promise<boolean> => ((await this.book.stayMs(standby.plan.name)) ?? 0) > 1.2 * leaseMs;
      await this.#until(isWarm, 'a standby');
    }
    return this.owner;
  }

  /** Waits until the standby has the sessions, and sends everything to it. */
  async #takenOver(): Promise<void> {
    const standby = this.#standby;
    if (standby === undefined) throw new StuckError('there is no standby');
    await this.#opened(standby);
    this.#standby = undefined;
    this.driver.attach(standby);
  }

  async #opened(node: NodeProcess): Promise<void> {
    const ended = node.ended.then((reason) => {
      throw new StuckError(`the node ${node.plan.name} ended (${reason}) before it was open: ${node.log}`);
    });
    await inTime(Promise.race([node.opened, ended]), `that ${node.plan.name} opens`);
    this.#owner = node;
  }

  #askFormer(former: NodeProcess): readonly string[] {
    const keys = this.driver.askFormer(former, FORMER_MESSAGES);
    this.#former.push(...keys);
    return keys;
  }

  async #formerEnded(former: NodeProcess, asked: readonly string[]): Promise<void> {
    const { counts } = this.#parts;
    const before = totalOf(this.driver.formerRefusals);
    const reason = await inTime(former.ended, 'the end of a former owner');
    if (reason !== 'moved')
      this.#violated('former', `${former.plan.name} ended with the reason ${reason}: ${former.log}`);
    this.#nodes.delete(former);
    counts.formerAsked += asked.length;
    counts.formerRefused += totalOf(this.driver.formerRefusals) - before;
  }

  async #entriesAfter(entries: number): Promise<void> {
    const goal = (await this.book.ends()).entries + entries;
    await this.#until(async () => (await this.book.ends()).entries >= goal, `${entries} more entries`);
  }

  async #appendsAfter(ms: number): Promise<void> {
    let atMs: number | undefined;
    await this.#until(async () => {
      atMs = await this.book.firstEntryAfterMs(ms);
      return atMs !== undefined;
    }, 'an append');
    if (atMs !== undefined) this.#parts.times.appendMs.push(atMs - ms);
  }

  /** Gives the standby time to claim, and checks that it did not. */
  async #stayed(before: readonly number[], what: string): Promise<void> {
    await wait(this.#parts.leaseMs / 2);
    await this.#unmoved(before, what);
    await inTime(this.driver.caughtUp(), `the messages that were open in ${what}`);
  }

  async #unmoved(before: readonly number[], what: string): Promise<void> {
    const { epochs } = await this.book.ends();
    if (epochs.join() === before.join()) return;
    this.#violated('moved', `${what}: claims ${before.join()} became ${epochs.join()}`);
    // The standby has the sessions now.
    const former = this.owner;
    await this.#takenOver();
    await inTime(former.ended, 'the end of a former owner');
    this.#nodes.delete(former);
    await this.#startStandby(former);
  }

  /** Waits until something holds; after `quietMs`, if it is given, without an error. */
  async #until(isMet: () => Promise<boolean>, what: string, quietMs?: number): Promise<void> {
    const deadlineMs = performance.now() + (quietMs ?? STUCK_MS);
    while (!(await isMet())) {
      if (performance.now() >= deadlineMs) {
        if (quietMs !== undefined) return;
        throw new StuckError(`waited for ${what}`);
      }
      await wait(LOOK_MS);
    }
  }

  #violated(kind: ViolationKind, what: string): void {
    this.#parts.report({ kind, what: `${this.#parts.schema}: ${what}` });
  }
}

/** The result of a promise that settles in time; rejects with `StuckError` otherwise. */
async function inTime<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new StuckError(`waited for ${what}`)), STUCK_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function totalOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}
