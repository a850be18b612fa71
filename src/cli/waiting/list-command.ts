/** `troupe waiting`: lists the tool calls that wait for a person, from a running server or a data directory. */
import { INSPECT_LIMIT_MAX, WAITING_CALLS_DEFAULT } from '../../base/bounds.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import type { WaitingCall } from '../places/waiting-call.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { type Column, tableLines } from '../table.ts';
import { ageText, counted, oneLine, printableJson } from '../text-layout.ts';

const MS_PER_SECOND = 1_000;

/** See the head of the file. */
export const waitingCommand: Command = {
  positionals: [],
  options: {
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Calls at most (default: ${WAITING_CALLS_DEFAULT})`,
    },
    ...PLACE_OPTIONS,
  },
  details: [
    'The oldest call comes first. `troupe approve` decides one, by the session and the id in its line; `troupe answer` answers a question, which has its text in place of the input. Nothing is changed.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout } = surroundings;
  const limit = given.count('limit') ?? WAITING_CALLS_DEFAULT;
  const place = await findPlace(given, surroundings);
  const found = await readPlace(place, (sessions) => sessions.waiting(limit));
  if (given.flag('json')) {
    for (const call of found.calls) stdout.write(`${printableJson(call)}\n`);
    return EXIT.ok;
  }
  if (found.calls.length === 0) stdout.write('No call waits for a person.\n');
  else for (const line of table(found.calls, surroundings)) stdout.write(`${line}\n`);
  if (found.isCut) stdout.write(`Only the oldest ${counted(limit, 'call')}; --limit shows more.\n`);
  return EXIT.ok;
}

/**
 * The call id is never shortened, because `troupe approve` and `troupe answer` need it. Other columns may be shortened.
 */
function table(calls: readonly WaitingCall[], { stdout, environment }: Surroundings): readonly string[] {
  const now = Date.now();
  const age = ({ at }: WaitingCall): string => (now - at < MS_PER_SECOND ? 'now' : ageText(now - at));
  const columns: readonly Column<WaitingCall>[] = [
    { title: 'age', text: age, isRight: true },
    { title: 'session', text: ({ session }) => oneLine(session), min: 12 },
    { title: 'tool', text: ({ toolName }) => oneLine(toolName), min: 8 },
    { title: 'call', text: ({ callId }) => oneLine(callId) },
    { title: 'wants', text: (call) => oneLine(wantedText(call)), min: 10 },
  ];
  return tableLines(columns, calls, { columns: stdout.columns, paint: paintFor(stdout, environment) });
}

/** The text that the person decides about. */
function wantedText({ input, question, choices }: WaitingCall): string {
  if (question === undefined) return JSON.stringify(input) ?? '';
  return choices === undefined ? question : `${question} [${choices.join(' | ')}]`;
}
