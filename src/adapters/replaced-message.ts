/**
 * Finds the message that a page of `useChat` names by an id. This id is the key with which the page sent the message,
 * or the message's id in `session.history`.
 *
 * Suppose that the page calls a message `k`. Its replacement is sent with the key `k~1`, and the next replacement with
 * `k~2`, because a key can be used only once. The page keeps its own id, so it calls each of these messages `k`.
 */
import { InvalidArgumentError, type Receipt, type SendOptions, type Session, TroupeError } from '../index.ts';

/** Names a message that was sent. */
type Named = NonNullable<SendOptions['replaces']>;

/** The id by which a page knows a message that was sent with this key. */
export function pageId(key: string): string {
  return key.replace(/~[1-9]\d*$/, '');
}

/**
 * Returns the options for sending a replacement of the message that a page calls `id`. Rejects with
 * `InvalidArgumentError` (`message_not_found`) if the conversation does not have that message.
 */
export async function replacing(
  session: Session,
  id: string,
): Promise<Required<Pick<SendOptions, 'key' | 'replaces'>>> {
  const replaces = await sentAs(session, id);
  if (replaces === undefined) {
    throw new InvalidArgumentError(
      'message_not_found',
      `the conversation has no message ${JSON.stringify(id)} to replace; a message that never arrived is sent as a new one`,
      { data: { id } },
    );
  }
  // The new key begins with the page's id of the message. The page keeps that id and may replace the message again.
  const first = pageId(id);
  for (let version = 1; ; version += 1) {
    const key = `${first}~${version}`;
    if ((await receiptOf(session, key)) === undefined) return { key, replaces };
  }
}

/** The receipt of the message that a page calls `id`; undefined if the conversation does not have that message. */
export async function receiptOfPage(session: Session, id: string): Promise<Receipt | undefined> {
  const named = await sentAs(session, id);
  return named !== undefined && 'key' in named ? receiptOf(session, named.key) : undefined;
}

/** The newest message that a page may mean by `id`, in the mailbox or in the history. */
async function sentAs(session: Session, id: string): Promise<Named | undefined> {
  const waiting = (await session.pending()).filter(({ type }) => type === 'user_message');
  const said = (await session.history.messages()).filter(({ role }) => role === 'user');
  const keys = [...said, ...waiting].flatMap(({ key }) => (key === undefined ? [] : [key]));
  const key = keys.findLast((each) => each === id) ?? keys.findLast((each) => pageId(each) === id);
  if (key !== undefined) return { key };
  const named = said.find((message) => message.id === id);
  if (named !== undefined) return named.key === undefined ? { id } : { key: named.key };
  // If several messages were merged into one, only their receipts know all their keys.
  const receipt = await receiptOf(session, id);
  const seq = receipt === undefined ? undefined : await messageSeq(session, receipt);
  return said.some((message) => message.id === `m${seq}`) ? { id: `m${seq}` } : undefined;
}

async function receiptOf(session: Session, key: string): Promise<Receipt | undefined> {
  try {
    return await session.receipt({ key });
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'unknown_session') return undefined;
    throw error;
  }
}

/** The seq of the message that a mailbox entry became; undefined if the entry has not become a message. */
export async function messageSeq(session: Session, { pendingId, seq }: Receipt): Promise<number | undefined> {
  const { seq: newest } = await session.state();
  if (newest <= seq) return undefined;
  let isPromoted = false;
  for await (const event of session.events({ after: seq, deltas: false, until: (each) => each.seq === newest })) {
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
