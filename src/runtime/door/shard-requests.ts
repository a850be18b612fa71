/**
 * The shard's door: one table with a handler for each method of the protocol. A method `<topic>.<name>` is answered in
 * the file of its topic:
 *
 *  - `session.…` in `session-reads.ts` and `session-changes.ts`;
 *  - `sessions.…` and `runtime.…` in `runtime-requests.ts`;
 *  - `history.…` in `history-requests.ts`, `tasks.…` in `task-requests.ts`, `receipt.…` in `receipt-requests.ts`;
 *  - `child.…` and `children.…` in `child-requests.ts`, `search.…` in `search-requests.ts`, `waiting.…` in
 *    `waiting-requests.ts`, `notices.…` in `notice-requests.ts`.
 */
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ShardHandlers } from '../protocol/protocol.ts';
import type { Shard } from '../shard/shard.ts';
import { childRequests } from './child-requests.ts';
import { historyRequests } from './history-requests.ts';
import { noticeRequests } from './notice-requests.ts';
import { receiptRequests } from './receipt-requests.ts';
import { runtimeRequests } from './runtime-requests.ts';
import { searchRequests } from './search-requests.ts';
import { sessionChanges } from './session-changes.ts';
import { sessionReads } from './session-reads.ts';
import { ShardDoor } from './shard-door.ts';
import { taskRequests } from './task-requests.ts';
import { waitingRequests } from './waiting-requests.ts';

/** Answers all methods of the protocol on `endpoint`. Runs on the shard's thread. */
export function serveShard(shard: Shard, endpoint: Endpoint): void {
  const door = new ShardDoor(shard);
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
    ...runtimeRequests(door),
  };
  for (const [method, handler] of Object.entries(handlers)) {
    const handle = handler as (payload: unknown) => unknown;
    endpoint.handle(method, (payload) => {
      door.checkAgent(payload);
      return handle(payload);
    });
  }
}
