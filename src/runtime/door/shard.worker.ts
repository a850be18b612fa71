/** Entry of a session thread: one shard behind an endpoint. Its plan comes with `shard.start`. */
import { randomNumber, systemClock } from '../../base/clock.ts';
import { loadDatabase } from '../../journal/open-journal.ts';
import { type BridgePort, wrapObject } from '../../threads/comlink-bridge.ts';
import { ExitLatch } from '../../threads/exit-latch.ts';
import { watchLoop } from '../../threads/loop-watch.ts';
import { serveThread } from '../../threads/thread.ts';
import type { HostRunner } from '../../tools/host-tools.ts';
import { Counters } from '../protocol/metrics.ts';
import type { LogLine } from '../protocol/protocol.ts';
import { SessionAtWork } from '../shard/session-at-work.ts';
import { serveShardThread } from './shard-service.ts';

const { endpoint, data } = serveThread({});
const { port, gate, sessionAtWork, usesStore } = data as {
  readonly port: BridgePort;
  readonly gate: SharedArrayBuffer;
  readonly sessionAtWork: SharedArrayBuffer;
  readonly usesStore: boolean;
};
serveShardThread(endpoint, (plan) => {
  const counters = new Counters(plan.counters);
  // A session thread whose event loop stalls delays every session on it, and no other thread (F58).
  watchLoop((ms) => {
    counters.add('stalls');
    const line: LogLine = { level: 'warn', message: `actor stalled: session thread ${plan.index}`, ms };
    endpoint.notify('log', line);
  });
  return {
    // Tools given as values are called through comlink; everything else is sent over the endpoint.
    runner: wrapObject<HostRunner>(port).remote,
    clock: systemClock,
    random: randomNumber,
    gate: new ExitLatch(gate),
    sessionAtWork: new SessionAtWork(sessionAtWork),
  };
});
// The database module loads while the host may still be locking the directory. `shard.start` loads it again and
// reports errors.
if (usesStore) loadDatabase().catch(() => undefined);
