/** Answers the methods `letters.…`: lists, reads, sends again and drops the dead letters of a shard's sessions. */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { DEAD_LETTER_SCAN_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { TroupeError } from '../../base/errors.ts';
import { isInTree, isOfTenant, tenantPrefix } from '../../base/ids.ts';
import type { SessionKey } from '../../journal/position.ts';
import { withContent } from '../../session/rules/waiting-content.ts';
import { type DeadLetter, type DeadLetterSummary, letterSummary, publicLetter } from '../../session/state/letters.ts';
import { byLetter, type LetterMethods, type LetterPart, letterSize } from '../protocol/letters.ts';
import type { HandlersOf } from '../protocol/protocol.ts';
import { contentReader } from '../reading/content-reader.ts';
import type { Shard } from '../shard/shard.ts';
import type { ShardDoor } from './shard-door.ts';

type Request = LetterMethods['letters.page']['request'];

/** Sessions looked at in one tick. Between the ticks the thread serves other requests. */
const SLICE = 256;

/** See the head of the file. */
export function letterRequests(door: ShardDoor): HandlersOf<'letters'> {
  const { shard } = door;
  const { journal } = shard.parts;
  return {
    'letters.page': async (request) => {
      // Until interrupted sessions have been read, their heads are only as recent as the last checkpoint.
      await shard.life.resumed();
      return page(door, request);
    },
    'letters.list': ({ session }) =>
      door.read<readonly DeadLetterSummary[]>(
        session,
        ({ state }) => state.deadLetters.map((letter) => letterSummary(session, letter)),
        () => [],
      ),
    'letters.get': ({ session, letter }) =>
      door.read<DeadLetter | undefined>(
        session,
        ({ key, state }) => {
          const found = state.deadLetters.find(({ entry }) => entry.id === letter);
          return found && publicLetter(session, found, withContent(found.entry, contentReader(journal, key)));
        },
        () => undefined,
      ),
    'letters.resend': async ({ session, letter, as, by }) => {
      door.checkOpen();
      if (shard.residency.find(session) === undefined) {
        throw new TroupeError('unknown_session', `there is no session ${JSON.stringify(session)}`);
      }
      return door.submit({ session }, { type: 'resendLetter', letter, ...defined({ as, by }) });
    },
    'letters.drop': (request) => {
      const { letter, by } = request;
      return door.submitIfPresent(request, { type: 'dropLetter', letter, ...defined({ by }) }, false);
    },
  };
}

/** The letters of a page. Sessions are looked at in the order of their ids, a slice in each tick. */
async function page(door: ShardDoor, request: Request): Promise<LetterPart> {
  const { shard } = door;
  const { after, limit, bytesMax } = request;
  const items: DeadLetterSummary[] = [];
  let bytes = 0;
  let from = after?.session;
  // The last session of the previous page may have more letters.
  let slice = first(shard, request);
  for (let looked = 0; ; looked += SLICE) {
    const found = await door.readDurable(() => slice.flatMap(([id, key]) => lettersOf(shard, id, key)));
    for (const letter of found) {
      if (after !== undefined && byLetter(letter, after) <= 0) continue;
      items.push(letter);
      bytes += letterSize(letter);
      if (items.length >= limit || bytes > bytesMax) return { items, reached: letter };
    }
    from = slice.at(-1)?.[0] ?? from;
    if (from !== undefined && looked >= DEAD_LETTER_SCAN_MAX) {
      return { items, reached: { session: from, id: Number.MAX_SAFE_INTEGER } };
    }
    slice = namesBehind(shard, request, from);
    if (slice.length === 0) return { items };
    await new Promise<void>((resolve) => shard.parts.soon(resolve));
  }
}

type Named = readonly (readonly [string, SessionKey])[];

/**
 * The first session of a page: the last session of the previous page if it is wanted, otherwise the root of the wanted
 * tree.
 */
function first(shard: Shard, { after, session, tenant }: Request): Named {
  const isWanted = after !== undefined && (session === undefined || isInTree(after.session, session));
  const id = isWanted ? after.session : session;
  const key = id === undefined || !isOfTenant(tenant, id) ? undefined : shard.parts.journal.keyOf(id);
  return id === undefined || key === undefined ? [] : [[id, key]];
}

/**
 * The next sessions by id. With `tenant`, only the sessions of that tenant. With `session`, only its descendants, whose
 * ids begin with its id.
 */
function namesBehind(shard: Shard, { session, tenant }: Request, after: string | undefined): Named {
  if (session !== undefined && !isOfTenant(tenant, session)) return [];
  const ofTenant = tenant === undefined ? undefined : tenantPrefix(tenant);
  const prefix = session === undefined ? ofTenant : `${session}:`;
  // The id of the tree's root sorts before the prefix of its descendants, so it is no position among them.
  const behind = after === session ? undefined : after;
  return shard.parts.journal.names({ limit: SLICE, ...defined({ after: behind, prefix }) });
}

/** The letters of a session. A session without letters is not loaded. */
function lettersOf(shard: Shard, id: string, key: SessionKey): readonly DeadLetterSummary[] {
  const { residency } = shard;
  let actor: SessionActor | undefined;
  try {
    if ((residency.summary(id, key)?.deadLetters ?? 0) === 0) return [];
    actor = residency.find(id);
  } catch {
    // This session cannot be read, and its resumption has reported the failure. The other sessions are listed.
    return [];
  }
  residency.passivateSome();
  return actor === undefined ? [] : actor.state.deadLetters.map((letter) => letterSummary(id, letter));
}
