/** Routes of a session's conversation: send a message, read messages, mailbox and receipts, follow events. */
import { z } from 'zod';
import { ANSWER_SCHEMA_BYTES_MAX, KEY_CHARACTERS_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { isInTree } from '../base/ids.ts';
import { DELIVERIES } from '../base/messages.ts';
import {
  CancelledError,
  type ContentBlock,
  InvalidArgumentError,
  type Receipt,
  type SessionEvent,
  type StructuredSendOptions,
} from '../index.ts';
import { postMessage } from '../runtime/handles/session.ts';
import { sessionIdIn } from '../runtime/handles/sessions-view.ts';
import * as answers from './answers.ts';
import { unreadable } from './problem.ts';
import { key, noQuery, numberOf, pageOf, pageSize, token, viewMode, wholeNumber } from './query-parts.ts';
import { json, jsonInTick, type Route, type RouteAnswer, route } from './route.ts';
import { known, problemAnswer } from './session-routes.ts';

const UNKNOWN: RouteAnswer = problemAnswer(404, 'There is no such session');
/** The media type of server-sent events. */
const EVENT_STREAM = 'text/event-stream';

const deltas = z.enum(['true', 'false']).describe('false: no text.delta and thinking.delta');
/** The session checks the content of each block. */
const content = z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]);

type SeparateDeliver = NonNullable<StructuredSendOptions['deliver']>;

const send = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/messages',
  role: 'writer',
  summary: 'Put a message into the mailbox; a missing session is created where exactly one agent is defined',
  query: noQuery,
  body: z.strictObject({
    content,
    key: key.optional(),
    deliver: z.enum(DELIVERIES).optional(),
    bounceBack: z.boolean().optional().describe('On failure the message leaves the log and comes back in an event'),
    from: z.string().min(1).max(KEY_CHARACTERS_MAX).optional().describe('Who sends, for the record'),
    replaces: z
      .union([z.strictObject({ id: z.string().min(1) }), z.strictObject({ key })])
      .optional()
      .describe('The message that this one replaces: it and all later messages leave the history in the same step'),
    output: z
      .record(z.string(), z.unknown())
      .optional()
      .describe(
        `JSON Schema of a structured answer, at most ${ANSWER_SCHEMA_BYTES_MAX} bytes; the message has a separate turn`,
      ),
  }),
  answers: [
    { status: 202, description: 'It is on disk', schema: answers.receipt },
    problemAnswer(400, 'Not a message, or an answer that cannot be asked for'),
    problemAnswer(404, 'The conversation has no message that `replaces` names, or the session is of another tenant'),
    problemAnswer(409, 'The session is busy (deliver: reject), or the key was used for another message'),
    problemAnswer(413, 'The message is too large'),
    problemAnswer(429, 'The mailbox is full; Retry-After says when to try again'),
  ],
  async handle({ part, body, server: { runtime } }) {
    const { content: said, output, deliver, ...others } = body;
    const session = runtime.session(part('id'));
    // The schema has checked only that each block is an object with a `type`. The session checks the rest.
    const blocks = said as string | readonly ContentBlock[];
    const options = defined(others);
    if (output === undefined) return accepted(await session.send(blocks, { ...options, ...defined({ deliver }) }));
    // The session refuses a `deliver` value that gives the message no separate turn.
    const alone = defined({ deliver: deliver as SeparateDeliver | undefined });
    return accepted(await session.send(blocks, { ...options, ...alone, output }));
  },
  async handleLarge({ part, json: bytes, server: { runtime } }) {
    try {
      return accepted(await postMessage(runtime.session(part('id')), bytes));
    } catch (error) {
      const isUnreadable = error instanceof InvalidArgumentError && error.code === 'invalid_argument';
      throw isUnreadable ? unreadable(error.message, error) : error;
    }
  },
});

const messages = route({
  method: 'GET',
  path: '/sessions/:id/messages',
  role: 'reader',
  summary: 'Messages of the log, oldest first; fewer than requested if they are large',
  query: z.strictObject({
    after: wholeNumber.optional().describe('Messages after this number'),
    limit: pageSize.optional(),
    token,
  }),
  answers: [{ status: 200, description: 'A page of messages', schema: answers.messageList }, UNKNOWN],
  async handle({ part, query, server: { runtime, pages } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return pages.run(async () => {
      const { items: messages, next } = await session.page('messages', pageOf(query));
      return jsonInTick({ messages, ...defined({ next: numberOf(next) }) });
    });
  },
});

const pending = route({
  method: 'GET',
  path: '/sessions/:id/pending',
  role: 'reader',
  summary: 'The mailbox in drain order; fewer than requested if they are large',
  query: z.strictObject({
    after: z.string().optional().describe('The value of next in the previous page'),
    limit: pageSize.optional(),
    token,
  }),
  answers: [{ status: 200, description: 'What waits', schema: answers.pendingList }, UNKNOWN],
  async handle({ part, query, server: { runtime, pages } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return pages.run(async () => {
      const { items, next } = await session.page('pending', pageOf(query));
      return jsonInTick({ pending: items, ...defined({ next }) });
    });
  },
});

const recall = route({
  method: 'POST',
  path: '/sessions/:id/recall',
  role: 'writer',
  summary: 'Withdraw a message that was not promoted yet',
  query: noQuery,
  body: z.strictObject({ pendingId: z.number().int().positive() }),
  answers: [{ status: 200, description: 'Whether it was withdrawn', schema: answers.recalled }, UNKNOWN],
  async handle({ part, body, server: { runtime } }) {
    const id = await known(runtime, part('id'));
    return json({ recalled: await runtime.session(id).recall(body.pendingId) });
  },
});

const receipt = route({
  method: 'GET',
  path: '/sessions/:id/receipts/:receipt',
  role: 'reader',
  summary: 'The outcome of a message, by the number of its entry in the current session, or by the id of the receipt',
  query: z.strictObject({
    wait: z.literal('answer').optional().describe('Answers when the turn that consumed the message has ended'),
    token,
  }),
  answers: [
    {
      status: 200,
      description: 'Where the message is, and with wait=answer the answer',
      schema: answers.receiptStatus,
    },
    UNKNOWN,
    problemAnswer(409, 'wait=answer: it was withdrawn, or its turn interrupted'),
    problemAnswer(
      502,
      'wait=answer: its turn failed; answer_invalid, answer_refused and answer_cut: no structured answer',
    ),
  ],
  async handle({ part, query, request, server: { runtime } }) {
    const id = await known(runtime, part('id'));
    const name = part('receipt');
    const found = await runtime.session(id).receipt(name.includes('/') ? name : `${id}/${name}`);
    const answer = query.wait === undefined ? undefined : await untilGone(found.answer(), request);
    const { id: receiptId, session, seq, pendingId } = found;
    return json({ id: receiptId, session, seq, pendingId, ...(await found.status()), ...defined({ answer }) });
  },
});

const events = route({
  method: 'GET',
  path: '/sessions/:id/events',
  role: 'reader',
  door: 'stream',
  summary: 'Events of a session as server-sent events: existing ones, then new ones. `id` is the sequence number',
  query: z.strictObject({
    after: wholeNumber.optional().describe('Events after this number; a Last-Event-ID header takes precedence'),
    mode: viewMode.optional(),
    deltas: deltas.optional(),
    token,
  }),
  answers: [{ status: 200, description: 'The stream', mediaType: EVENT_STREAM }, UNKNOWN],
  async handle({ part, query, request, server: { runtime, streams, defaultViewMode } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const after = Number(lastEventId(request) ?? query.after ?? 0);
    const mode = query.mode ?? defaultViewMode;
    return streams.answer(mode, () => session.events({ after, deltas: query.deltas !== 'false' }));
  },
});

const allEvents = route({
  method: 'GET',
  path: '/events',
  role: 'reader',
  door: 'stream',
  summary: 'Events of all sessions as server-sent events, from now on',
  query: z.strictObject({
    session: z.string().optional().describe('Of this session and its descendants'),
    mode: viewMode.optional(),
    deltas: deltas.optional(),
    token,
  }),
  answers: [{ status: 200, description: 'The stream', mediaType: EVENT_STREAM }],
  async handle({ query, server: { runtime, streams, defaultViewMode } }) {
    const root = query.session === undefined ? undefined : sessionIdIn(runtime, query.session);
    const mode = query.mode ?? defaultViewMode;
    const wantsDeltas = query.deltas !== 'false';
    const filter = ({ session, type }: SessionEvent): boolean =>
      (root === undefined || isInTree(session, root)) &&
      (wantsDeltas || (type !== 'text.delta' && type !== 'thinking.delta'));
    return streams.answer(mode, () => runtime.events({ filter }));
  },
});

/** See the file header. */
export const conversationRoutes: readonly Route[] = [send, messages, pending, recall, receipt, events, allEvents];

function accepted(receipt: Receipt<unknown>): Response {
  return json(receiptOf(receipt), 202, { location: `receipts/${receipt.id.slice(receipt.id.lastIndexOf('/') + 1)}` });
}

function receiptOf({ id, session, seq, pendingId, duplicate }: Receipt<unknown>): object {
  return { id, session, seq, pendingId, duplicate };
}

/**
 * The id of the last event that a reconnecting client has received (`Last-Event-ID`). A value that is not a number does
 * not come from this server, so it is ignored.
 */
function lastEventId(request: Request): string | undefined {
  const id = request.headers.get('last-event-id');
  return id !== null && /^\d{1,15}$/.test(id) ? id : undefined;
}

/**
 * Settles as the promise does. Rejects as soon as the client disconnects, because then no client waits for the answer.
 */
function untilGone<T>(promise: Promise<T>, request: Request): Promise<T> {
  // This line keeps the request referenced, because its signal lives only as long as the request.
  const { signal } = request;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(new CancelledError('the client has gone'));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
