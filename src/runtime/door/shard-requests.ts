/**
 * The shard's door: one table with a handler for each method of the protocol. A method `<topic>.<name>` is answered in
 * the file of its topic:
 *
 *  - `session.…` in `session-reads.ts` and `session-changes.ts`;
 *  - `sessions.…` and `runtime.…` in `runtime-requests.ts`;
 *  - `history.…` in `history-requests.ts`, `tasks.…` in `task-requests.ts`, `receipt.…` in `receipt-requests.ts`;
 *  - `child.…` and `children.…` in `child-requests.ts`, `search.…` in `search-requests.ts`, `waiting.…` in
 *    `waiting-requests.ts`, `notices.…` in `notice-requests.ts`, `letters.…` in `letter-requests.ts`,
 *    `audit.…` in `audit-requests.ts`.
 */
import { CancelledError } from '../../base/errors.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ShardHandlers } from '../protocol/protocol.ts';
import type { Shard } from '../shard/shard.ts';
import { auditRequests } from './audit-requests.ts';
import { childRequests } from './child-requests.ts';
import { historyRequests } from './history-requests.ts';
import { letterRequests } from './letter-requests.ts';
import { noticeRequests } from './notice-requests.ts';
import { receiptRequests } from './receipt-requests.ts';
import { runtimeRequests } from './runtime-requests.ts';
import { searchRequests } from './search-requests.ts';
import { sessionChanges } from './session-changes.ts';
import { sessionReads } from './session-reads.ts';
import { ShardDoor } from './shard-door.ts';
import { taskRequests } from './task-requests.ts';
import { waitingRequests } from './waiting-requests.ts';

/** The methods that a closed shard answers too: there is nothing left to close or to wait for. */
const AFTER_CLOSE: ReadonlySet<string> = new Set(['runtime.close', 'runtime.drain', 'runtime.standStill']);

/**
 * Answers all methods of the protocol on `endpoint`. Runs on the shard's thread. `isInPlace`: the callers are on the
 * same thread.
 */
export function serveShard(shard: Shard, endpoint: Endpoint, isInPlace: boolean): void {
  const door = new ShardDoor(shard, isInPlace);
  const handlers: ShardHandlers = {
    ...sessionReads(door),
    ...sessionChanges(door),
    ...historyRequests(door),
    ...taskRequests(door),
    ...receiptRequests(door),
    ...childRequests(door),
    ...searchRequests(door),
    ...waitingRequests(door),
    ...noticeRequests(door),
    ...letterRequests(door),
    ...auditRequests(door),
    ...runtimeRequests(door),
  };
  for (const [method, handler] of Object.entries(handlers)) {
    const handle = handler as (payload: unknown) => unknown;
    endpoint.handle(method, (payload) => {
      // The endpoint outlives the shard for a short time. The journal of a closed shard cannot be read.
      if (shard.life.isOver && !AFTER_CLOSE.has(method)) throw new CancelledError('the runtime is closed');
      door.checkAgent(payload);
      return handle(payload);
    });
  }
}
