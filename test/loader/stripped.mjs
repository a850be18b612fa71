/**
 * Stripped sources on disk: one file for each source, named by its path. Each begins with a checksum of its source. A
 * file that does not match is stripped again, so the directory never needs emptying.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';

const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url));
const directory = join(modules, '.cache', 'troupe-stripped');
const stripper = JSON.parse(readFileSync(join(modules, 'amaro', 'package.json'), 'utf8')).version;

/** The code of a TypeScript file; `typescript` holds its bytes. Throws the errors of the stripper. */
export async function strippedSource(path, typescript) {
  const file = join(directory, createHash('sha1').update(path).digest('hex'));
  const checksum = `//${createHash('sha1').update(stripper).update(typescript).digest('hex')}\n`;
  const kept = readIfThere(file);
  if (kept?.startsWith(checksum)) return kept.slice(checksum.length);
  const { transformSync } = await import('amaro');
  const { code } = transformSync(typescript.toString('utf8'), { mode: 'strip-only' });
  keep(file, checksum + code);
  return code;
}

function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/**
 * An unwritable directory costs only time. The file is renamed to its final name, since other threads read at the same
 * moment.
 */
function keep(file, text) {
  const fresh = `${file}.${process.pid}.${threadId}`;
  try {
    mkdirSync(directory, { recursive: true });
    writeFileSync(fresh, text);
    renameSync(fresh, file);
  } catch {}
}
