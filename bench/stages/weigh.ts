/**
 * `weigh <zod and lmdb|import|open> <inline|isolated>`: one import, or one `open(':memory:')` after the import, in this
 * new process. It uses the built package, as a user does. Prints the milliseconds; for an import also the number of the
 * package's modules that were loaded.
 */
import { readdirSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { LIBRARIES } from '../names.ts';
import { BUILT_FOLDER, builtFile, importBuilt } from './built-package.ts';

const [variant, isolation] = process.argv.slice(2);

const startedAt = performance.now();
if (variant === LIBRARIES) {
  await import('zod');
  await import('lmdb');
  print({ importMs: performance.now() - startedAt });
} else {
  const { open } = await importBuilt();
  const importedAt = performance.now();
  if (variant === 'import') {
    print({ importMs: importedAt - startedAt, modules: await loadedModules() });
  } else {
    const provider = { name: 'none', generate: () => Promise.reject(new Error('no call is made')) };
    const inline = isolation === 'inline' ? { threads: { sessions: 0, models: 0 } } : {};
    const runtime = await open(':memory:', { provider, ...inline });
    print({ openMs: performance.now() - importedAt });
    await runtime.close();
  }
}

/** The scripts of the package that this process has parsed, as its debugger lists them. */
async function loadedModules(): Promise<number> {
  const files = new Set(readdirSync(BUILT_FOLDER).map((name) => builtFile(name).href));
  const session = new Session();
  session.connect();
  let count = 0;
  session.on('Debugger.scriptParsed', ({ params }) => {
    if (files.has(params.url)) count += 1;
  });
  await session.post('Debugger.enable');
  session.disconnect();
  return count;
}

function print(figures: Readonly<Record<string, number>>): void {
  process.stdout.write(`${JSON.stringify(figures)}\n`);
}
