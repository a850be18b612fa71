/**
 * Takes a message back that a new one replaces: the user edited it, or wants another answer to it. The message and
 * everything after it leave the history in one operation, so readers see one durable event.
 *
 * A message with the key `k` is replaced by a message with the key `k~1`, that one by `k~2`, and so on. A repetition
 * after a crash between the removal and the send finds nothing left to remove.
 */
import { InvalidArgumentError, type Receipt, type Session, TroupeError } from '../index.ts';

/**
 * Removes the newest message that was sent for `key`, with everything after it. Resolves to the key of the message that
 * replaces it; to `key` itself if there was none. Rejects with `InvalidArgumentError` (`message_not_found`) if later
 * messages are in the conversation but that one is not, since it was compressed or removed.
 */
export async function replaceMessage(session: Session, key: string): Promise<string> {
  let newest: Receipt | undefined;
  let next = key;
  for (let version = 1; ; version += 1) {
    const found = await receiptOf(session, next);
    if (found === undefined) break;
    newest = found;
    next = `${key}~${version}`;
  }
  if (newest === undefined) return key;
  await session.interrupt('the message that it answers was replaced');
  if (await session.recall(newest.pendingId)) return next;
  const seq = await messageSeq(session, newest);
  if (seq !== undefined) await removeFrom(session, seq, newest);
  return next;
}

async function receiptOf(session: Session, key: string): Promise<Receipt | undefined> {
  try {
    return await session.receipt({ key });
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'unknown_session') return undefined;
    throw error;
  }
}

/** The number of the message that an entry became; undefined if it left the mailbox without entering the log. */
async function messageSeq(session: Session, { pendingId, seq }: Receipt): Promise<number | undefined> {
  let isPromoted = false;
  for await (const event of session.events({ after: seq, deltas: false })) {
    if (event.type === 'pending.removed' && event.pendingId === pendingId) {
      if (event.reason !== 'promoted') return undefined;
      isPromoted = true;
    }
    if (isPromoted && event.type === 'message.created' && event.message.type === 'user_message') {
      return event.message.seq;
    }
  }
  return undefined;
}

async function removeFrom(session: Session, seq: number, receipt: Receipt): Promise<void> {
  const ids = (await session.history.toArray()).map(({ id }) => Number(id?.slice(1)));
  // A message that was imported may have an id without its number.
  const numbers = ids.filter((id) => !Number.isNaN(id));
  if (!numbers.includes(seq)) {
    if (numbers.every((number) => number < seq)) return;
    throw new InvalidArgumentError('message_not_found', 'the message to replace is no longer in the conversation', {
      data: { message: seq },
    });
  }
  const { incarnation } = receipt;
  await session.history.rollbackBefore({ id: `m${seq}`, seq, session: session.id, incarnation });
}
