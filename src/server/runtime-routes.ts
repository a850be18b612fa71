/** Routes of the runtime itself: facts, metrics, health, and the document of the interface. */
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { z } from 'zod';
import { defined } from '../base/defined.ts';
import * as answers from './answers.ts';
import { HttpProblem } from './problem.ts';
import { PROMETHEUS_TYPE, prometheusText } from './prometheus.ts';
import { noQuery, pageOf, pageSize, token } from './query-parts.ts';
import { json, jsonInTick, type Route, route, runtimeRoute, text } from './route.ts';
import { problemAnswer } from './session-routes.ts';

const info = runtimeRoute({
  method: 'GET',
  path: '/info',
  role: 'reader',
  summary: 'Versions, threads, durability, directory',
  query: noQuery,
  answers: [{ status: 200, description: 'Facts about the runtime', schema: answers.info }],
  handle: ({ whole }) => json(whole.info()),
});

const metricsJson = runtimeRoute({
  method: 'GET',
  path: '/metrics.json',
  role: 'reader',
  summary: 'Counters since the runtime was opened, and the load of its host',
  query: noQuery,
  answers: [{ status: 200, description: 'The counters', schema: answers.metrics }],
  handle: ({ whole, server: { watch, streams } }) => json({ ...whole.metrics(), ...watch.metrics(streams.size) }),
});

const metrics = runtimeRoute({
  method: 'GET',
  path: '/metrics',
  role: 'reader',
  summary: 'The counters and the load in the text format of Prometheus',
  query: noQuery,
  answers: [{ status: 200, description: 'The counters', mediaType: PROMETHEUS_TYPE }],
  handle: ({ whole, server: { watch, streams } }) =>
    text(prometheusText(whole.metrics(), watch.metrics(streams.size), whole.info()), PROMETHEUS_TYPE),
});

const waiting = route({
  method: 'GET',
  path: '/waiting',
  role: 'reader',
  summary: 'The tool calls that wait for a person, oldest first; fewer than requested if they are large',
  query: z.strictObject({
    after: z.string().optional().describe('The value of next in the previous page'),
    limit: pageSize.optional(),
    session: z.string().optional().describe('Only calls of this session and its descendants'),
    token,
  }),
  answers: [
    { status: 200, description: 'A page of waiting calls', schema: answers.waitingList },
    problemAnswer(400, 'Not the next of a page, or not the id of a session'),
  ],
  handle: ({ query, server: { runtime, pages } }) =>
    pages.run(async () => {
      const { session } = query;
      const { items, next } = await runtime.waiting({ ...pageOf(query), ...defined({ session }) });
      return jsonInTick({ waiting: items, ...defined({ next }) });
    }),
});

const health = runtimeRoute({
  method: 'GET',
  path: '/healthz',
  role: 'none',
  summary: 'Whether the store accepts writes; needs no token',
  query: noQuery,
  answers: [
    { status: 200, description: 'It does', schema: answers.health },
    { status: 503, description: 'The store refuses writes; reads still work', schema: answers.health },
  ],
  handle({ whole }) {
    const isDegraded = whole.metrics().degraded !== undefined;
    // The reason of the failure is left out, because a probe has no token and a reason may name paths.
    return json({ status: isDegraded ? 'degraded' : 'ok' }, isDegraded ? 503 : 200);
  },
});

const ready = runtimeRoute({
  method: 'GET',
  path: '/readyz',
  role: 'none',
  summary: 'Whether messages are accepted and answered; needs no token',
  query: noQuery,
  answers: [
    { status: 200, description: 'They are', schema: answers.readiness },
    { status: 503, description: 'Messages are not accepted; send them to another server', schema: answers.readiness },
  ],
  async handle({ whole, server: { intake } }) {
    const isReady = intake.isOpen && (await whole.isReady());
    return json({ status: isReady ? 'ready' : 'not_ready' }, isReady ? 200 : 503);
  },
});

const backup = runtimeRoute({
  method: 'POST',
  isNewWork: true,
  path: '/backups',
  role: 'admin',
  summary: "Back up the store into a directory inside the server's directory for backups; answers when it is done",
  query: noQuery,
  body: z.strictObject({
    directory: z.string().min(1).describe('Relative to the directory for backups, or absolute and in it'),
  }),
  answers: [
    { status: 200, description: 'The backup is complete', schema: answers.backup },
    problemAnswer(400, 'The directory has other files'),
    problemAnswer(403, 'The server was given no directory for backups, or the directory is not in it'),
    problemAnswer(503, 'Another backup is written there'),
  ],
  async handle({ body: { directory }, whole, server: { options } }) {
    return json(await whole.backup(placeIn(options.backups, directory)));
  },
});

/** The path of a directory inside the directory for backups. Throws `HttpProblem` for any other path. */
function placeIn(backups: string | undefined, directory: string): string {
  if (backups === undefined) {
    throw new HttpProblem(
      'forbidden',
      'this server makes no backups: start it with --backups DIR, or the option "backups"',
    );
  }
  const path = resolve(backups, directory);
  const way = relative(backups, path);
  if (way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way)) {
    throw new HttpProblem('forbidden', `this server puts backups into ${backups} only`);
  }
  return path;
}

const document = route({
  method: 'GET',
  path: '/openapi.json',
  role: 'reader',
  summary: 'This interface as an OpenAPI document',
  query: noQuery,
  answers: [{ status: 200, description: 'OpenAPI 3.1' }],
  handle: ({ server }) => text(server.document(), 'application/json'),
});

/** See the file header. */
export const runtimeRoutes: readonly Route[] = [info, waiting, metricsJson, metrics, backup, health, ready, document];
