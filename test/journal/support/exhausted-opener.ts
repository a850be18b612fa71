/**
 * Uses up its file descriptors, opens the store in the argument, frees them, and opens it again. Prints one JSON object
 * with the outcome. Run it under a small limit of descriptors.
 */
import { closeSync, openSync } from 'node:fs';
import { TroupeError } from '../../../src/base/errors.ts';
import { open } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';

const [directory = ''] = process.argv.slice(2);
const options = { provider: scripted(['Hello.']), threads: { sessions: 0, models: 0, tools: 1 } };
// Modules that are loaded on first use are loaded before, because the store is under test, not the loader.
await (await open(':memory:', options)).close();
const taken: number[] = [];
try {
  for (;;) taken.push(openSync(process.execPath, 'r'));
} catch {
  // All descriptors are taken.
}
const refusal: unknown = await open(directory, options).catch((error: unknown) => error);
for (const descriptor of taken) closeSync(descriptor);
const runtime = await open(directory, options);
const answer = await runtime.session('s').ask('Hi');
const messages = (await runtime.session('before').messages()).length;
await runtime.close();
const cause = refusal instanceof TroupeError ? refusal.cause : undefined;
process.stdout.write(
  JSON.stringify({
    name: refusal instanceof TroupeError ? refusal.name : String(refusal),
    cause: cause instanceof Error && 'code' in cause ? cause.code : undefined,
    answer,
    messages,
  }),
);
