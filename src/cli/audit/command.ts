/** `troupe audit`: lists the entries of the audit log, from a running server or a data directory. */
import { AUDIT_ACTIONS, type AuditEntry } from '../../base/audit/audit-entry.ts';
import { AUDIT_ENTRIES_LISTED, INSPECT_LIMIT_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { type Column, tableLines } from '../table.ts';
import { counted, oneLine, printableJson } from '../text-layout.ts';

/** See the head of the file. */
export const auditCommand: Command = {
  positionals: [
    { name: 'session', required: false, help: 'Only entries of this session and its tree', completes: 'session' },
  ],
  options: {
    action: { kind: 'text', value: 'ACT', help: 'Only entries of this act', words: AUDIT_ACTIONS },
    after: { kind: 'text', value: 'NEXT', help: 'Continue behind an earlier list, which shows NEXT' },
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Entries at most (default: ${AUDIT_ENTRIES_LISTED})`,
    },
    ...PLACE_OPTIONS,
  },
  details: [
    `The oldest entry comes first. The acts are ${AUDIT_ACTIONS.join(', ')}. An entry has no content of messages, and it stays when its session is deleted.`,
    'A server needs a token with the role admin. Nothing is changed.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const limit = given.count('limit') ?? AUDIT_ENTRIES_LISTED;
  const named = given.text('action');
  const action = AUDIT_ACTIONS.find((each) => each === named);
  if (named !== undefined && action === undefined) {
    throw new UsageError(`--action must be one of ${AUDIT_ACTIONS.join(', ')}, got ${JSON.stringify(named)}`);
  }
  const wanted = defined({ session: given.positional('session'), after: given.text('after'), action });
  const place = await findPlace(given, surroundings);
  const { entries, next } = await readPlace(place, (reader) => reader.audit(wanted, limit));
  if (given.flag('json')) {
    for (const entry of entries) stdout.write(`${printableJson(entry)}\n`);
    if (next !== undefined) stderr.write(`There are more entries: --after ${next}\n`);
    return EXIT.ok;
  }
  if (entries.length === 0) stdout.write('There are no such entries in the audit log.\n');
  else for (const line of table(entries, surroundings)) stdout.write(`${line}\n`);
  if (next !== undefined)
    stdout.write(`Only the oldest ${counted(entries.length, 'entry', 'entries')}; --after ${next} shows more.\n`);
  return EXIT.ok;
}

function table(entries: readonly AuditEntry[], { stdout, environment }: Surroundings): readonly string[] {
  const columns: readonly Column<AuditEntry>[] = [
    { title: 'time', text: ({ at }) => `${new Date(at).toISOString().slice(0, 19)}Z` },
    { title: 'act', text: ({ action }) => action },
    { title: 'session', text: ({ session = '' }) => oneLine(session), min: 8 },
    { title: 'by', text: ({ by = '' }) => oneLine(by), min: 4 },
    { title: 'details', text: ({ details }) => oneLine(detailText(details)), min: 8 },
  ];
  return tableLines(columns, entries, { columns: stdout.columns, paint: paintFor(stdout, environment) });
}

function detailText(details: AuditEntry['details']): string {
  return Object.entries(details)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}
