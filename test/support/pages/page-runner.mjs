/**
 * Runs programs of pages for `docs.test.ts`, one after another: each is a module in the working directory. Replies with
 * what a program wrote to stdout, or with its error. The process ends when the channel is closed, unless a program left
 * something open.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';

const write = process.stdout.write;

process.on('message', async (name) => {
  let output = '';
  process.stdout.write = (piece) => {
    output += piece;
    return true;
  };
  try {
    await import(pathToFileURL(join(process.cwd(), `${name}.js`)).href);
    process.send({ output });
  } catch (error) {
    process.send({ output, error: inspect(error) });
  } finally {
    process.stdout.write = write;
  }
});
