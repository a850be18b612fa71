/**
 * `troupe doctor`: checks whether a store is whole, measures its contents, and saves the readable part of a damaged
 * store. Writes nothing into the store.
 */
import { stat } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { DOCTOR_FINDINGS_MAX } from '../../base/bounds.ts';
import { StoreKeyError } from '../../base/errors.ts';
import { type Finding, openSalvage, type SalvageStore } from '../../journal/check/salvage-store.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, shownPath } from '../places/data-directory.ts';
import { KEY_FILE_OPTION, keysOf } from '../places/key-file.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { counted, oneLine, printable, printableJson } from '../text-layout.ts';
import { salvageStore } from './salvage.ts';
import { foldedSessions } from './sessions.ts';
import { statsJson, statsOf, statsText } from './stats.ts';

const ACTIONS = ['check', 'salvage', 'stats'] as const;
type Action = (typeof ACTIONS)[number];

/** See the head of the file. */
export const doctorCommand: Command = {
  positionals: [
    { name: 'action', required: false, help: 'check (default), salvage or stats', completes: ACTIONS },
    {
      name: 'dir',
      required: false,
      help: 'Data directory; may also be given alone, or with --data',
      completes: 'directory',
    },
  ],
  options: {
    data: DATA_OPTION,
    'key-file': KEY_FILE_OPTION,
    to: { kind: 'text', value: 'DIR', help: 'salvage: directory to make and write to' },
    json: JSON_OPTION,
  },
  details: [
    'check looks at the manifest, the lock, every page and entry of every data file, every checksum and back pointer, and folds every session. It prints a line for each fault; exit code 0 if there is none, else 1.',
    'salvage writes sessions.jsonl, a line for each session, message and waiting entry, audit.jsonl, a line for each entry of the audit log, and damage.jsonl, a line for each fault. A damaged session is saved up to its first damage. Where a part of a file cannot be reached its pages are searched one by one; what had been deleted may then be found again.',
    'The store is only read, and not by LMDB. Refuses while a process has the directory open.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { action, directory } = wanted(given, surroundings);
  const to = given.text('to');
  if ((to !== undefined) !== (action === 'salvage')) {
    throw new UsageError(to === undefined ? 'salvage needs --to DIR, a directory to make' : '--to is for salvage');
  }
  await requireDirectory(directory);
  const keys = await keysOf(given, surroundings);
  const store = await openSalvage(directory, keys);
  try {
    if (store.isEncrypted && keys === undefined) {
      throw new StoreKeyError(`the store ${directory} is encrypted: --key-file FILE names the file with its key`, {
        data: { path: directory },
      });
    }
    if (store.shards.length === 0 && store.findings.length === 0) {
      throw new UsageError(`${shownPath(directory, surroundings)} holds no store`);
    }
    const place = { directory, isJson: given.flag('json'), surroundings };
    if (action === 'check') return await check(store, place);
    if (action === 'stats') return await stats(store, place);
    return await salvage(store, resolve(surroundings.directory, to ?? ''), place);
  } finally {
    store.close();
  }
}

interface Place {
  readonly directory: string;
  readonly isJson: boolean;
  readonly surroundings: Surroundings;
}

function wanted(given: Arguments, surroundings: Surroundings): { readonly action: Action; readonly directory: string } {
  const words = [given.positional('action'), given.positional('dir')].filter((word) => word !== undefined);
  const action = ACTIONS.find((each) => words.includes(each));
  const others = words.filter((word) => word !== action);
  const [path] = others;
  if (others.length > 1 || (path !== undefined && given.text('data') !== undefined)) {
    throw new UsageError(`<action> must be ${ACTIONS.join(', ')}, got ${JSON.stringify(others[0])}`);
  }
  return {
    action: action ?? 'check',
    directory: dataDirectory(given, surroundings, path),
  };
}

async function requireDirectory(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) throw new UsageError(`${path} is not a directory`);
}

async function check(store: SalvageStore, { directory, isJson, surroundings }: Place): Promise<number> {
  const { findings, sessions } = checkStore(store);
  await store.checkUnchanged();
  const { stdout, environment } = surroundings;
  const shown = findings.slice(0, DOCTOR_FINDINGS_MAX);
  if (isJson) {
    stdout.write(
      `${printableJson({ data: directory, ok: findings.length === 0, sessions, total: findings.length, findings: shown })}\n`,
    );
  } else {
    const paint = paintFor(stdout, environment);
    for (const finding of shown) stdout.write(`${paint.red(printable(findingText(finding, directory)))}\n`);
    const hidden = findings.length - shown.length;
    if (hidden > 0) stdout.write(`and ${counted(hidden, 'more', 'more')}\n`);
    const verdict =
      findings.length === 0 ? paint.green('whole') : paint.red(`${counted(findings.length, 'thing')} wrong`);
    stdout.write(`${shownPath(directory, surroundings)}: ${verdict}; ${counted(sessions, 'session')} checked\n`);
  }
  return findings.length === 0 ? EXIT.ok : EXIT.failed;
}

async function stats(store: SalvageStore, { directory, isJson, surroundings }: Place): Promise<number> {
  const found = statsOf(store);
  await store.checkUnchanged();
  const { stdout, environment } = surroundings;
  stdout.write(
    isJson
      ? `${printableJson({ data: directory, ...statsJson(found) })}\n`
      : statsText(found, shownPath(directory, surroundings), paintFor(stdout, environment)),
  );
  return EXIT.ok;
}

/** Saves a store. The exit code is 1 if something was damaged, because then something may not have been saved. */
async function salvage(store: SalvageStore, to: string, { directory, isJson, surroundings }: Place): Promise<number> {
  const saved = await salvageStore(store, directory, to);
  await store.checkUnchanged();
  const { stdout } = surroundings;
  if (isJson) stdout.write(`${printableJson({ data: directory, to, ...saved })}\n`);
  else {
    stdout.write(
      `Saved ${counted(saved.sessions, 'session')} with ${counted(saved.messages, 'message')}, ${counted(saved.pending, 'waiting entry', 'waiting entries')} and ${counted(saved.audit, 'entry', 'entries')} of the audit log to ${shownPath(to, surroundings)}.\n`,
    );
    if (saved.damage > 0) {
      stdout.write(
        `${counted(saved.cut, 'session')} saved in part; ${counted(saved.damage, 'fault')} found, see damage.jsonl.\n`,
      );
    }
  }
  return saved.damage === 0 ? EXIT.ok : EXIT.failed;
}

/** All damage of a store, and the number of sessions that were read from their logs. Reads the whole store. */
function checkStore(store: SalvageStore): { readonly findings: readonly Finding[]; readonly sessions: number } {
  const findings: Finding[] = [...store.findings, ...store.shards.flatMap((shard) => shard.findings)];
  let sessions = 0;
  for (const { id, shard, damage } of foldedSessions(store)) {
    sessions += 1;
    if (damage !== undefined) findings.push({ path: shard.path, session: id, ...damage });
  }
  return { findings, sessions };
}

/** A finding on one line. */
function findingText({ path, reason, page, row, session }: Finding, directory: string): string {
  const place = [
    relative(directory, path) || '.',
    ...(session === undefined ? [] : [`session ${session}`]),
    ...(page === undefined || reason.includes(`page ${page}`) ? [] : [`page ${page}`]),
    ...(row === undefined || reason.includes(`row ${row}`) ? [] : [`row ${row}`]),
  ];
  return oneLine(`${place.join(', ')}: ${reason}`);
}
