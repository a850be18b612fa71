/** Routes of a session's goals, skills and forks, and of the search over all sessions. */

import { z } from 'zod';
import { SEARCH_QUERY_CHARACTERS_MAX, SEARCH_RESULTS_DEFAULT, SEARCH_RESULTS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import * as answers from '../answers.ts';
import { HttpProblem } from '../problem.ts';
import { noBody, noQuery, token, wholeNumber } from '../query-parts.ts';
import { authorOf } from '../roles.ts';
import { json, jsonInTick, type Route, route } from '../route.ts';
import { known, problemAnswer, whole } from '../session-routes.ts';

const UNKNOWN = problemAnswer(404, 'There is no such session');
const BAD_GOAL = problemAnswer(400, 'A blank description, or a goal that is unknown or completed');
const description = z.string();
const seqs = z.array(z.number().int().positive());

const goals = route({
  method: 'GET',
  path: '/sessions/:id/goals',
  role: 'reader',
  summary: 'The goals of the session by age, each with its parts',
  query: noQuery,
  answers: [{ status: 200, description: 'The goals', schema: answers.goalList }, UNKNOWN],
  async handle({ part, server: { runtime } }) {
    return json({ goals: await runtime.session(await known(runtime, part('id'))).goals.list() });
  },
});

const createGoal = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/goals',
  role: 'writer',
  summary: 'Create a goal, or a part of one',
  query: noQuery,
  body: z.strictObject({ description, parentId: z.number().int().positive().optional() }),
  answers: [{ status: 201, description: 'Created', schema: answers.goal }, UNKNOWN, BAD_GOAL],
  async handle({ part, body, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return json(
      await session.goals.create({ description: body.description, ...defined({ parentId: body.parentId }) }),
      201,
    );
  },
});

const attachGoals = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/goals/attach',
  role: 'writer',
  summary: 'Pin messages to open goals; they are shown again once they have left the window',
  query: noQuery,
  body: z.strictObject({ messages: seqs, goals: seqs }),
  answers: [{ status: 200, description: 'The number of links', schema: answers.links }, UNKNOWN, BAD_GOAL],
  async handle({ part, body, server: { runtime } }) {
    return json({ links: await runtime.session(await known(runtime, part('id'))).goals.attach(body) });
  },
});

const updateGoal = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/goals/:goal',
  role: 'writer',
  summary: 'Change the description of an open goal',
  query: noQuery,
  body: z.strictObject({ description }),
  answers: [{ status: 200, description: 'Changed', schema: answers.goal }, UNKNOWN, BAD_GOAL],
  async handle({ part, body, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return json(await session.goals.update(goalOf(part('goal')), body));
  },
});

const completeGoal = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/goals/:goal/complete',
  role: 'writer',
  summary: 'Complete an open goal and its open parts',
  query: noQuery,
  body: noBody,
  answers: [{ status: 200, description: 'Completed', schema: answers.goal }, UNKNOWN, BAD_GOAL],
  async handle({ part, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    return json(await session.goals.complete(goalOf(part('goal'))));
  },
});

const activate = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/skills',
  role: 'writer',
  summary: 'Show a skill or a workflow to the model with the next half-step',
  query: noQuery,
  body: z.union([z.strictObject({ skill: z.string() }), z.strictObject({ workflow: z.string() })]),
  answers: [
    { status: 200, description: 'It is active', schema: answers.definition },
    UNKNOWN,
    problemAnswer(400, 'An unknown skill or workflow'),
  ],
  async handle({ part, body, server: { runtime } }) {
    const session = runtime.session(await known(runtime, part('id')));
    const active = 'skill' in body ? session.activateSkill(body.skill) : session.activateWorkflow(body.workflow);
    const { name, description: text } = await active;
    return json({ name, description: text });
  },
});

const fork = route({
  method: 'POST',
  isNewWork: true,
  path: '/sessions/:id/fork',
  role: 'writer',
  summary: 'Make a session that continues from this one, as it is now or as it was after a message',
  query: noQuery,
  body: z.strictObject({
    at: z.number().int().positive().optional().describe('Number of the last message; default: all messages'),
    id: z.string().optional().describe('Id of the fork; default: <id>:fork-<n>'),
  }),
  answers: [
    { status: 201, description: 'The fork', schema: answers.session },
    UNKNOWN,
    problemAnswer(400, 'Not an id, or an id that is taken'),
  ],
  async handle({ part, body, caller, server: { runtime } }) {
    const id = await known(runtime, part('id'));
    const made = await runtime.session(id).fork(defined({ ...body, by: authorOf(caller) }));
    return json(await whole(runtime, made.id), 201, { location: `../${encodeURIComponent(made.id)}` });
  },
});

const search = route({
  method: 'GET',
  path: '/search',
  role: 'reader',
  summary: 'The messages of all sessions that fit a query best, best first',
  query: z.strictObject({
    query: z.string().max(SEARCH_QUERY_CHARACTERS_MAX),
    limit: wholeNumber.optional().describe(`1 to ${SEARCH_RESULTS_MAX}, default ${SEARCH_RESULTS_DEFAULT}`),
    session: z.string().optional().describe('Only in the tree of this session'),
    token,
  }),
  answers: [
    { status: 200, description: 'The messages', schema: answers.searchResult },
    problemAnswer(400, 'Not a query, or not the id of a session'),
  ],
  async handle({ query: { query, limit, session }, server: { runtime } }) {
    const options = defined({ session, limit: limit === undefined ? undefined : Number(limit) });
    return jsonInTick(await runtime.search(query, options));
  },
});

/** See the file header. The route `attach` comes first, because the routes of one goal would also match its path. */
export const goalRoutes: readonly Route[] = [
  goals,
  createGoal,
  attachGoals,
  updateGoal,
  completeGoal,
  activate,
  fork,
  search,
];

function goalOf(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new HttpProblem('bad_request', 'a goal is named by its number');
  return Number(text);
}
