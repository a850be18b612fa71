/**
 * Imports a module that an embedder names by URL: tools, a provider, a script, the agents of a command. TypeScript
 * programs name their modules `.js` before a build and `.ts` without one, so each name stands for both files.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { asError, ConfigError, systemCodeOf } from '../base/errors.ts';

/** The exports of a module, by name. */
export type ModuleExports = Readonly<Record<string, unknown>>;

/** A module's extension, and the extension of the same module before or after a build. */
const TWINS: Readonly<Record<string, string>> = {
  '.js': '.ts',
  '.mjs': '.mts',
  '.cjs': '.cts',
  '.ts': '.js',
  '.mts': '.mjs',
  '.cts': '.cjs',
};

/** The result of `inheritLoader` on this thread: the reason if tsx could not be registered; otherwise undefined. */
let loader: Promise<string | undefined> | undefined;

/**
 * A module's exports. Node caches them, so a second call returns the same module. If `url` names no file, the file with
 * the other extension of the pair `.js` and `.ts` is imported. That file is also imported if it exists and this thread
 * cannot load TypeScript. `name`: the beginning of an error's text. Throws a `ConfigError` that says how to solve the
 * problem.
 */
export async function importModule(url: string, name: string): Promise<ModuleExports> {
  if (!URL.canParse(url)) throw new ConfigError(`${name} cannot be loaded: expected a URL`, { data: { url } });
  loader ??= inheritLoader(url);
  const unregistered = await loader;
  try {
    const twin = twinOf(url);
    if (twin === undefined || !existsSync(new URL(twin))) return (await import(url)) as ModuleExports;
    if (!existsSync(new URL(url))) return (await import(twin)) as ModuleExports;
    try {
      return (await import(url)) as ModuleExports;
    } catch (error) {
      if (systemCodeOf(error) !== 'ERR_UNKNOWN_FILE_EXTENSION') throw error;
      return (await import(twin)) as ModuleExports;
    }
  } catch (error) {
    const text = `${name} cannot be loaded: ${reasonOf(error, url)}`;
    throw new ConfigError(unregistered === undefined ? text : `${text}; ${unregistered}`, {
      cause: error,
      data: { url },
    });
  }
}

/**
 * The URL with the other extension of its pair; undefined if the URL names no file, or has none of these extensions.
 */
function twinOf(url: string): string | undefined {
  const parsed = new URL(url);
  const extension = /\.[cm]?[jt]s$/.exec(parsed.pathname)?.[0];
  const twin = extension === undefined ? undefined : TWINS[extension];
  if (parsed.protocol !== 'file:' || extension === undefined || twin === undefined) return undefined;
  parsed.pathname = parsed.pathname.slice(0, -extension.length) + twin;
  return parsed.href;
}

/** The reason why an import failed, and the remedy if there is one. */
function reasonOf(error: unknown, url: string): string {
  const why = asError(error).message;
  switch (systemCodeOf(error)) {
    case 'ERR_UNKNOWN_FILE_EXTENSION':
      return /"\.[cm]?tsx?"/.test(why)
        ? `${why}; Node ${process.versions.node} loads no TypeScript: start it with --import tsx, or build the file and run the .js files`
        : why;
    case 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX':
      return `${why}; Node removes types and translates nothing else: start it with --import tsx, or build the file and run the .js files`;
    case 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING':
      return `${why}; build the package, and name its .js file`;
    case 'ERR_MODULE_NOT_FOUND':
      return missing(error, why, url);
    default:
      return error instanceof SyntaxError && /import statement outside a module|Unexpected token 'export'/.test(why)
        ? `${why}; the file is an ES module: set "type": "module" in its package.json, or name it .mjs`
        : why;
  }
}

/** The reason for `ERR_MODULE_NOT_FOUND`: the module itself is missing, or one of its imports. */
function missing(error: unknown, why: string, url: string): string {
  const missed = (error as { readonly url?: unknown }).url;
  if (typeof missed !== 'string') {
    const name = /^Cannot find package '([^']+)'/.exec(why)?.[1];
    return name === undefined ? why : `${why}; install it with: npm install ${name}`;
  }
  const twin = twinOf(missed);
  if (twin === undefined) return why;
  if (withoutQuery(missed) !== withoutQuery(url)) {
    if (!existsSync(new URL(twin))) return why;
    return `${why}; there is ${fileURLToPath(twin)}, but Node does not look for it: import it by that name, or start Node with --import tsx`;
  }
  return `there is neither ${fileURLToPath(missed)} nor ${fileURLToPath(twin)}`;
}

function withoutQuery(url: string): string {
  const { origin, protocol, pathname } = new URL(url);
  return `${protocol}${origin}${pathname}`;
}

/**
 * Lets this thread load TypeScript as the host's main thread does. Threads start with the host's `--import` and
 * `--loader`. But where Node has no synchronous module hooks (all of 20, early 22 and 24), tsx registers itself on the
 * main thread only. In this case the function registers tsx here through its API. `url`: a module of the embedder.
 * Resolves to the reason if tsx could not be registered; JavaScript modules can still be loaded then.
 */
async function inheritLoader(url: string): Promise<string | undefined> {
  if (isMainThread || resolvesExtensions(url)) return undefined;
  const tsx = importedAtStart().find((name) => /^tsx(?:\/|$)|[\\/]tsx[\\/]/.test(name));
  if (tsx === undefined) return undefined;
  try {
    const from = tsx.startsWith('file:') ? tsx : pathToFileURL(join(process.cwd(), 'package.json'));
    // tsx has its API as CommonJS and as an ES module. The CommonJS form does not find its own hooks.
    const path = createRequire(from)
      .resolve('tsx/esm/api')
      .replace(/\.cjs$/, '.mjs');
    const { register } = (await import(pathToFileURL(path).href)) as { readonly register: () => unknown };
    register();
    return undefined;
  } catch (error) {
    return `tsx could not be registered in this thread: ${asError(error).message}`;
  }
}

/**
 * True if the module hooks of this thread find a file without its extension. The hooks of tsx do; Node itself does not.
 */
function resolvesExtensions(url: string): boolean {
  const parsed = new URL(url);
  // If tsx cannot hook ES modules, it loads this file as CommonJS. Then `import.meta.resolve` is missing.
  if (parsed.protocol !== 'file:' || typeof import.meta.resolve !== 'function') return false;
  parsed.pathname = parsed.pathname.replace(/\.[cm]?[jt]s$/, '');
  try {
    return import.meta.resolve(parsed.href) !== parsed.href;
  } catch {
    return true;
  }
}

/** The modules that `--import` names, on the command line and in the environment. */
function importedAtStart(): readonly string[] {
  const options = [...process.execArgv, ...(process.env['NODE_OPTIONS'] ?? '').split(/\s+/)];
  return options.flatMap((option, index) => {
    if (option === '--import') return [options[index + 1] ?? ''];
    return option.startsWith('--import=') ? [option.slice('--import='.length)] : [];
  });
}
