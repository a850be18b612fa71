/** `troupe export`: prints the messages of a session, one JSON object per line. Starts nothing. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, rename, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import { historyLines } from '../../runtime/handles/history-lines.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { shownPath } from '../places/data-directory.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import type { Surroundings } from '../surroundings.ts';
import { counted, printableJson, printableJsonText } from '../text-layout.ts';

/** See the head of the file. */
export const exportCommand: Command = {
  positionals: [{ name: 'session', required: true, help: 'Session whose messages to write', completes: 'session' }],
  options: {
    history: { kind: 'flag', help: 'Write the history, which `troupe import` reads' },
    out: { kind: 'text', value: 'FILE', help: 'File to write (default: stdout)' },
    force: { kind: 'flag', help: 'Replace an existing file' },
    ...PLACE_OPTIONS,
    json: { kind: 'flag', help: 'With --out: print one JSON object about what was written' },
  },
  details: [
    'Each line is a message as `session.messages()` returns it, oldest first, including those that left the window. A file appears whole or not at all.',
    'With --history each line is a message of `session.history`, as the model sees the conversation, after a head with the format version. `troupe import` needs nothing else to continue it in another store.',
    'Nothing is changed.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const place = await findPlace(given, surroundings);
  const { stdout } = surroundings;
  const id = given.positional('session') ?? '';
  const out = given.text('out');
  if (out === undefined && given.flag('force')) throw new UsageError('--force is for --out');
  const file = out === undefined ? undefined : resolve(surroundings.directory, out);
  if (file !== undefined && !given.flag('force')) await requireFree(file, out ?? '');
  const { messages, lines } = given.flag('history') ? await historyOf(place, id) : await logOf(place, id);
  if (file === undefined) {
    for (const line of lines) stdout.write(line);
    return EXIT.ok;
  }
  await writeWhole(file, lines.join(''));
  const shown = shownPath(file, surroundings);
  stdout.write(
    given.flag('json')
      ? `${printableJson({ session: id, messages, file })}\n`
      : `${counted(messages, 'message')} of ${id} written to ${shown}\n`,
  );
  return EXIT.ok;
}

/** The lines to write, and the number of messages in them. */
interface Written {
  readonly messages: number;
  readonly lines: readonly string[];
}

async function logOf(place: Place, id: string): Promise<Written> {
  const messages = await readPlace(place, (sessions) => sessions.messages(id));
  return { messages: messages.length, lines: messages.map((message) => `${printableJson(message)}\n`) };
}

async function historyOf(place: Place, id: string): Promise<Written> {
  const messages = await readPlace(place, (sessions) => sessions.history(id));
  // Terminal control characters are escaped, which does not change the parsed JSON.
  const lines = [...historyLines(id, messages)].map((line) => `${printableJsonText(line)}\n`);
  return { messages: messages.length, lines };
}

async function requireFree(file: string, given: string): Promise<void> {
  const isThere = await access(file, constants.F_OK).then(
    () => true,
    () => false,
  );
  if (isThere) throw new UsageError(`--out ${given} already exists; --force replaces it`);
}

/** Writes to a temporary file beside the target and renames it, so that a reader never finds half of the text. */
async function writeWhole(file: string, text: string): Promise<void> {
  const part = `${file}.${randomUUID().slice(0, 8)}.part`;
  try {
    await writeFile(part, text, { flag: 'wx', mode: PRIVATE_FILE_MODE });
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw new UsageError(`--out ${file} cannot be written: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}
