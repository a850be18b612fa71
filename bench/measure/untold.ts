/**
 * The product without what it tells: a copy of the built package in which a session's events are neither numbered nor built and nobody
 * looks whether somebody reads. What the product costs above it is what observability costs where there is no subscriber. The product
 * has no switch for that, and gets none for a measurement.
 */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type * as OpenSystem from '../systems/open-system.ts';

const built = fileURLToPath(new URL('../..', import.meta.url));
const copy = join(built, 'untold');

/** What is cut out: a text of the compiled file, found once, and what stands there instead. */
export const CUTS: readonly { readonly file: string; readonly find: string; readonly put: string }[] = [
  {
    file: 'src/session/apply/fold.js',
    find: 'this.state.eventSeq += 1;\n        return this.observer?.event !== undefined;',
    put: 'return false;',
  },
  {
    file: 'src/runtime/shard/audience.js',
    find: 'return this.#watched.has(sessionId) || this.#watched.has(undefined);',
    put: 'return false;',
  },
  {
    file: 'src/runtime/shard/transitions.js',
    find: 'this.#audience.watchChildren(touched, gathered, this.#now);',
    put: '',
  },
  {
    file: 'src/runtime/events/diagnostics.js',
    find: 'if (this.#isReading || this.#isClosed || !isDiagnosed())\n            return;',
    put: 'return;',
  },
];

/** Makes the copy, gives its `open-system`, and removes it. Throws when the built package has no such text: the same would be measured. */
export async function withUntold<T>(use: (untold: typeof OpenSystem) => Promise<T>): Promise<T> {
  rmSync(copy, { recursive: true, force: true });
  for (const part of ['src', 'actors', 'bench']) cpSync(join(built, part), join(copy, part), { recursive: true });
  try {
    for (const { file, find, put } of CUTS) {
      const path = join(copy, file);
      const parts = readFileSync(path, 'utf8').split(find);
      if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places to cut out: ${find}`);
      writeFileSync(path, parts.join(put));
    }
    const url = new URL('../../untold/bench/systems/open-system.js', import.meta.url).href;
    return await use((await import(url)) as typeof OpenSystem);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
