/** `troupe backup`: backs up a store, by its running server or by opening its directory. */
import { resolve } from 'node:path';
import { z } from 'zod';
import type { BackupReport } from '../../index.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { shownPath } from '../places/data-directory.ts';
import { changeStore } from '../places/opened-store.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { agentNames } from '../places/session-change.ts';
import type { Surroundings } from '../surroundings.ts';
import { counted, printable, printableJson } from '../text-layout.ts';

const count = z.number().int();
const reportSchema: z.ZodType<BackupReport> = z.object({
  directory: z.string(),
  bytes: count,
  copiedBytes: count,
  shards: count,
  copiedShards: count,
  results: count,
  copiedResults: count,
});

/** See the head of the file. */
export const backupCommand: Command = {
  positionals: [
    { name: 'store', required: true, help: 'Data directory; left out with --data or --url', completes: 'directory' },
    {
      name: 'dir',
      required: false,
      help: 'Directory of the backup: new, or of an earlier backup',
      completes: 'directory',
    },
  ],
  options: PLACE_OPTIONS,
  details: [
    'If a process has the store open and serves it, the server makes the backup while its sessions work. It must have been started with --backups, and the backup lies in that directory: with --url, DIR is relative to it. Otherwise the command opens the store itself; no turn starts.',
    'A repeated backup into the same directory copies the shards with changes, and new results. Until the new backup is complete, the earlier one stays whole. The search index is left out; it is built again. `troupe restore` makes a store of a backup.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout } = surroundings;
  const { store, dir } = wanted(given);
  const place = await findPlace(
    { ...given, text: (name) => (name === 'data' ? (store ?? given.text(name)) : given.text(name)) },
    surroundings,
  );
  const report = await backup(place, dir, surroundings);
  stdout.write(
    given.flag('json')
      ? `${printableJson(report)}\n`
      : `${printable(reportText(report, shownPath(report.directory, surroundings)))}\n`,
  );
  return EXIT.ok;
}

/** The directories of the store and of the backup. An option or the environment may name the store instead. */
function wanted(given: Arguments): { readonly store: string | undefined; readonly dir: string } {
  const [first = '', second] = [given.positional('store'), given.positional('dir')];
  if (second === undefined) return { store: undefined, dir: first };
  if (given.text('data') !== undefined || given.text('url') !== undefined) {
    throw new UsageError('a store as an argument excludes --data and --url');
  }
  return { store: first, dir: second };
}

async function backup(place: Place, dir: string, surroundings: Surroundings): Promise<BackupReport> {
  const path = resolve(surroundings.directory, dir);
  if (place.kind === 'server') {
    // A backup may take minutes; only the user knows how long is too long.
    const { signal } = new AbortController();
    // A path of this machine means nothing to a server on another machine. That server takes a path inside its own
    // directory for backups.
    const named = place.isNamed ? dir : path;
    return place.server.ask('backups', reportSchema, { body: { directory: named }, signal });
  }
  const agents = await readPlace(place, agentNames);
  return changeStore(place, agents, surroundings, (runtime) => runtime.backup(path));
}

function reportText(report: BackupReport, shown: string): string {
  const { bytes, copiedBytes, shards, copiedShards, results, copiedResults } = report;
  const copied = `${counted(copiedShards, 'shard')} and ${counted(copiedResults, 'result')}`;
  return `Backed up to ${shown}: ${counted(shards, 'shard')} and ${counted(results, 'result')}, ${counted(bytes, 'byte')}; copied ${copied}, ${counted(copiedBytes, 'byte')}`;
}
