/**
 * Clients that never read, from many loopback addresses, until `troupe serve` refuses: readers of events and pages. By
 * hand: `node --import ./test/loader/register.mjs test/attack/readers.ts [readers] [pages] [sessions] [messages]`; it
 * then also asserts that health is answered within 100 ms. It runs only on Linux, since other systems have one loopback
 * address.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type EventReader, readEvents } from '../support/event-reader.ts';
import { ADDRESSES, ask, countFound, type Health, peakOf, startServer, watchHealth } from './server.ts';

/** The size of the attack. */
export interface AttackPlan {
  /** Readers of events that never read. */
  readonly readers: number;
  /** Requests for pages whose answers are never read. */
  readonly pages: number;
  readonly sessions: number;
  /** Messages of each session before the attack; the same number is sent during the attack. */
  readonly messages: number;
  readonly messageBytes: number;
}

/** The outcome of the attack. */
export interface AttackReport extends Health {
  /** Answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Refusals without a code. */
  readonly untyped: readonly string[];
  readonly peakMegabytes: number;
  /** The slowest acknowledgement during the attack. */
  readonly sendWorstMs: number;
  /** The number of acknowledged messages, and how many of them are in the log. */
  readonly acknowledged: number;
  readonly found: number;
  /** The number of events that a stalled and resumed reader missed, or received twice. */
  readonly eventsWrong: number;
  readonly exitCode: number | null;
}

/** Concurrent connecting clients. */
const BURST = 50;

/** See the head of the file. */
export async function attack(plan: AttackPlan): Promise<AttackReport> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-attack-'));
  const { child, url } = await startServer(directory);
  const port = Number(new URL(url).port);
  const ended = once(child, 'exit');
  const sockets: Socket[] = [];
  const health = watchHealth(url);
  try {
    const ids = Array.from({ length: plan.sessions }, (_, index) => `s${index}`);
    const receipts: { readonly session: string; readonly text: string }[] = [];
    let sendWorstMs = 0;
    const sendAll = async (round: string): Promise<void> => {
      for (let index = 0; index < plan.messages; index += 1) {
        for (const session of ids) {
          const text = `${round} ${index}`;
          const content = `${text} ${'x'.repeat(plan.messageBytes)}`;
          const startedAt = performance.now();
          const { status } = await ask(`${url}/sessions/${session}/messages`, { content });
          sendWorstMs = Math.max(sendWorstMs, performance.now() - startedAt);
          if (status === 202) receipts.push({ session, text });
        }
      }
    };
    await sendAll('before');
    sendWorstMs = 0;
    const stalled = await readEvents(`${url}/sessions/s0/events?mode=debug&after=0`);
    const statuses: Record<string, number> = {};
    const untyped: string[] = [];
    const paths = Array.from({ length: plan.readers + plan.pages }, (_, index) => {
      const session = ids[index % ids.length];
      if (index % (plan.readers + plan.pages) < plan.readers) return `/sessions/${session}/events?mode=debug&after=0`;
      return `/sessions/${session}/${['messages', 'request', 'viewport'][index % 3]}?limit=1000`;
    });
    const during = sendAll('during');
    for (let from = 0; from < paths.length; from += BURST) {
      const burst = paths.slice(from, from + BURST).map(async (path, index) => {
        const said = await openSilent(port, path, `127.0.0.${2 + ((from + index) % ADDRESSES)}`, sockets);
        const status = /^HTTP\/1\.1 (\d+)/.exec(said)?.[1] ?? 'cut off';
        statuses[status] = (statuses[status] ?? 0) + 1;
        if (status !== '200' && status !== 'cut off' && !said.includes('"code":')) untyped.push(said);
      });
      await Promise.all(burst);
    }
    await during;
    const eventsWrong = await readOn(stalled, url);
    for (const socket of sockets.splice(0)) socket.destroy();
    const found = await countFound(url, receipts);
    const peakMegabytes = await peakOf(child);
    const seen = await health.stop();
    child.kill('SIGTERM');
    const [exitCode] = (await ended) as [number | null];
    const acknowledged = receipts.length;
    return { statuses, untyped, peakMegabytes, ...seen, sendWorstMs, acknowledged, found, eventsWrong, exitCode };
  } finally {
    for (const socket of sockets) socket.destroy();
    await health.stop();
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await ended;
    }
    await rm(directory, { recursive: true, force: true });
  }
}

/**
 * Sends a request, reads the first piece of the answer and nothing more. Returns an empty text if the connection was
 * cut off before.
 */
function openSilent(port: number, path: string, localAddress: string, sockets: Socket[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    sockets.push(socket);
    socket.on('error', () => resolve(''));
    socket.on('close', () => resolve(''));
    let said = '';
    const take = (piece: Buffer): void => {
      said += piece.toString('latin1');
      const isWhole = said.startsWith('HTTP/1.1 200') || said.includes('"retryable"');
      if (!isWhole) return;
      socket.off('data', take);
      socket.pause();
      resolve(said.slice(0, 2_000));
    };
    socket.on('data', take);
    socket.once('connect', () => socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`));
  });
}

/**
 * Reads a stalled reader to the newest event, resuming after each cut. Returns the number of events not read exactly
 * once.
 */
async function readOn(first: EventReader, url: string): Promise<number> {
  const { seq: newest } = JSON.parse((await ask(`${url}/sessions/s0`)).text) as { readonly seq: number };
  const times = new Map<number, number>();
  let reader = first;
  for (let last = 0; last < newest; ) {
    try {
      for (let event = await reader.nextEvent(); event !== undefined; event = await reader.nextEvent()) {
        if (event.seq === undefined) continue;
        times.set(event.seq, (times.get(event.seq) ?? 0) + 1);
        last = event.seq;
        if (last >= newest) break;
      }
    } catch {
      // A reader that was cut off in the middle of an event resumes after the last complete event.
    }
    reader.kill();
    if (last < newest) {
      reader = await readEvents(`${url}/sessions/s0/events?mode=debug`, { 'last-event-id': String(last) });
    }
  }
  return Array.from({ length: newest }, (_, index) => times.get(index + 1)).filter((count) => count !== 1).length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [readers = 1_500, pages = 1_500, sessions = 20, messages = 12] = process.argv.slice(2).map(Number);
  const report = await attack({ readers, pages, sessions, messages, messageBytes: 500_000 });
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  const isGood =
    report.peakMegabytes < 1_024 &&
    report.untyped.length === 0 &&
    report.healthFailed === 0 &&
    report.healthWorstMs < 100 &&
    report.found === report.acknowledged &&
    report.eventsWrong === 0 &&
    report.exitCode === 0;
  process.exitCode = isGood ? 0 : 1;
}
