/** The list of sessions: the options of `runtime.sessions.list`, and its page over all shards. */
import { z } from 'zod';
import { LIST_FAMILIES_DEFAULT, LIST_FAMILIES_MAX, SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { idWithin } from '../../base/ids.ts';
import { parseOption } from '../../base/parse-option.ts';
import {
  type LastOutcome,
  SESSION_STATES,
  SESSION_STATUSES,
  type SessionStateName,
  type SessionStatus,
  TURN_OUTCOMES,
} from '../../events/event.ts';
import { byOrder, type ListOrder, type ListPlace, type ListRequest, readListPlace } from '../protocol/list-order.ts';
import type { SessionSummary, ShardCaller } from '../protocol/protocol.ts';

/** Options of `sessions.list`. Filters are joined by "and". */
export interface ListOptions {
  /** `newest`: the last changed session first (default); `id`: by id, ascending. */
  readonly order?: ListOrder;
  /** Only children of this session; `null`: roots only. */
  readonly parent?: string | null;
  readonly status?: SessionStatus | readonly SessionStatus[];
  readonly state?: SessionStateName;
  /** Only sessions whose last turn ended in this way. */
  readonly outcome?: LastOutcome;
  readonly agent?: string;
  /** Only sessions that changed after this time: epoch ms, or a Date. */
  readonly changedAfter?: number | Date;
  readonly changedBefore?: number | Date;
  /**
   * The last session of the previous page: the list begins after it. In the order `id`, its id is enough. May also be
   * the `next` of a page over HTTP, which is a text.
   */
  readonly after?: string | ListPlace;
  /** Maximum number of sessions; default 1,000. With `children`: default 10, and a number above 50 counts as 50. */
  readonly limit?: number;
  /** True: only roots, each with its children, the oldest child first. */
  readonly children?: boolean;
}

/**
 * A session in a list. `children`: the session's children, oldest first; missing if the options did not ask for them,
 * or if there are none.
 */
export interface ListedSession extends SessionSummary {
  readonly children?: readonly SessionSummary[];
}

const time = z
  .union([z.number().min(0), z.date()], 'must be epoch ms, or a valid Date')
  .transform((given) => (typeof given === 'number' ? given : given.getTime()))
  .optional();
const status = z.enum(SESSION_STATUSES);

const schema = z.strictObject({
  order: z.enum(['newest', 'id']).optional(),
  parent: z.string().nullable().optional(),
  status: z.union([status.transform((only) => [only]), z.array(status).min(1)]).optional(),
  state: z.enum(SESSION_STATES).optional(),
  outcome: z.enum(TURN_OUTCOMES).optional(),
  agent: z.string().optional(),
  changedAfter: time,
  changedBefore: time,
  after: z
    .union([z.string(), z.object({ id: z.string(), updatedAt: z.number().optional() })], 'must be a session of a list')
    .optional(),
  limit: z.number().int().min(1).optional(),
  children: z.boolean().optional(),
});

/**
 * Lists the sessions of these shards. `shardOf`: returns the shard of a session. `tenant`: only sessions of this
 * tenant. Throws `ConfigError` for bad options, and the error of a shard.
 */
export async function listSessions(
  shards: readonly ShardCaller[],
  shardOf: (id: string) => ShardCaller,
  options: ListOptions,
  tenant?: string,
): Promise<readonly ListedSession[]> {
  const { order = 'newest', after, children, ...given } = parseOption(schema, 'list', options);
  if (children === true && given.parent != null) {
    throw new ConfigError('option "list.children": lists roots with their children, so it excludes "list.parent"', {
      data: { key: 'list.children' },
    });
  }
  const limit = children === true ? familyLimit(given.limit) : (given.limit ?? SERVER_PAGE_MAX);
  const idOf = (id: string): string => idWithin(tenant, id) ?? id;
  const place = after === undefined ? undefined : placeOf(order, after);
  const from = order === 'id' && place !== undefined ? { id: idOf(place.id) } : place;
  const parent = children === true ? null : typeof given.parent === 'string' ? idOf(given.parent) : given.parent;
  const request: ListRequest = { ...defined({ ...given, parent, after: from, tenant }), order, limit };
  const lists = await Promise.all(shards.map((shard) => shard.call('sessions.list', request, true)));
  const found = lists.flat().sort(byOrder(order)).slice(0, limit);
  return children === true ? Promise.all(found.map((root) => withChildren(shardOf(root.id), root))) : found;
}

function familyLimit(limit: number = LIST_FAMILIES_DEFAULT): number {
  return Math.min(limit, LIST_FAMILIES_MAX);
}

async function withChildren(shard: ShardCaller, root: SessionSummary): Promise<ListedSession> {
  const request = { order: 'id', parent: root.id, limit: SERVER_PAGE_MAX } as const;
  const found = await shard.call('sessions.list', request, true);
  if (found.length === 0) return root;
  return { ...root, children: found.toSorted((a, b) => (a.createdAt ?? 0) - (b.createdAt ?? 0)) };
}

function placeOf(order: ListOrder, after: NonNullable<z.infer<typeof schema>['after']>): ListPlace {
  const place =
    typeof after === 'string'
      ? readListPlace(order, after)
      : { id: after.id, ...defined({ updatedAt: after.updatedAt }) };
  if (place !== undefined && (order === 'id' || place.updatedAt !== undefined)) return place;
  throw new ConfigError(
    `option "list.after": in the order newest it must be the last session of the previous page; got ${describeValue(after)}`,
    { data: { key: 'list.after' } },
  );
}
