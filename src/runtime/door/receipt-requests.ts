/** Answers the methods `receipt.…`: the outcome of an accepted message. */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { TroupeError } from '../../base/errors.ts';
import { entryAtWork } from '../../session/rules/mailbox.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { HandlersOf, WantedReceipt } from '../protocol/protocol.ts';
import { foldWhole } from '../reading/session-reader.ts';
import type { Shard } from '../shard/shard.ts';
import type { ShardDoor } from './shard-door.ts';

/** See the head of the file. */
export function receiptRequests(door: ShardDoor): HandlersOf<'receipt'> {
  const { shard } = door;
  return {
    'receipt.status': ({ session, incarnation, pendingId }) =>
      door.read(
        session,
        (actor) => (actor.key === incarnation ? receiptOf(shard, actor, pendingId) : undefined),
        () => undefined,
      ),
    'receipt.find': ({ session, wanted }) =>
      door.read(
        session,
        (actor) => {
          const pendingId = pendingIdOf(actor, wanted);
          if (pendingId === undefined || receiptOf(shard, actor, pendingId) === undefined) return undefined;
          return { pendingId, seq: acceptedSeq(shard, actor, pendingId), incarnation: actor.key };
        },
        () => undefined,
      ),
    'receipt.wait': ({ session, incarnation, pendingId, until }) =>
      door.awaitDurable(
        () => {
          const actor = shard.residency.find(session);
          const receipt = actor?.key === incarnation ? receiptOf(shard, actor, pendingId) : undefined;
          if (receipt === undefined) {
            throw new TroupeError('unknown_session', `session ${JSON.stringify(session)} has no receipt ${pendingId}`);
          }
          const isDone = receipt.status !== 'accepted' && (until === 'promoted' || receipt.status !== 'promoted');
          return isDone ? receipt : undefined;
        },
        (reply, again) => shard.waiters.onReceipt(session, { pendingId, until }, reply, again),
      ),
  };
}

/**
 * The id of the wanted receipt's entry; undefined if the session has no such key, no running message, or another
 * incarnation. A given `pendingId` is not checked: the session may have no such entry.
 */
function pendingIdOf({ key, state }: SessionActor, wanted: WantedReceipt): number | undefined {
  if ('key' in wanted) return state.keys.get(wanted.key)?.id;
  if ('atWork' in wanted) return entryAtWork(state);
  return (wanted.incarnation ?? key) === key ? wanted.pendingId : undefined;
}

/**
 * The number of the event that announced an entry; 0 if the log no longer has this event. The state has the event
 * numbers of entries with a key; for other entries the log is folded.
 */
function acceptedSeq(shard: Shard, actor: SessionActor, pendingId: number): number {
  for (const { id, seq } of actor.state.keys.values()) if (id === pendingId) return seq;
  let found = 0;
  foldWhole(shard.parts.journal, actor, {
    observer: {
      event: (body, seq) => {
        if (body.type === 'pending.created' && body.pending.id === pendingId) found = seq;
      },
    },
  });
  return found;
}

/**
 * The receipt of an entry: from the state if the state still has it, otherwise from the log. Undefined if there is no
 * such entry, or if the part of the log that settled it was removed.
 */
export function receiptOf(shard: Shard, actor: SessionActor, pendingId: number): ReceiptState | undefined {
  const known = actor.state.receipts.get(pendingId);
  if (known !== undefined || pendingId >= actor.state.nextPendingId) return known;
  let found: ReceiptState | undefined;
  foldWhole(shard.parts.journal, actor, {
    observer: {
      settled: (id, receipt) => {
        if (id === pendingId) found = receipt;
      },
    },
  });
  return found;
}
