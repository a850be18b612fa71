/** Answers `waiting.page`: the calls of a shard's sessions that wait for a person, oldest first. */
import { isInTree, isOfTenant } from '../../base/ids.ts';
import { charactersOfContent } from '../../events/reading/event-buffer.ts';
import { type NumberedWait, queuedCalls } from '../../session/rules/queued-calls.ts';
import type { HandlersOf, ShardMethods } from '../protocol/protocol.ts';
import { isBehind, olderFirst } from '../protocol/waiting-order.ts';
import type { PersonWait } from '../shard/person-waits.ts';
import type { Shard } from '../shard/shard.ts';
import type { ShardDoor } from './shard-door.ts';

type Request = ShardMethods['waiting.page']['request'];

/** See the head of the file. */
export function waitingRequests(door: ShardDoor): HandlersOf<'waiting'> {
  const { shard } = door;
  return {
    'waiting.page': async (request) => {
      // Until interrupted sessions have been read, some sessions with waiting calls are unknown.
      await shard.life.resumed();
      return door.readDurable(() => door.detached(page(shard, request)));
    },
  };
}

/** The calls of a page, and one call more if the list continues. */
function page(shard: Shard, request: Request): readonly NumberedWait[] {
  const { after, limit, bytesMax, session: within, tenant } = request;
  const candidates = [...shard.residency.personWaits.all()]
    .filter(({ newest }) => newest >= (after?.at ?? 0))
    .filter(({ session }) => isOfTenant(tenant, session) && (within === undefined || isInTree(session, within)))
    .sort((a, b) => a.oldest - b.oldest);
  const found: NumberedWait[] = [];
  let age = Number.NEGATIVE_INFINITY;
  for (const candidate of candidates) {
    if (candidate.oldest > age) {
      age = candidate.oldest;
      // No call of a later candidate began to wait before `age`. So if enough older calls are found, the page is full.
      if (found.filter(({ call }) => call.at < age).length > limit) break;
    }
    for (const wait of waitsOf(shard, candidate)) if (after === undefined || isBehind(wait, after)) found.push(wait);
  }
  found.sort(olderFirst);
  let end = 0;
  for (let bytes = 0; end < found.length && end < limit && bytes <= bytesMax; end += 1) {
    bytes += charactersOfContent(found[end]?.call.input);
  }
  return found.slice(0, end + 1);
}

/**
 * The waiting calls of a session, from its state. A session that was loaded only for the list leaves memory at once. If
 * it is idle, it leaves later, like every idle session.
 */
function waitsOf(shard: Shard, { session }: PersonWait): readonly NumberedWait[] {
  const { residency } = shard;
  const wasInMemory = residency.inMemory(session) !== undefined;
  let actor: ReturnType<typeof residency.find>;
  try {
    actor = residency.find(session);
  } catch {
    // This session cannot be read, and its resumption has reported the failure. The other sessions are listed.
    return [];
  }
  if (actor === undefined) residency.personWaits.forget(session);
  if (actor === undefined) return [];
  const waits = queuedCalls(actor.state, shard.approvalsMs(actor.state));
  if (!wasInMemory && !actor.isQuiet) residency.setAside(actor);
  return waits;
}
