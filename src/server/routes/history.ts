/**
 * Routes of a session's history: reading a page, and the operations. Operations that take a function have no route.
 */
import { z } from 'zod';
import { HISTORY_MESSAGES_MAX, PAGE_BYTES_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { EditOptions, History, HistoryMessage, Session } from '../../index.ts';
import * as answers from '../answers.ts';
import { key, noQuery, pageSize, sizeOf, token, wholeNumber } from '../query-parts.ts';
import { authorOf } from '../roles.ts';
import { jsonInTick, type Route, route } from '../route.ts';
import { known, problemAnswer } from '../session-routes.ts';

const UNKNOWN = problemAnswer(404, 'There is no such session, or no such message');

const members = z.record(z.string(), z.json());
/** A message. Only its role is checked here; the history checks its other members. */
const draft = z.looseObject({ role: z.enum(['system', 'user', 'assistant', 'tool']) });
const drafts = z.array(draft).max(HISTORY_MESSAGES_MAX);
const id = z.string().min(1);
const adding = { message: draft, silent: z.boolean().optional(), key: key.optional() };
const replacing = { messages: drafts, key: key.optional() };

const operationSchema = z.discriminatedUnion('operation', [
  z.strictObject({ operation: z.literal('add'), ...adding }),
  z.strictObject({ operation: z.literal('append'), ...adding }),
  z.strictObject({ operation: z.literal('set'), ...replacing }),
  z.strictObject({ operation: z.literal('seed'), ...replacing }),
  z.strictObject({ operation: z.literal('unset'), key: key.optional() }),
  z.strictObject({ operation: z.literal('remove'), id, key: key.optional() }),
  z.strictObject({
    operation: z.literal('update'),
    id: id.optional(),
    toolCallId: id.optional(),
    attributes: members,
    key: key.optional(),
  }),
  z.strictObject({
    operation: z.literal('replaceSystemPrompt'),
    text: z.string(),
    extra: members.optional(),
    key: key.optional(),
  }),
  z.strictObject({ operation: z.literal('popLast'), key: key.optional() }),
  z.strictObject({ operation: z.literal('truncateFrom'), index: z.number().int().min(0), key: key.optional() }),
  z.strictObject({
    operation: z.literal('rollbackBefore'),
    handle: z.strictObject({ id, seq: z.number().int(), session: z.string(), incarnation: z.number().int() }),
    key: key.optional(),
  }),
  z.strictObject({ operation: z.literal('discardPendingToolCalls'), key: key.optional() }),
  z.strictObject({
    operation: z.literal('attachToToolResult'),
    callId: id,
    name: z.string().min(1),
    value: z.json(),
    key: key.optional(),
  }),
  z.strictObject({ operation: z.literal('settleInterrupted'), trails: members.optional(), key: key.optional() }),
  z.strictObject({ operation: z.literal('undo') }),
  z.strictObject({ operation: z.literal('startTask'), title: z.string().optional() }),
  z.strictObject({ operation: z.literal('switchTo'), task: z.number().int().min(0) }),
  z.strictObject({ operation: z.literal('compress'), force: z.boolean().optional() }),
]);

type Operation = z.infer<typeof operationSchema>;

/** Does an operation and returns its outcome; undefined for an operation that resolves to the history itself. */
async function change(history: History, body: Operation, by: string | undefined): Promise<unknown> {
  const options = defined({ key: 'key' in body ? body.key : undefined, by });
  switch (body.operation) {
    case 'add':
      return history.add(body.message, { ...options, ...defined({ silent: body.silent }) });
    case 'append':
      return history.append(body.message, { ...options, ...defined({ silent: body.silent }) });
    case 'remove':
      return history.remove({ id: body.id }, options);
    case 'update':
      return history.update(defined({ id: body.id, toolCallId: body.toolCallId }), body.attributes, options);
    case 'popLast':
      return history.popLast(options);
    case 'discardPendingToolCalls':
      return history.discardPendingToolCalls(options);
    case 'undo':
      return history.undo(defined({ by }));
    case 'startTask':
      return history.startTask(body.title, defined({ by }));
    case 'switchTo':
      return history.switchTo(body.task, defined({ by }));
    case 'compress':
      return history.compress(defined({ force: body.force }));
    default:
      await changeWhole(history, body, options);
      return undefined;
  }
}

/** The operations that resolve to the history itself. */
type WholeOperation = Extract<
  Operation,
  {
    operation:
      | 'set'
      | 'seed'
      | 'unset'
      | 'replaceSystemPrompt'
      | 'truncateFrom'
      | 'rollbackBefore'
      | 'attachToToolResult'
      | 'settleInterrupted';
  }
>;

function changeWhole(history: History, body: WholeOperation, options: EditOptions): Promise<History> {
  switch (body.operation) {
    case 'set':
      return history.set(body.messages, options);
    case 'seed':
      return history.seed(body.messages, options);
    case 'unset':
      return history.unset(options);
    case 'replaceSystemPrompt':
      return history.replaceSystemPrompt(body.text, body.extra, options);
    case 'truncateFrom':
      return history.truncateFrom(body.index, options);
    case 'rollbackBefore':
      return history.rollbackBefore(body.handle, options);
    case 'attachToToolResult':
      return history.attachToToolResult(body.callId, body.name, body.value, options);
    case 'settleInterrupted':
      return history.settleInterrupted(body.trails, options);
  }
}

const read = route({
  method: 'GET',
  path: '/sessions/:id/history',
  role: 'reader',
  summary:
    'The conversation in the form of the history operations, oldest first; fewer than requested if they are large',
  query: z.strictObject({
    after: wholeNumber.optional().describe('The value of next in the previous page'),
    limit: pageSize.optional(),
    token,
  }),
  answers: [{ status: 200, description: 'A page of messages', schema: answers.historyList }, UNKNOWN],
  async handle({ part, query, server: { runtime, pages } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return pages.run(async () => jsonInTick(await page(session, Number(query.after ?? 0), sizeOf(query.limit))));
  },
});

const edit = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/history',
  role: 'writer',
  summary: 'One operation on the history, durable when it is answered; it starts no turn',
  query: noQuery,
  body: operationSchema,
  answers: [
    { status: 200, description: 'The outcome of the operation, if it has one', schema: answers.historyOutcome },
    UNKNOWN,
    problemAnswer(400, 'A message or argument that cannot be used'),
    problemAnswer(409, 'The key was used for another operation, or a result would lose its call'),
  ],
  async handle({ part, body, caller, server: { runtime } }) {
    const { history } = runtime.session(await known(runtime, part('id')));
    return jsonInTick({ outcome: (await change(history, body, authorOf(caller))) ?? null });
  },
});

/** See the file header. */
export const historyRoutes: readonly Route[] = [read, edit];

async function page(
  session: Session,
  after: number,
  limit: number,
): Promise<{ readonly messages: readonly HistoryMessage[]; readonly next?: number }> {
  const all = await session.history.toArray();
  const messages: HistoryMessage[] = [];
  let bytes = 0;
  for (const message of all.slice(after, after + limit)) {
    bytes += Buffer.byteLength(JSON.stringify(message));
    if (messages.length > 0 && bytes > PAGE_BYTES_MAX) break;
    messages.push(message);
  }
  const next = after + messages.length;
  return next < all.length ? { messages, next } : { messages };
}
