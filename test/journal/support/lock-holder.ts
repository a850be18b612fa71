/** Takes the lock of the directory in the argument, prints `held` or the error's data, and holds it until stdin ends. */
import { TroupeError } from '../../../src/base/errors.ts';
import { acquireStoreLock } from '../../../src/journal/store/lock.ts';

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error('a directory is needed');
try {
  const lock = await acquireStoreLock(directory);
  process.stdout.write('held\n');
  await new Promise((resolve) => process.stdin.once('end', resolve).resume());
  await lock.release();
} catch (error) {
  const shape = error instanceof TroupeError ? { code: error.code, ...error.data } : { message: String(error) };
  process.stdout.write(`${JSON.stringify(shape)}\n`);
}
