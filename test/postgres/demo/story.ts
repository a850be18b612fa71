/** The course of the demonstration: a cluster, its work through a member, the kill of the owner in the middle, the check. */
import { number } from '../../../src/cli/text-layout.ts';
import { judge, readFacts } from './checks.ts';
import { DemoCluster } from './cluster.ts';
import { answeredText, type DemoReport, isSound, killedText, lastScreen, ownedText } from './report.ts';
import type { DemoScreen } from './screen.ts';
import { DemoWork } from './work.ts';

/** `leaseMs` of `examples/cluster-node.ts`. */
const LEASE_MS = 2_000;

/** The parts of a demonstration. */
export interface DemoOrder {
  /** The number of sub-agents. */
  readonly total: number;
  /** True if the nodes stay until this process is interrupted. */
  readonly isKept: boolean;
  readonly screen: DemoScreen;
}

/** Runs the demonstration. Resolves to true if nothing was lost and nothing was done twice. */
export async function perform({ total, isKept, screen }: DemoOrder): Promise<boolean> {
  screen.note('start     PostgreSQL and three nodes, each a process; a few seconds.');
  const cluster = await DemoCluster.start();
  const owner = cluster.owner;
  const member = cluster.nodes.find(({ state }) => state === 'member');
  if (owner === undefined || member === undefined) throw new Error('the cluster has no owner, or no member');
  const names = cluster.nodes.map(({ name, state }) => `${name} is the ${state}`).join(', ');
  screen.note(`cluster   ${names.replaceAll('the member', 'a member')}.`);
  screen.note(`page      ${member.url}/observer/ is served by node ${member.name}.`);
  screen.note(`work      node ${member.name} is asked for ${number(total)} sub-agents of one session.`);
  const work = new DemoWork(member.url, total);
  screen.show(cluster.nodes, work, member);
  const [failOver] = await Promise.all([killInTheMiddle(cluster, work, screen), work.run(), progress(work, screen)]);
  const { seconds } = screen;
  screen.stop();
  screen.note('keys      all requests are sent once more, with their keys.');
  await work.repeatAll();
  screen.note('check     the logs of all sessions are read.');
  const verdict = judge(total, await readFacts(member.url));
  const report: DemoReport = {
    ...{ total, seconds, verdict, leaseMs: LEASE_MS, entries: cluster.entries },
    killed: failOver.killed,
    next: failOver.next,
    member: { name: member.name, url: member.url, waited: failOver.waited, repeated: work.repeated },
    events: { count: work.lastEvent, holes: work.holes, reconnects: work.reconnects },
    ...(isKept ? { kept: cluster.url } : {}),
  };
  screen.note(lastScreen(report, screen.paint));
  // A process that waits for a signal only: its handler ends everything.
  if (isKept) await cluster.until(() => false);
  const failures = await cluster.close();
  for (const failure of failures) screen.note(screen.paint.red(failure));
  return isSound(report) && failures.length === 0;
}

async function progress(work: DemoWork, screen: DemoScreen): Promise<void> {
  await work.until(() => {
    screen.changed();
    return work.replies >= work.total;
  });
}

/** Kills the owner when half of the sub-agents have answered, and waits for the next answer. */
async function killInTheMiddle(
  cluster: DemoCluster,
  work: DemoWork,
  screen: DemoScreen,
): Promise<Pick<DemoReport, 'killed' | 'next'> & { readonly waited: number }> {
  await work.until(() => work.answers >= work.total / 2);
  const { owner } = cluster;
  if (owner === undefined) throw new Error('no node was the owner when it was time to kill it');
  const killed = { name: owner.name, pid: owner.pid, answers: work.answers };
  const killedMs = performance.now();
  await cluster.kill(owner);
  work.ownerKilled();
  screen.note(screen.paint.red(killedText(killed, work.total)));
  await cluster.until(() => cluster.owner !== undefined && cluster.owner.name !== killed.name);
  const ownedMs = performance.now() - killedMs;
  const waited = work.inFlight;
  const name = cluster.owner?.name ?? '';
  screen.note(screen.paint.green(ownedText({ name, ownedMs })));
  await work.until(() => work.nextAnswerMs !== undefined);
  const answerMs = (work.nextAnswerMs ?? 0) - killedMs;
  screen.note(screen.paint.green(answeredText({ answerMs })));
  return { killed, next: { name, ownedMs, answerMs }, waited };
}
