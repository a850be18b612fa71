/** Routes of dead letters: list them over all sessions, read one, send it again, drop it. */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import * as answers from '../answers.ts';
import { HttpProblem } from '../problem.ts';
import { noQuery, pageOf, pageSize, token } from '../query-parts.ts';
import { authorOf } from '../roles.ts';
import { json, jsonInTick, type Route, route } from '../route.ts';
import { known, problemAnswer } from '../session-routes.ts';

const UNKNOWN = problemAnswer(404, 'There is no such session, or it has no such dead letter');
const ONE = '/sessions/:id/dead-letters/:letter';

const list = route({
  method: 'GET',
  path: '/dead-letters',
  role: 'reader',
  summary: 'The messages that could not be promoted, by session and age, without their contents',
  query: z.strictObject({
    after: z.string().optional().describe('The value of next in the previous page, which may have no items'),
    limit: pageSize.optional(),
    session: z.string().optional().describe('Only letters of this session and its descendants'),
    token,
  }),
  answers: [
    { status: 200, description: 'A page of dead letters', schema: answers.deadLetterList },
    problemAnswer(400, 'Not the next of a page, or not the id of a session'),
  ],
  handle: ({ query, server: { runtime, pages } }) =>
    pages.run(async () => {
      const { session } = query;
      const { items, next } = await runtime.deadLetters({ ...pageOf(query), ...defined({ session }) });
      return jsonInTick({ letters: items, ...defined({ next }) });
    }),
});

const get = route({
  method: 'GET',
  path: ONE,
  role: 'reader',
  summary: 'A dead letter with its content',
  query: noQuery,
  answers: [{ status: 200, description: 'The letter', schema: answers.deadLetter }, UNKNOWN],
  async handle({ part, server: { runtime, pages } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const id = letterOf(part('letter'));
    return pages.run(async () => {
      const letter = await session.deadLetters.get(id);
      if (letter === undefined) throw new HttpProblem('not_found', `the session has no dead letter ${id}`);
      return jsonInTick(letter);
    });
  },
});

const resend = route({
  method: 'POST',
  isNewWork: true,
  path: `${ONE}/resend`,
  role: 'admin',
  summary: 'Send a dead letter again, as a new message; repeated, it answers with the same receipt',
  query: noQuery,
  body: z.strictObject({
    as: z.literal('user').optional().describe("user: as a user's message; missing: in its own form"),
  }),
  answers: [
    { status: 202, description: 'It is on disk', schema: answers.receipt },
    UNKNOWN,
    problemAnswer(400, 'In its own form it still cannot be promoted'),
    problemAnswer(429, 'The mailbox is full; Retry-After says when to try again'),
  ],
  async handle({ part, body, caller, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const receipt = await session.deadLetters.resend(letterOf(part('letter')), {
      ...defined(body),
      ...defined({ by: authorOf(caller) }),
    });
    const { id, seq, pendingId, duplicate } = receipt;
    const location = `../../receipts/${id.slice(id.lastIndexOf('/') + 1)}`;
    return json({ id, session: receipt.session, seq, pendingId, duplicate }, 202, { location });
  },
});

const drop = route({
  method: 'DELETE',
  path: ONE,
  role: 'admin',
  summary: 'Drop a dead letter',
  query: noQuery,
  answers: [
    { status: 200, description: 'Whether it was dropped; false: there is none', schema: answers.letterDropped },
    problemAnswer(404, 'There is no such session'),
  ],
  async handle({ part, caller, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const by = defined({ by: authorOf(caller) });
    return json({ dropped: await session.deadLetters.drop(letterOf(part('letter')), by) });
  },
});

/** See the file header. */
export const deadLetterRoutes: readonly Route[] = [list, get, resend, drop];

function letterOf(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new HttpProblem('bad_request', 'a dead letter is named by its number');
  return Number(text);
}
