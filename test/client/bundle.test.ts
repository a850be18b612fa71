/**
 * Goal: `troupe/client` and `troupe/react` run in a browser: nothing of Node and nothing of the runtime is in them.
 * Method: they are bundled as a page would bundle them.
 */
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { expect, test } from 'vitest';

const source = (path: string): string => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));

async function bundled(
  entry: string,
): Promise<{ readonly modules: readonly string[]; readonly code: string; readonly imports: readonly string[] }> {
  const result = await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      minify: false,
      lib: { entry: source(entry), formats: ['es'] },
      rolldownOptions: { external: ['react'] },
    },
  });
  const outputs = Array.isArray(result) ? result : [result];
  const chunks = outputs
    .flatMap((each) => ('output' in each ? each.output : []))
    .filter((each) => each.type === 'chunk');
  return {
    modules: chunks.flatMap((chunk) => Object.keys(chunk.modules)).map((path) => path.replace(source(''), '')),
    code: chunks.map((chunk) => chunk.code).join('\n'),
    imports: chunks.flatMap((chunk) => chunk.imports),
  };
}

test('the client is made of its own files only, and imports nothing', async () => {
  const { modules, code, imports } = await bundled('client/index.ts');
  expect(modules.length).toBeGreaterThan(3);
  expect(modules.filter((path) => !path.startsWith('client/'))).toEqual([]);
  expect(imports).toEqual([]);
  expect(code).not.toMatch(/\bnode:|\bBuffer\b|\bprocess\b/);
  expect(code.length).toBeLessThan(40_000);
});

test('the hook is made of its own files and the client, and imports react only', async () => {
  const { modules, imports } = await bundled('react/index.ts');
  expect(modules.filter((path) => !/^(client|react)\//.test(path))).toEqual([]);
  expect(imports).toEqual(['react']);
});
