/**
 * Clients that never read, from many loopback addresses, until `troupe serve` refuses: readers of events and pages. By hand:
 * `node --import ./test/loader/register.mjs test/attack/readers.ts [readers] [pages] [sessions] [messages]`; it then also asserts
 * that health is answered within 100 ms. Linux: other systems have one loopback address.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type EventReader, readEvents } from '../support/event-reader.ts';

/** How hard it is. */
export interface AttackPlan {
  /** Readers of events that never read. */
  readonly readers: number;
  /** Requests for pages whose answers are never read. */
  readonly pages: number;
  readonly sessions: number;
  /** Messages of each session before the attack; as many come while it lasts. */
  readonly messages: number;
  readonly messageBytes: number;
}

/** What was seen. */
export interface AttackReport {
  /** Answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Refusals without a code. */
  readonly untyped: readonly string[];
  readonly peakMegabytes: number;
  readonly healthAsked: number;
  /** Probes that were not answered with 200. */
  readonly healthFailed: number;
  readonly healthWorstMs: number;
  /** Slowest acknowledgement while the attack lasted. */
  readonly sendWorstMs: number;
  /** Messages that were acknowledged, and those of them that the log has. */
  readonly acknowledged: number;
  readonly found: number;
  /** Numbers of events a reader that stalled and resumed did not get, or got twice. */
  readonly eventsWrong: number;
  readonly exitCode: number | null;
}

const ADDRESSES = 100;
/** Clients that connect at once. */
const BURST = 50;

interface Answer {
  readonly status: number;
  readonly text: string;
}

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

async function startServer(directory: string): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const source = (path: string): string => new URL(`../../${path}`, import.meta.url).href;
  await writeFile(
    join(directory, 'agents.mjs'),
    `import { agent } from ${JSON.stringify(source('src/index.ts'))};
     import { scripted } from ${JSON.stringify(source('src/testing/scripted.ts'))};
     export default { agents: [agent({ name: 'a' })], provider: scripted({ rules: [], otherwise: 'done' }) };`,
  );
  const main = fileURLToPath(source('src/cli/main.ts'));
  const loader = fileURLToPath(new URL('../loader/register.mjs', import.meta.url));
  const line = ['--import', pathToFileURL(loader).href, main, 'serve', 'data', '--port', '0', '--json'];
  const child = spawn(process.execPath, [...line, '--agents', 'agents.mjs'], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  for await (const piece of child.stdout) {
    said += String(piece);
    if (!said.includes('\n')) continue;
    return { child, url: (JSON.parse(said) as { readonly url: string }).url };
  }
  throw new Error(`the server ended: ${said}`);
}

/** Asks, on a connection of its own. */
function ask(url: string, body?: unknown, localAddress = '127.0.0.1'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const options = { method: body === undefined ? 'GET' : 'POST', headers, localAddress, agent: new Agent() };
    const asked = request(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Asks, reads the first piece of the answer and nothing more. Empty: cut off before. */
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

type Health = Pick<AttackReport, 'healthAsked' | 'healthFailed' | 'healthWorstMs'>;

function watchHealth(url: string): { readonly stop: () => Promise<Health> } {
  const worker = new Worker(new URL('health-watch.ts', import.meta.url), { workerData: { url } });
  const told = once(worker, 'message');
  return {
    async stop() {
      worker.postMessage('stop');
      const [health] = (await told) as [Health];
      return health;
    },
  };
}

/** Reads a stalled reader to the newest event, resuming where it is cut off. Returns how many numbers came not once. */
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
      // Cut off in the middle: what was read whole is resumed from.
    }
    reader.kill();
    if (last < newest) {
      reader = await readEvents(`${url}/sessions/s0/events?mode=debug`, { 'last-event-id': String(last) });
    }
  }
  return Array.from({ length: newest }, (_, index) => times.get(index + 1)).filter((count) => count !== 1).length;
}

/** Acknowledged messages that the logs or the mailboxes have. */
async function countFound(
  url: string,
  receipts: readonly { readonly session: string; readonly text: string }[],
): Promise<number> {
  const said = new Map<string, Set<string>>();
  for (const session of new Set(receipts.map((receipt) => receipt.session))) {
    const texts = new Set<string>();
    for (const list of ['messages', 'pending']) {
      for (let after = ''; ; ) {
        const { text } = await ask(`${url}/sessions/${session}/${list}?limit=1000${after}`);
        const page = JSON.parse(text) as Readonly<Record<string, unknown>>;
        for (const { content } of page[list] as readonly { readonly content: unknown }[]) {
          texts.add(String(content).split(' ', 2).join(' '));
        }
        if (page['next'] === undefined) break;
        after = `&after=${String(page['next'])}`;
      }
    }
    said.set(session, texts);
  }
  return receipts.filter(({ session, text }) => said.get(session)?.has(text) === true).length;
}

async function peakOf(child: ChildProcess): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1_024;
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
