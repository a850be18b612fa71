/**
 * Goal: the package as a user installs it stays small, starts without the libraries it does not need yet, and has each
 * class once, whichever subpath it is imported from. A service that was bundled with the package is refused with a remedy.
 * Method: the built package, in separate processes; npm lists the tarball without writing it.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { rolldown } from 'rolldown';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

/** The list that the build reads: plain JavaScript, since it is needed before anything is built. */
const { fileName, packageExports, SUBPATHS } = z
  .object({
    fileName: z.custom<(subpath: string) => string>((value) => typeof value === 'function'),
    packageExports: z.custom<() => Readonly<Record<string, unknown>>>((value) => typeof value === 'function'),
    SUBPATHS: z.record(z.string(), z.string()),
  })
  .parse(await import(new URL('../../scripts/package-entries.mjs', import.meta.url).href));

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

/** The bounds of the performance target P15. */
const TARBALL_BYTES_MAX = 1_000_000;
const FILES_MAX = 300;
const MODULES_MAX = 20;

const description = z
  .object({ name: z.string(), exports: z.record(z.string(), z.unknown()), bin: z.record(z.string(), z.string()) })
  .parse(JSON.parse(await readFile(join(root, 'package.json'), 'utf8')));

const packed = z.object({ size: z.number(), files: z.array(z.object({ path: z.string() })) });

/** A directory inside this package, so that `import 'troupe'` finds the built package by its exports. */
async function directoryHere(): Promise<string> {
  await mkdir(join(root, '.troupe'), { recursive: true });
  const directory = await mkdtemp(join(root, '.troupe', 'package-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs a module and returns what it printed as JSON. */
async function run(source: string, flags: readonly string[] = []): Promise<unknown> {
  const file = join(await directoryHere(), 'program.mjs');
  await writeFile(file, source);
  const { stdout } = await execute(process.execPath, [...flags, file], { cwd: root });
  return JSON.parse(stdout);
}

describe('the tarball', () => {
  let files: readonly string[];
  let size: number;
  beforeAll(async () => {
    const { stdout } = await execute('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root });
    const answer: unknown = JSON.parse(stdout);
    // npm 11 and later print an object by the names of the packages.
    const [first] = Object.values(answer as object);
    const { size: bytes, files: listed } = packed.parse(first);
    size = bytes;
    files = listed.map(({ path }) => path);
  });

  test('keeps the bounds of P15', () => {
    expect(size).toBeLessThanOrEqual(TARBALL_BYTES_MAX);
    expect(files.length).toBeLessThanOrEqual(FILES_MAX);
  });

  test('has the built files, the program, the page and the guarantees, and no source twice', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'dist/cli.js',
        'dist/licenses.txt',
        'dist/observer/index.html',
        'GUARANTEES.md',
        'LICENSE',
      ]),
    );
    expect(files.filter((path) => /^(src|actors|test|bench|scripts)\/|\.map$/u.test(path))).toEqual([]);
    expect(files.filter((path) => /^dist.*(?<!\.d)\.ts$/u.test(path))).toEqual([]);
  });

  test('has the code and the types of every subpath', () => {
    expect({ ...description.exports }).toEqual(packageExports());
    for (const subpath of Object.keys(SUBPATHS)) {
      const name = fileName(subpath);
      expect(files).toEqual(expect.arrayContaining([`dist/${name}.js`, `dist/${name}.d.ts`]));
    }
    expect(files).toContain(description.bin['troupe']?.replace('./', ''));
  });
});

test('the docstrings of the types use words: no tag of a rule, no path of a source', async () => {
  const types = (await readdir(join(root, 'dist'))).filter((name) => name.endsWith('.d.ts'));
  const found: string[] = [];
  for (const name of types) {
    const text = await readFile(join(root, 'dist', name), 'utf8');
    // The bundler also keeps heads of files, which another comment follows.
    for (const [comment] of text.matchAll(/\/\*\*(?:(?!\*\/)[\s\S])*\*\/(?!\s*\/\*\*)/gu)) {
      const prose = comment.replaceAll(/`[A-Z]\d+`/gu, '');
      const tag = /(?<![\w./-])(?:[A-Z]\d{1,3}|Δ\d+|§[\d.]+)\b|\bsrc\/[\w/.-]*/u.exec(prose);
      if (tag !== null) found.push(`${name}: ${tag[0]} in ${comment}`);
    }
  }
  expect(types.length).toBeGreaterThan(0);
  expect(found).toEqual([]);
});

test('the API report is that of the built package', async () => {
  await expect(execute(process.execPath, ['scripts/api-report.mjs', '--check'], { cwd: root })).resolves.toBeDefined();
});

test("import 'troupe' loads few modules, and no library before it is needed", async () => {
  const hooks = `let port;
    export const initialize = (data) => { port = data; };
    export const load = (url, context, next) => { port.postMessage(url); return next(url, context); };`;
  const source = `import { createRequire, register } from 'node:module';
    import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
    const { port1, port2 } = new MessageChannel();
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)}, { data: port2, transferList: [port2] });
    await import('troupe');
    const loaded = Object.keys(createRequire(import.meta.url).cache);
    for (let next; (next = receiveMessageOnPort(port1)) !== undefined; ) loaded.push(next.message);
    port1.close();
    console.log(JSON.stringify(loaded));`;
  const loaded = z.array(z.string()).parse(await run(source));
  const libraries = loaded.map((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/u.exec(path)?.[1]);
  expect(libraries.filter((name) => name !== undefined)).toEqual([]);
  const ours = loaded.filter((path) => path.includes('/dist/') && !path.includes('/node_modules/'));
  expect(ours.some((path) => path.endsWith('/dist/index.js'))).toBe(true);
  expect(ours.length).toBeLessThanOrEqual(MODULES_MAX);
});

test('the threads of tools and models load no code of the host or of a session', async () => {
  const imports = async (name: string, found: Set<string>): Promise<void> => {
    if (found.has(name)) return;
    found.add(name);
    const code = await readFile(join(root, 'dist', name), 'utf8');
    for (const [, next = ''] of code.matchAll(/\b(?:from|import) ?["`]\.\/([^"`]+)["`]/gu)) await imports(next, found);
  };
  const resolve = await readFile(join(root, 'dist', 'chunk-threads.js'), 'utf8');
  const providers = [...resolve.matchAll(/await import\(["`]\.\/([^"`]+)["`]\)/gu)].map(([, name = '']) => name);
  expect(providers).toHaveLength(2);
  const names = ['edit-file', 'read-file', 'shell.worker', 'think', 'web-get', 'write-file'];
  const tools = names.map((name) => `tools-built-in-${name}.js`);
  const threads = ['tools-threads-tool-threads.worker.js', 'models-pools-model.worker.js'];
  for (const entry of [...threads, ...providers, ...tools]) {
    const found = new Set<string>();
    await imports(entry, found);
    expect(found, entry).toContain('chunk-base.js');
    expect(
      [...found].filter((name) => /^chunk-(host|common|session)\.js$/u.test(name)),
      entry,
    ).toEqual([]);
  }
});

test('a class is one class, whichever subpath it is imported from', async () => {
  const specifiers = Object.keys(SUBPATHS).map((subpath) => description.name + subpath.slice(1));
  const source = `const kept = new Map();
    const twice = [];
    const see = (name, value) => {
      if (typeof value !== 'function' || !/^class\\b/u.test(Function.prototype.toString.call(value))) return;
      if (kept.has(value.name) && kept.get(value.name) !== value) twice.push(value.name);
      kept.set(value.name, value);
    };
    for (const specifier of ${JSON.stringify(specifiers)})
      for (const [name, value] of Object.entries(await import(specifier))) see(name, value);
    const { tool, TroupeError, open, agent } = await import('troupe');
    const tools = await import('troupe/tools');
    const testing = await import('troupe/testing');
    const actors = await import('troupe/actors');
    // Tools and providers of a subpath are taken by the main entry, which knows them by their class or their mark.
    const runtime = await open(':memory:', {
      agents: [agent({ name: 'a', tools: [tools.read_file, tools.askHuman(), tools.spawn_subagent, tools.search_messages] })],
      provider: testing.scripted({ rules: [], otherwise: 'ok' }),
      threads: { sessions: 0, models: 0 },
      logger: false,
    });
    const answer = await runtime.session('s').ask('hello');
    const refused = await Promise.resolve().then(() => open(':memory:', { provider: testing.scripted({ rules: 1 }) })).catch((error) => error instanceof TroupeError);
    await runtime.close();
    console.log(JSON.stringify({ twice, classes: kept.size, answer, refused }));`;
  const { classes, ...rest } = z
    .object({ twice: z.array(z.string()), classes: z.number(), answer: z.string(), refused: z.unknown() })
    .parse(await run(source));
  expect(rest).toEqual({ twice: [], answer: 'ok', refused: true });
  expect(classes).toBeGreaterThan(10);
});

describe('a service that was bundled with the package', () => {
  const service = `import { open } from 'troupe';
    open(':memory:', { provider: { name: 'none', generate: () => Promise.reject(new Error('no call')) }, logger: false }).then(
      () => console.log('"opened"'),
      (error) => console.log(JSON.stringify({ name: error.name, code: error.code, message: error.message })),
    );`;

  test.each(['esm', 'cjs'] as const)('%s: is refused at open with the remedy', async (format) => {
    const directory = await directoryHere();
    const input = join(directory, 'service.mjs');
    await writeFile(input, service);
    const bundle = await rolldown({
      input,
      platform: 'node',
      // Native code cannot be bundled, so an embedder has left this package outside already.
      external: ['lmdb'],
      resolve: { alias: { troupe: join(root, 'dist', 'index.js') } },
      logLevel: 'silent',
    });
    const file = join(directory, format === 'esm' ? 'bundle.mjs' : 'bundle.cjs');
    await bundle.write({ file, format, codeSplitting: false });
    const { stdout } = await execute(process.execPath, [file], { cwd: root });
    const refusal: unknown = JSON.parse(stdout);
    expect(refusal).toMatchObject({ name: 'ConfigError', code: 'config' });
    expect(refusal).toMatchObject({ message: expect.stringContaining('--packages=external') });
    expect(refusal).toMatchObject({ message: expect.stringContaining('door-shard.worker.js') });
  });
});
