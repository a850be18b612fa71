/** The route of the audit log. */
import { z } from 'zod';
import { AUDIT_ACTIONS } from '../../base/audit/audit-entry.ts';
import { defined } from '../../base/defined.ts';
import * as answers from '../answers.ts';
import { pageOf, pageSize, token } from '../query-parts.ts';
import { jsonInTick, type Route, route } from '../route.ts';
import { problemAnswer } from '../session-routes.ts';

const list = route({
  method: 'GET',
  path: '/audit',
  role: 'admin',
  summary: 'The audit log, oldest first: decisions, deletions, edits, dead letters, keys, and what retention removed',
  query: z.strictObject({
    after: z.string().optional().describe('The value of next in the previous page, which may have no entries'),
    limit: pageSize.optional(),
    session: z.string().optional().describe('Only entries of this session and its descendants, deleted or not'),
    action: z.enum(AUDIT_ACTIONS).optional().describe('Only entries of this act'),
    token,
  }),
  answers: [
    { status: 200, description: 'A page of entries', schema: answers.auditList },
    problemAnswer(400, 'Not the next of a page, not the id of a session, or not an act'),
  ],
  handle: ({ query, server: { runtime, pages } }) =>
    pages.run(async () => {
      const { session, action } = query;
      const { items, next } = await runtime.audit({ ...pageOf(query), ...defined({ session, action }) });
      return jsonInTick({ entries: items, ...defined({ next }) });
    }),
});

/** See the file header. */
export const auditRoutes: readonly Route[] = [list];
