/**
 * Opens the store named by the argument as a user without rights, if this process may become one. Prints one JSON object
 * with the outcome; `kept`: the code with which the system refused to change the user of this process.
 */
import { systemCodeOf, TroupeError } from '../../../src/base/errors.ts';
import { open } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';

/** The user `nobody`, who owns nothing. */
const OTHER_USER = 65_534;

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error('a directory is needed');
process.stdout.write(JSON.stringify(await outcome(directory)));

async function outcome(path: string): Promise<object> {
  if (process.getuid?.() === 0) {
    try {
      process.setuid?.(OTHER_USER);
    } catch (error) {
      return { kept: systemCodeOf(error) ?? String(error) };
    }
  }
  try {
    const runtime = await open(path, { provider: scripted(() => 'ok') });
    await runtime.close();
    return { name: 'opened' };
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    const { name, code, message, cause } = error;
    return { name, code, message, cause: systemCodeOf(cause) };
  }
}
