/** Answers the methods `runtime.…` and `sessions.…`: all sessions of a shard, and the shard's drain and end. */

import { defined } from '../../base/defined.ts';
import { ConfigError } from '../../base/errors.ts';
import { isOfTenant, tenantPrefix } from '../../base/ids.ts';
import { byOrder, type ListRequest, passes, passesFacts } from '../protocol/list-order.ts';
import type { HandlersOf, SessionSummary } from '../protocol/protocol.ts';
import type { Shard } from '../shard/shard.ts';
import { type ShardDoor, settle } from './shard-door.ts';

/** Number of ids read at once while listing. */
const LIST_PAGE = 1_000;

/** See the head of the file. */
export function runtimeRequests(door: ShardDoor): HandlersOf<'runtime' | 'sessions'> {
  const { shard } = door;
  return {
    'sessions.list': async (request) => {
      // Until interrupted sessions have been read, their heads are only as recent as the last checkpoint.
      await shard.life.resumed();
      if (request.order === 'id') return door.readDurable(() => listById(shard, request));
      await shard.residency.order.read();
      return door.readDurable(() => listNewest(shard, request));
    },
    'sessions.get': ({ session }) =>
      door.read(
        session,
        (actor) => shard.residency.summaryOf(actor.state),
        () => undefined,
      ),
    'sessions.delete': ({ session, by }) => settle((reply) => shard.life.delete(session, reply, defined({ by }))),
    'sessions.introduce': ({ on }) => {
      shard.subscribers.introduce(on);
      return undefined;
    },
    'runtime.drain': () => drain(shard),
    'runtime.resume': async () => {
      await shard.life.resumeBlocked();
      return undefined;
    },
    'runtime.copy': ({ directory, known }) => {
      const { copyTo } = shard.parts.journal;
      if (copyTo === undefined) throw new ConfigError('a store in memory has no files to copy');
      return copyTo(directory, known);
    },
    'runtime.learn': ({ models, mcp }) => {
      shard.parts.catalog.learn(models, mcp);
      return undefined;
    },
    'runtime.standStill': async ({ deadlineMs, pid }) => {
      await shard.life.standStill(deadlineMs, pid);
      return undefined;
    },
    'runtime.close': async ({ deadlineMs }) => {
      await shard.life.close(deadlineMs);
      return undefined;
    },
  };
}

/** The sessions in the order of their ids. */
function listById(shard: Shard, request: ListRequest): readonly SessionSummary[] {
  const { journal } = shard.parts;
  const found: SessionSummary[] = [];
  let after = request.after?.id;
  for (;;) {
    const page = journal.names({
      limit: LIST_PAGE,
      ...defined({ after }),
      ...defined({ prefix: prefixOf(request) }),
    });
    for (const [name, key] of page) {
      after = name;
      const summary = shard.residency.summary(name, key);
      if (summary === undefined || !isOfTenant(request.tenant, name) || !passes(summary, request)) continue;
      found.push(summary);
      if (found.length >= request.limit) return found;
    }
    if (page.length < LIST_PAGE) return found;
  }
}

/** The prefix of all ids in a list; undefined: the ids may begin with anything. */
function prefixOf({ parent, tenant }: ListRequest): string | undefined {
  if (typeof parent === 'string') return `${parent}:`;
  return tenant === undefined ? undefined : tenantPrefix(tenant);
}

/** The sessions by their last change, newest first. Few sessions are read besides those that the list returns. */
function listNewest(shard: Shard, request: ListRequest): readonly SessionSummary[] {
  const { residency } = shard;
  const { after, parent, limit, tenant } = request;
  const compare = byOrder('newest');
  const found: SessionSummary[] = [];
  for (const noted of residency.order.newestFirst()) {
    if (found.length >= limit) break;
    if (after !== undefined && compare(noted, after) <= 0) continue;
    if (!isOfTenant(tenant, noted.id)) continue;
    if (parent === null && !noted.isRoot) continue;
    if (typeof parent === 'string' && !noted.id.startsWith(`${parent}:`)) continue;
    if (!passesFacts(noted, request)) continue;
    const summary = residency.summary(noted.id, noted.key);
    if (summary === undefined) residency.order.forget(noted.id);
    else if (passes(summary, request)) found.push(summary);
  }
  return found;
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
