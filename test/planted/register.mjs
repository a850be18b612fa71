/**
 * `TROUPE_PLANTED=<name> node --import <this file> program.ts` runs the program with one bug of `bugs.ts`. Without the
 * variable it is the plain TypeScript loader. Fails before the program starts if the bug does not fit the source.
 */
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import '../loader/register.mjs';

const name = process.env.TROUPE_PLANTED;

if (name !== undefined) {
  const { transformSync } = await import('amaro');
  const { plant } = await import('./planted-bug.ts');
  const { bugNamed } = await import('./bugs.ts');
  const bug = bugNamed(name);
  const address = new URL(`../../${bug.file}`, import.meta.url);
  const { code } = transformSync(plant(await readFile(address, 'utf8'), bug), { mode: 'strip-only' });
  register('./hooks.mjs', import.meta.url, { data: { url: address.href, code } });
}
