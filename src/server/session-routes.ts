/** Routes of whole sessions: create, list, read, control, delete. */
import { z } from 'zod';
import { BUDGET_TOKENS_MAX, SERVER_PAGE_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { SESSION_ID_FORM } from '../base/ids.ts';
import { SESSION_STATES, TURN_OUTCOMES } from '../events/event.ts';
import { type SessionSummary, type SessionsView, TroupeError } from '../index.ts';
import { listPlaceText } from '../runtime/protocol/list-order.ts';
import * as answers from './answers.ts';
import { debugContext } from './debug-context.ts';
import {
  familySizeOf,
  key,
  noBody,
  noQuery,
  numberOf,
  pageOf,
  pageSize,
  sizeOf,
  statusesOf,
  statusList,
  time,
  timeOf,
  token,
  viewMode,
  wholeNumber,
} from './query-parts.ts';
import { authorOf } from './roles.ts';
import { json, jsonInTick, type Route, type RouteAnswer, route } from './route.ts';

const place = wholeNumber.describe('The value of next in the previous page');
const UNKNOWN: RouteAnswer = problemAnswer(404, 'There is no such session');

const list = route({
  method: 'GET',
  path: '/sessions',
  role: 'reader',
  summary: 'Sessions, the last changed one first, or by id',
  query: z.strictObject({
    after: z.string().optional().describe('The value of next in the previous page; with order=id also any id'),
    limit: pageSize.optional(),
    order: z.enum(['newest', 'id']).optional().describe('Default: newest'),
    parent: z.string().optional().describe('Children of this session; empty: sessions without a parent'),
    status: statusList.optional(),
    state: z.enum(SESSION_STATES).optional(),
    outcome: z.enum(TURN_OUTCOMES).optional().describe('How the last turn ended'),
    agent: z.string().optional(),
    changedAfter: time.optional(),
    changedBefore: time.optional(),
    children: z
      .enum(['true', 'false'])
      .optional()
      .describe('true: sessions without a parent, each with its children; then limit is at most 50, default 10'),
    token,
  }),
  answers: [{ status: 200, description: 'A page of sessions', schema: answers.sessionList }],
  async handle({ query, server }) {
    const { after, state, status, parent, outcome, agent, order = 'newest' } = query;
    const children = query.children === 'true';
    const limit = children ? familySizeOf(query.limit) : sizeOf(query.limit);
    const found = await server.runtime.sessions.list({
      ...defined({ after, state, outcome, agent, status: statusesOf(status) }),
      ...defined({ changedAfter: timeOf(query.changedAfter), changedBefore: timeOf(query.changedBefore) }),
      ...(parent === undefined ? {} : { parent: parent === '' ? null : parent }),
      ...(children ? { children } : {}),
      order,
      // A list with children returns at most `LIST_FAMILIES_MAX` sessions, so a full page could not get one session
      // more.
      limit: children ? limit : limit + 1,
    });
    const sessions = found.slice(0, limit);
    const last = sessions.at(-1);
    // A full page with children may be the last page. Then the page after it is empty.
    const hasMore = children ? found.length === limit : found.length > limit;
    const next = hasMore && last !== undefined ? listPlaceText(order, last) : undefined;
    return json({ sessions, ...defined({ next }) });
  },
});

const create = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions',
  role: 'writer',
  summary: 'Create a session, unless it exists',
  query: noQuery,
  body: z.strictObject({
    id: z.string().describe(`^${SESSION_ID_FORM}`),
    agent: z.string().optional().describe('Agent of a new session; not needed where exactly one is defined'),
  }),
  answers: [
    { status: 201, description: 'Made', schema: answers.session },
    { status: 200, description: 'It existed', schema: answers.session },
    problemAnswer(400, 'Not an id, no such agent, or none named where several are defined'),
    problemAnswer(404, 'An id of another tenant'),
    problemAnswer(409, 'The session has another agent (`agent_mismatch`)'),
  ],
  async handle({ body, server: { runtime } }) {
    const session = runtime.session(body.id, body.agent);
    const { id } = session;
    const isNew = (await runtime.sessions.get(id)) === undefined;
    // A new session is not paused, so `resume` creates the session and starts nothing.
    if (isNew) await session.resume();
    // The session exists: `state` rejects if the request names another agent than the session has.
    else if (body.agent !== undefined) await session.state();
    // The location is relative to the requested path, because this handler may be mounted below another path.
    const headers = { location: `sessions/${encodeURIComponent(id)}` };
    return json(await whole(runtime, id), isNew ? 201 : 200, headers);
  },
});

const read = route({
  method: 'GET',
  path: '/sessions/:id',
  role: 'reader',
  summary: 'One session and its state',
  query: noQuery,
  answers: [{ status: 200, description: 'The session', schema: answers.session }, UNKNOWN],
  handle: async ({ part, server }) => json(await whole(server.runtime, part('id'))),
});

const remove = route({
  method: 'DELETE',
  path: '/sessions/:id',
  role: 'admin',
  summary: 'Delete a session and its descendants',
  query: noQuery,
  answers: [{ status: 204, description: 'Deleted' }, UNKNOWN],
  async handle({ part, caller, server }) {
    const id = part('id');
    if (!(await server.runtime.sessions.delete(id, defined({ by: authorOf(caller) })))) throw unknownSession(id);
    return new Response(null, { status: 204 });
  },
});

const interrupt = route({
  method: 'POST',
  path: '/sessions/:id/interrupt',
  role: 'writer',
  summary: 'Cancel the model call, the running tools and the working children',
  query: noQuery,
  body: z.strictObject({ reason: z.string().max(1_000).optional() }),
  answers: [{ status: 200, description: 'Whether it was running', schema: answers.interrupted }, UNKNOWN],
  async handle({ part, body, server: { runtime } }) {
    const id = await known(runtime, part('id'));
    return json({ interrupted: await runtime.session(id).interrupt(body.reason) });
  },
});

const pause = route({
  method: 'POST',
  path: '/sessions/:id/pause',
  role: 'writer',
  summary: 'Start no half-step until resumed; running work continues',
  query: noQuery,
  body: noBody,
  answers: [{ status: 200, description: 'Paused', schema: answers.paused }, UNKNOWN],
  async handle({ part, server: { runtime } }) {
    await runtime.session(await known(runtime, part('id'))).pause();
    return json({ paused: true });
  },
});

const resume = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/resume',
  role: 'writer',
  summary: 'End a pause, or the block after refused credentials',
  query: noQuery,
  body: noBody,
  answers: [{ status: 200, description: 'Not paused', schema: answers.paused }, UNKNOWN],
  async handle({ part, server: { runtime } }) {
    await runtime.session(await known(runtime, part('id'))).resume();
    return json({ paused: false });
  },
});

const spawn = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/children',
  role: 'writer',
  summary: 'Spawn a sub-agent',
  query: noQuery,
  body: z.strictObject({
    task: z.string(),
    agent: z.string().optional(),
    specialist: z.string().optional(),
    name: z.string().optional(),
    tools: z.array(z.string()).optional(),
    replies: z.enum(['mailbox', 'handle']).optional(),
    budget: z.number().int().min(1).max(BUDGET_TOKENS_MAX).optional().describe('Tokens it and its descendants may use'),
    key: key.optional(),
    continue: z
      .boolean()
      .optional()
      .describe('Whether the known child of the key continues, if it was cancelled or failed'),
  }),
  answers: [
    { status: 201, description: 'Child, first message and link are on disk', schema: answers.child },
    UNKNOWN,
    problemAnswer(400, 'A blank task, an unknown agent or tool, not a name'),
    problemAnswer(422, 'Too deep, or too many children'),
  ],
  async handle({ part, body, server: { runtime } }) {
    const parent = await known(runtime, part('id'));
    const { task, key, continue: continues, ...options } = body;
    const extra = defined({ key, continue: continues });
    const child = await runtime.session(parent).spawn({ task, ...defined(options) }, extra);
    return json({ id: child.id, name: child.name, parent }, 201, {
      location: `../${encodeURIComponent(child.id)}`,
    });
  },
});

const usage = route({
  method: 'GET',
  path: '/sessions/:id/usage',
  role: 'reader',
  summary: 'The tokens that the session has used; with tree=true also those of its descendants',
  query: z.strictObject({ tree: z.enum(['true', 'false']).optional(), token }),
  answers: [{ status: 200, description: 'The tokens', schema: answers.sessionUsage }, UNKNOWN],
  async handle({ part, query, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return json({ usage: await session.usage({ tree: query.tree === 'true' }) });
  },
});

const budget = route({
  method: 'POST',
  path: '/sessions/:id/budget',
  role: 'admin',
  summary: 'Set the tokens that the session and its descendants may use in total; null: no limit',
  query: noQuery,
  body: z.strictObject({ tokens: z.number().int().min(1).max(BUDGET_TOKENS_MAX).nullable() }),
  answers: [
    { status: 200, description: 'The budget is on disk', schema: answers.budget },
    UNKNOWN,
    problemAnswer(422, 'A first budget of a session above too many others'),
  ],
  async handle({ part, body, server: { runtime } }) {
    await runtime.session(await known(runtime, part('id'))).setBudget(body.tokens);
    return json({ tokens: body.tokens });
  },
});

const approve = route({
  method: 'POST',
  path: '/sessions/:id/approve',
  role: 'approver',
  summary: 'Decide a tool call that waits for a person',
  query: noQuery,
  body: z.strictObject({
    callId: z.string().min(1).max(256),
    allow: z.boolean(),
    reason: z.string().max(10_000).optional(),
    input: z.record(z.string(), z.unknown()).optional().describe('Replaces the input of the model'),
  }),
  answers: [
    { status: 200, description: 'Whether the decision holds, also when it is sent again', schema: answers.approved },
    UNKNOWN,
    problemAnswer(400, 'An input that cannot be stored'),
  ],
  async handle({ part, body, caller, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const { callId, allow, reason, input } = body;
    const decided = await session.approve(callId, { allow, ...defined({ reason, input, by: authorOf(caller) }) });
    return json({ callId, allow, decided });
  },
});

const answer = route({
  method: 'POST',
  path: '/sessions/:id/answer',
  role: 'approver',
  summary: 'Answer a question of the model, or decline to',
  query: noQuery,
  body: z.union([
    z.strictObject({
      callId: z.string().min(1).max(256),
      value: z.json().describe('A text, or a value of the schema of the question'),
    }),
    z.strictObject({
      callId: z.string().min(1).max(256),
      decline: z.literal(true),
      reason: z.string().max(10_000).optional().describe('For the model'),
    }),
  ]),
  answers: [
    { status: 200, description: 'Whether the answer holds, also when it is sent again', schema: answers.answered },
    UNKNOWN,
    problemAnswer(400, 'An answer that does not fit; the question still waits. Or a call that needs an approval'),
  ],
  async handle({ part, body, caller, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const { callId } = body;
    const by = defined({ by: authorOf(caller) });
    const isAnswered =
      'value' in body ? session.answer(callId, body.value, by) : session.decline(callId, body.reason, by);
    return json({ callId, answered: await isAnswered });
  },
});

const explain = route({
  method: 'GET',
  path: '/sessions/:id/explain',
  role: 'reader',
  summary: 'Why the session is not running: exactly one reason',
  query: noQuery,
  answers: [{ status: 200, description: 'The reason', schema: answers.explanation }, UNKNOWN],
  async handle({ part, server: { runtime } }) {
    return json(await runtime.session(await known(runtime, part('id'))).explain());
  },
});

const viewport = route({
  method: 'GET',
  path: '/sessions/:id/viewport',
  role: 'reader',
  summary: 'The messages the model sees now; fewer than requested if they are large',
  query: z.strictObject({ after: place.optional(), limit: pageSize.optional(), token }),
  answers: [{ status: 200, description: 'A page of the messages', schema: answers.viewport }, UNKNOWN],
  async handle({ part, query, server: { runtime, pages } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return pages.run(async () => {
      const { items: messages, next } = await session.page('viewport', pageOf(query));
      return jsonInTick({ messages, ...defined({ next: numberOf(next) }) });
    });
  },
});

const request = route({
  method: 'GET',
  path: '/sessions/:id/request',
  role: 'reader',
  summary:
    'The request body that the model would be sent now, byte-stable. Its messages come in pages, all else on the first page. `violations` has the first rules of the Messages API that the request breaks. An idle session breaks R12, because its last message is an answer',
  query: z.strictObject({
    mode: viewMode.optional().describe('debug: with the system prompt as a separate entry, in `context`'),
    after: place.optional(),
    limit: pageSize.optional(),
    token,
  }),
  answers: [{ status: 200, description: 'The request', schema: answers.modelRequest }, UNKNOWN],
  async handle({ part, query, server: { runtime, pages } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return pages.run(async () => {
      const asked = { ...pageOf(query), limit: query.limit === undefined ? SERVER_PAGE_MAX : sizeOf(query.limit) };
      const { items: messages, next, head, violations = [] } = await session.page('request', asked);
      const context = query.mode === 'debug' && head !== undefined ? debugContext(head) : undefined;
      return jsonInTick({ ...head, messages, violations, ...defined({ context, next: numberOf(next) }) });
    });
  },
});

/** See the file header. */
export const sessionRoutes: readonly Route[] = [
  list,
  create,
  read,
  remove,
  interrupt,
  pause,
  resume,
  spawn,
  usage,
  budget,
  approve,
  answer,
  explain,
  viewport,
  request,
];

/** The full id of an existing session. Rejects with `unknown_session`, or `InvalidNameError`. */
export async function known(runtime: SessionsView, id: string): Promise<string> {
  return (await summaryOf(runtime, id)).id;
}

/** Describes a failure that a route may answer with. */
export function problemAnswer(status: number, description: string): RouteAnswer {
  return { status, description, schema: answers.problem, mediaType: 'application/problem+json' };
}

/** A session with its state. Rejects with `unknown_session`. */
export async function whole(runtime: SessionsView, id: string): Promise<object> {
  const summary = await summaryOf(runtime, id);
  return { ...summary, ...(await runtime.session(id).state()) };
}

async function summaryOf(runtime: SessionsView, id: string): Promise<SessionSummary> {
  const summary = await runtime.sessions.get(id);
  if (summary === undefined) throw unknownSession(id);
  return summary;
}

function unknownSession(id: string): TroupeError {
  return new TroupeError('unknown_session', `there is no session ${JSON.stringify(id)}`, { data: { session: id } });
}
