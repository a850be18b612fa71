/**
 * Senders from many loopback addresses fill mailboxes until `troupe serve` refuses. Then the server is started again
 * over the waiting messages. By hand: `node --import ./test/loader/register.mjs test/attack/mailboxes.ts [sessions]
 * [messages of each] [bytes of each]`; it then also asserts that health is answered within 100 ms. It runs only on
 * Linux, since other systems have one loopback address.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ADDRESSES, ask, countFound, type Health, peakOf, startServer, watchHealth } from './server.ts';

/** The size of the flood. */
export interface FloodPlan {
  readonly sessions: number;
  /** Messages sent to each session, in turn. The model never answers, so all messages but the first wait. */
  readonly messages: number;
  readonly messageBytes: number;
}

/** The outcome of the flood. */
export interface FloodReport extends Health {
  /** Answers by status and code. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly peakMegabytes: number;
  /** Figures of the restarted server. */
  readonly reopenedMegabytes: number;
  readonly reopenedMs: number;
  /** The number of acknowledged messages, and how many of them are in the log or the mailbox after the restart. */
  readonly acknowledged: number;
  readonly found: number;
}

/** Concurrent senders. */
const SENDERS = 48;

/** See the head of the file. */
export async function flood(plan: FloodPlan): Promise<FloodReport> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-flood-'));
  const first = await startServer(directory, 'silent');
  const running = [first.child];
  const health = watchHealth(first.url);
  try {
    const ids = Array.from({ length: plan.sessions }, (_, index) => `s${index}`);
    const receipts: { readonly session: string; readonly text: string }[] = [];
    const statuses: Record<string, number> = {};
    const rest = 'x'.repeat(plan.messageBytes);
    let sent = 0;
    const send = async (): Promise<void> => {
      for (let index = sent++; index < plan.messages * ids.length; index = sent++) {
        const session = ids[index % ids.length] ?? '';
        const text = `flood ${index}`;
        const address = `127.0.0.${2 + (index % ADDRESSES)}`;
        const { status, text: answer } = await ask(
          `${first.url}/sessions/${session}/messages`,
          { content: `${text} ${rest}` },
          address,
        );
        if (status === 202) receipts.push({ session, text });
        const name = status === 202 ? '202' : `${status} ${codeOf(answer)}`;
        statuses[name] = (statuses[name] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, send));
    const seen = await health.stop();
    const peakMegabytes = await peakOf(first.child);
    // The server is killed as in a crash, so it reads waiting messages back only from the log.
    first.child.kill('SIGKILL');
    await once(first.child, 'exit');
    const startedAt = performance.now();
    const again = await startServer(directory, 'silent');
    running.push(again.child);
    const reopenedMs = performance.now() - startedAt;
    const found = await countFound(again.url, receipts);
    const reopenedMegabytes = await peakOf(again.child);
    return { statuses, peakMegabytes, ...seen, reopenedMs, reopenedMegabytes, acknowledged: receipts.length, found };
  } finally {
    await health.stop();
    for (const child of running) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await rm(directory, { recursive: true, force: true });
  }
}

function codeOf(answer: string): string {
  try {
    return String((JSON.parse(answer) as { readonly code?: unknown }).code ?? 'untyped');
  } catch {
    return 'untyped';
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [sessions = 100, messages = 60, messageBytes = 1_000_000] = process.argv.slice(2).map(Number);
  const report = await flood({ sessions, messages, messageBytes });
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  const isGood =
    report.peakMegabytes < 1_024 &&
    report.reopenedMegabytes < 1_024 &&
    !Object.keys(report.statuses).some((name) => name.includes('untyped')) &&
    report.healthFailed === 0 &&
    report.healthWorstMs < 100 &&
    report.found === report.acknowledged;
  process.exitCode = isGood ? 0 : 1;
}
