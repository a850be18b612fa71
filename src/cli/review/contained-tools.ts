/**
 * `read_file` for a review, run in the tool threads. The URL that imports this module names the directory,
 * `?root=<path>`. Paths start there, and nothing outside can be read, whatever instructions a reviewed file contains.
 */
import { ConfigError } from '../../base/errors.ts';
import { type ReadFileInput, readFile } from '../../tools/built-in/index.ts';
import type { Tool } from '../../tools/tool.ts';

/** See the head of the file. The module throws `ConfigError` when the URL that imports it names no directory. */
export const read_file: Tool<ReadFileInput> = readFile({ root: rootHere() });

function rootHere(): string {
  const root = new URL(import.meta.url).searchParams.get('root');
  if (root === null) throw new ConfigError('the tools of a review are imported with the directory they may read');
  return root;
}
