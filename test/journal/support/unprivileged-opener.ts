/**
 * Opens each directory in the arguments as a user without rights, and prints the outcomes as one JSON array. Started by
 * root, it changes to a user that owns nothing; `null` if it may not.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TroupeError } from '../../../src/base/errors.ts';
import { open } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';

const NOBODY = 65_534;
const options = { provider: scripted(['Hello.']), threads: { sessions: 0, models: 0, tools: 1 } };

/** Opens a store and uses it, so that every module is loaded while the sources may still be read. */
async function loadModules(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-unprivileged-'));
  const runtime = await open(directory, options);
  await runtime.session('s').ask('Hi');
  await runtime.close();
  await rm(directory, { recursive: true });
}

/** False if this process is root and may not change its user. */
function dropRights(): boolean {
  if (process.getuid?.() !== 0) return true;
  try {
    process.setgroups?.([]);
    process.setgid?.(NOBODY);
    process.setuid?.(NOBODY);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EPERM') return false;
    throw error;
  }
  return process.getuid?.() === NOBODY;
}

async function outcomeOf(directory: string): Promise<object> {
  try {
    await (await open(directory, options)).close();
    return { opened: directory };
  } catch (error) {
    if (!(error instanceof TroupeError)) return { thrown: String(error) };
    const { name, code, message, data, cause } = error;
    const reason = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    return { name, code, message, data, cause: reason };
  }
}

await loadModules();
const outcomes: object[] = [];
const mayDrop = dropRights();
if (mayDrop) for (const directory of process.argv.slice(2)) outcomes.push(await outcomeOf(directory));
process.stdout.write(`${JSON.stringify(mayDrop ? outcomes : null)}\n`);
