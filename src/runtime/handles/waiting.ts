/** The queue of calls that wait for a person: the options of `runtime.waiting`, and its page over all shards. */
import { z } from 'zod';
import { PAGE_BYTES_MAX, SERVER_PAGE_DEFAULT, SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { filterId } from '../../base/ids.ts';
import { parseOption } from '../../base/parse-option.ts';
import { charactersOfContent } from '../../events/reading/event-buffer.ts';
import type { NumberedWait, QueuedCall } from '../../session/rules/queued-calls.ts';
import type { Page } from '../protocol/pages.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import { olderFirst, placeText, readPlace, type WaitingPlace } from '../protocol/waiting-order.ts';

/** Options of `runtime.waiting`. */
export interface WaitingOptions {
  /** The `next` of the previous page; default: the first page. */
  readonly after?: string;
  /** Maximum number of calls: 1 to 1,000, 100 by default. */
  readonly limit?: number;
  /** Only calls of this session and its descendants. */
  readonly session?: string;
}

const schema = z.strictObject({
  after: z.string().optional(),
  limit: z.number().int().min(1).max(SERVER_PAGE_MAX).optional(),
  session: z.string().optional(),
});

/**
 * A page over these shards. `tenant`: only calls of this tenant's sessions. Throws `ConfigError` for bad options,
 * `InvalidNameError` for an invalid session id, and the error of a shard.
 */
export async function waitingPage(
  shardsOf: (session: string | undefined) => readonly ShardCaller[],
  given: WaitingOptions,
  tenant?: string,
): Promise<Page<QueuedCall>> {
  const { after, limit = SERVER_PAGE_DEFAULT, session } = parseOption(schema, 'waiting', given);
  const place = after === undefined ? undefined : checkPlace(after);
  const within = session === undefined ? undefined : filterId(tenant, session);
  const request = { limit, bytesMax: PAGE_BYTES_MAX, ...defined({ after: place, session: within, tenant }) };
  const lists = await Promise.all(shardsOf(within).map((shard) => shard.call('waiting.page', request, true)));
  const waits = lists.flat().sort(olderFirst);
  const last = lastOf(waits, limit);
  const items = waits.slice(0, last + 1).map(({ call }) => call);
  const end = waits[last];
  return last + 1 < waits.length && end !== undefined ? { items, next: placeText(end) } : { items };
}

/** The index of the last call of the page. The page is bounded in calls and in bytes. */
function lastOf(waits: readonly NumberedWait[], limit: number): number {
  let bytes = 0;
  for (const [index, { call }] of waits.entries()) {
    bytes += charactersOfContent(call.input);
    if (index + 1 >= limit || bytes > PAGE_BYTES_MAX) return index;
  }
  return waits.length - 1;
}

function checkPlace(after: string): WaitingPlace {
  const place = readPlace(after);
  if (place !== undefined) return place;
  throw new ConfigError(
    `option "waiting.after" must be the next of a page of waiting calls, got ${describeValue(after)}`,
    {
      data: { key: 'waiting.after' },
    },
  );
}
