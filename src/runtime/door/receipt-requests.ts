/** Answers the methods `receipt.…`: the outcome of an accepted message. */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { TroupeError } from '../../base/errors.ts';
import { emptyState, type ReceiptState } from '../../session/state/state.ts';
import type { HandlersOf } from '../protocol/protocol.ts';
import { foldLog } from '../reading/session-reader.ts';
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
    /** The number of the event that announced the message. It is read from the log, since the state does not keep it. */
    'receipt.find': ({ session, pendingId, incarnation }) =>
      door.read(
        session,
        (actor) => {
          const wanted = incarnation ?? actor.key;
          if (wanted !== actor.key || receiptOf(shard, actor, pendingId) === undefined) return undefined;
          let found = 0;
          foldLog(shard.parts.journal, actor.key, emptyState(actor.id), 0, {
            event: (body, seq) => {
              if (body.type === 'pending.created' && body.pending.id === pendingId) found = seq;
            },
          });
          return { seq: found, incarnation: wanted };
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

/** The receipt from the state while it is remembered there; otherwise from the log, which keeps all receipts. */
export function receiptOf(shard: Shard, actor: SessionActor, pendingId: number): ReceiptState | undefined {
  const known = actor.state.receipts.get(pendingId);
  if (known !== undefined || pendingId >= actor.state.nextPendingId) return known;
  let found: ReceiptState | undefined;
  foldLog(shard.parts.journal, actor.key, emptyState(actor.id), 0, {
    settled: (id, receipt) => {
      if (id === pendingId) found = receipt;
    },
  });
  return found;
}
