/** `troupe compact`: makes the files of a data directory small. */
import { resolve } from 'node:path';
import { compact } from '../../index.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { JSON_OPTION, shownPath } from '../places/data-directory.ts';
import type { Surroundings } from '../surroundings.ts';
import { counted, printable, printableJson } from '../text-layout.ts';

/** See the head of the file. */
export const compactCommand: Command = {
  positionals: [{ name: 'store', required: true, help: 'Data directory', completes: 'directory' }],
  options: { json: JSON_OPTION },
  details: [
    'Replaces the file of each shard by a compact copy, without free pages: the bytes of deleted sessions are gone from the files then. No process may have the directory open. A shard needs as much free space as it has contents.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, directory } = surroundings;
  const report = await compact(resolve(directory, given.positional('store') ?? ''));
  const { shards, bytesBefore, bytes } = report;
  stdout.write(
    given.flag('json')
      ? `${printableJson(report)}\n`
      : `Compacted ${printable(shownPath(report.directory, surroundings))}: ${counted(shards, 'shard')}, ${bytes} of ${bytesBefore} bytes left\n`,
  );
  return EXIT.ok;
}
