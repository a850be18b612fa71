/** The OpenAPI document of the interface, built from the routes and from the schemas that check them. Pure. */
import { z } from 'zod';
import type { Route, RouteAnswer } from './route.ts';

/** Answers that every route with a token may give. */
const COMMON: readonly RouteAnswer[] = [
  { status: 401, description: 'A token is needed', mediaType: 'application/problem+json' },
  {
    status: 403,
    description: 'The Host or the Origin is not this server, or the token does not have the role (`role_missing`)',
    mediaType: 'application/problem+json',
  },
];

/** The path of a route as OpenAPI writes it. */
function documentedPath(path: string): string {
  return path.replaceAll(/:(\w+)/g, '{$1}').replace('*', '{file}');
}

/** The document, as JSON. */
export function openApiDocument(routes: readonly Route[], version: string): string {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = documentedPath(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, path) };
  }
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'troupe', version, description: 'Sessions of an actor runtime for LLM agents.' },
    security: [{ bearer: [] }, {}],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'If the server has a token' },
      },
    },
  });
}

function operation({ method, door, role, isOfRuntime, summary, query, body, answers }: Route, path: string): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const all = door === 'open' ? answers : [...answers, ...COMMON];
  return {
    operationId: operationId(method, path),
    summary,
    ...(door === 'open' ? { security: [] } : { 'x-role': role }),
    ...(isOfRuntime && door !== 'open' ? { 'x-all-tenants': true } : {}),
    parameters: [...inPath, ...inQuery(query)],
    ...(body === undefined ? {} : { requestBody: requestBody(body) }),
    responses: Object.fromEntries(all.map((answer) => [String(answer.status), response(answer)])),
  };
}

function operationId(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return [method.toLowerCase(), ...words].join('-');
}

function inQuery(query: z.ZodType): readonly object[] {
  const { properties = {}, required = [] } = schemaOf(query, 'input');
  return Object.entries(properties as Record<string, object>)
    .filter(([name]) => name !== 'token')
    .map(([name, schema]) => ({ name, in: 'query', required: (required as readonly string[]).includes(name), schema }));
}

function requestBody(body: z.ZodType): object {
  const schema = schemaOf(body, 'input');
  const isNeeded = Array.isArray(schema['required']) && schema['required'].length > 0;
  return { required: isNeeded, content: { 'application/json': { schema } } };
}

function response({ description, schema, mediaType }: RouteAnswer): object {
  if (schema === undefined && mediaType === undefined) return { description };
  const shape = schema === undefined ? {} : { schema: schemaOf(schema, 'output') };
  return { description, content: { [mediaType ?? 'application/json']: shape } };
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
