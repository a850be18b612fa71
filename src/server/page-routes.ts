/**
 * Routes of the observer page. They serve files of one directory, which is built beside the package, and no other
 * files.
 */
import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { SERVER_FILE_BYTES_MAX } from '../base/bounds.ts';
import { HttpProblem } from './problem.ts';
import { type Route, route } from './route.ts';
import { problemAnswer } from './session-routes.ts';

const PAGE = '/observer/';
const INDEX = 'index.html';
/** The addresses of the page's files may have any query, because a build uses the query to mark versions of files. */
const anyQuery = z.looseObject({});
/** A path of plain names: no `..`, no hidden files, nothing to decode. */
const FILE_PATH = /^(?:[A-Za-z0-9_][A-Za-z0-9._-]*\/)*[A-Za-z0-9_][A-Za-z0-9._-]*$/;

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
  '.txt': 'text/plain; charset=utf-8',
};

/** The page may only run its own files and query its own server. No other page may frame it. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** `location` is relative to the path, so that it works below any path at which the handler is mounted. */
const toPage = (path: string, location: string): Route =>
  route({
    method: 'GET',
    path,
    role: 'none',
    summary: 'The observer page is at /observer/',
    query: anyQuery,
    answers: [{ status: 302, description: 'To the page' }],
    handle: () => new Response(null, { status: 302, headers: { location } }),
  });

const page = route({
  method: 'GET',
  path: '/observer/*',
  role: 'none',
  summary: 'The observer page and its files; they need no token and hold no data',
  query: anyQuery,
  answers: [{ status: 200, description: 'The file', mediaType: 'text/html' }, problemAnswer(404, 'No such file')],
  async handle({ part, server }) {
    const asked = part('*');
    const path = asked === '' ? INDEX : asked;
    const directory = server.options.observerDirectory ?? (await builtPage());
    const body = directory === undefined ? undefined : await fileIn(directory, path);
    if (body === undefined) throw missing(path);
    const type = MEDIA_TYPES[extname(path)] ?? 'application/octet-stream';
    return new Response(body, {
      headers: {
        'content-type': type,
        'content-length': String(body.length),
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'cache-control': 'no-cache',
        'referrer-policy': 'no-referrer',
      },
    });
  },
});

/** See the file header. */
export const pageRoutes: readonly Route[] = [toPage('/', PAGE), toPage('/observer', 'observer/'), page];

function missing(path: string): HttpProblem {
  const why =
    path === INDEX ? 'the observer page is not built: run `npm run build`' : 'the observer page has no such file';
  return new HttpProblem('not_found', why);
}

/** The directory of the page: beside the built package, or in `dist` if this runs from the sources. */
async function builtPage(): Promise<string | undefined> {
  for (const place of ['./observer', '../../dist/observer']) {
    const directory = fileURLToPath(new URL(place, import.meta.url));
    const found = await stat(join(directory, INDEX)).catch(() => undefined);
    if (found?.isFile() === true) return directory;
  }
  return undefined;
}

/**
 * The bytes of a file below `directory`. Links may not lead out of the directory. Undefined if there is no such file,
 * or if the file is larger than `SERVER_FILE_BYTES_MAX`.
 */
async function fileIn(directory: string, path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (!FILE_PATH.test(path)) return undefined;
  try {
    const root = await realpath(directory);
    const real = await realpath(join(root, path));
    if (!real.startsWith(root + sep)) return undefined;
    const file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const { size } = await file.stat();
      return size > SERVER_FILE_BYTES_MAX ? undefined : new Uint8Array(await file.readFile());
    } finally {
      await file.close();
    }
  } catch (error) {
    // The client sees no difference between an absent file and a folder.
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG')
      return undefined;
    throw error;
  }
}
