/** Loads libraries on first use, in places where `import()` would make the caller wait. */
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** A bundle in CommonJS has no `import.meta.url`. Libraries are then looked for from the working directory. */
const load = createRequire((import.meta.url as string | undefined) ?? join(process.cwd(), 'bundle.cjs'));

/** Loads a library synchronously and returns its exports. Throws Node's error if the library is not installed. */
export function loadLibrary(name: string): unknown {
  return load(name);
}
