/** Answers the methods `runtime.…` and `sessions.…`: all sessions of a shard, and the shard's drain and end. */

import { defined } from '../../base/defined.ts';
import type { HandlersOf, SessionSummary, ShardMethods } from '../protocol/protocol.ts';
import { decodeHead, summaryOf } from '../reading/head.ts';
import type { Shard } from '../shard/shard.ts';
import { type ShardDoor, settle } from './shard-door.ts';

type ListRequest = ShardMethods['sessions.list']['request'];

/** Number of names read at once while listing. */
const LIST_PAGE = 1_000;

/** See the head of the file. */
export function runtimeRequests(door: ShardDoor): HandlersOf<'runtime' | 'sessions'> {
  const { shard } = door;
  return {
    'sessions.list': async (request) => {
      // Until interrupted sessions have been read, their heads are only as recent as the last checkpoint.
      await shard.life.resumed();
      return door.readDurable(() => list(shard, request));
    },
    'sessions.get': ({ session }) =>
      door.read(
        session,
        (actor) => summaryOf(actor.state),
        () => undefined,
      ),
    'sessions.delete': ({ session }) => settle((reply) => shard.life.delete(session, reply)),
    'sessions.introduce': ({ on }) => {
      shard.subscribers.introduce(on);
      return undefined;
    },
    'runtime.drain': () => drain(shard),
    'runtime.resume': async () => {
      await shard.life.resumeBlocked();
      return undefined;
    },
    'runtime.learn': ({ models, mcp }) => {
      shard.parts.catalog.learn(models, mcp);
      return undefined;
    },
    'runtime.close': async ({ deadlineMs }) => {
      await shard.life.close(deadlineMs);
      return undefined;
    },
  };
}

function list(shard: Shard, request: ListRequest): readonly SessionSummary[] {
  const { journal } = shard.parts;
  const found: SessionSummary[] = [];
  let after = request.after;
  for (;;) {
    const page = journal.names({
      limit: LIST_PAGE,
      ...defined({ after }),
      ...(typeof request.parent === 'string' ? { prefix: `${request.parent}:` } : {}),
    });
    for (const [name, key] of page) {
      after = name;
      const summary = summaryNamed(shard, name, key);
      if (summary === undefined || !matches(summary, request)) continue;
      found.push(summary);
      if (found.length >= request.limit) return found;
    }
    if (page.length < LIST_PAGE) return found;
  }
}

/** The summary from memory, from the head, or, for a session without a head, from its log. */
function summaryNamed(shard: Shard, name: string, key: number): SessionSummary | undefined {
  const resident = shard.residency.inMemory(name);
  if (resident !== undefined) return resident.state.agent === undefined ? undefined : summaryOf(resident.state);
  const head = shard.residency.headOf(key);
  if (head !== undefined) return decodeHead(head.data).summary;
  const actor = shard.residency.find(name);
  shard.residency.passivateSome();
  return actor === undefined ? undefined : summaryOf(actor.state);
}

function matches(summary: SessionSummary, request: ListRequest): boolean {
  if (request.parent === null && summary.parent !== undefined) return false;
  if (typeof request.parent === 'string' && summary.parent !== request.parent) return false;
  return request.state === undefined || summary.state === request.state;
}

function drain(shard: Shard): Promise<undefined> {
  return new Promise((resolve) => {
    const done = (): void =>
      shard.transitions.afterCommit(
        () => (shard.life.isDrained || shard.life.isOver ? resolve(undefined) : shard.waiters.onDrained(done)),
        () => shard.waiters.onDrained(done),
      );
    if (shard.life.isDrained) done();
    else {
      shard.waiters.onDrained(done);
      shard.transitions.hurry();
    }
  });
}
