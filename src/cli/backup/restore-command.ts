/** `troupe restore`: makes a data directory of a backup. */
import { resolve } from 'node:path';
import { restore } from '../../index.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { JSON_OPTION, shownPath } from '../places/data-directory.ts';
import type { Surroundings } from '../surroundings.ts';
import { counted, printable, printableJson } from '../text-layout.ts';

/** See the head of the file. */
export const restoreCommand: Command = {
  positionals: [
    { name: 'backup', required: true, help: 'Directory of the backup', completes: 'directory' },
    { name: 'store', required: true, help: 'Data directory to make: new or empty', completes: 'directory' },
  ],
  options: { json: JSON_OPTION },
  details: [
    'Copies the backup, checks every page, entry and checksum as `troupe doctor check` does, and only then moves the store into place. The sessions continue when a program opens it: turns that were running when the backup was made resume.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, directory } = surroundings;
  const path = (name: string): string => resolve(directory, given.positional(name) ?? '');
  const report = await restore(path('backup'), path('store'));
  const since = new Date(report.startedAt).toISOString();
  stdout.write(
    given.flag('json')
      ? `${printableJson(report)}\n`
      : `Restored ${printable(shownPath(report.directory, surroundings))}: ${counted(report.sessions, 'session')} as of ${since}\n`,
  );
  return EXIT.ok;
}
