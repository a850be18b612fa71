/** `troupe fork`: makes a new session that continues from another one. */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { AUTHOR_OPTION, authorAt } from '../places/author.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { pathOf } from '../places/served-reader.ts';
import { changeSession } from '../places/session-change.ts';
import type { Surroundings } from '../surroundings.ts';
import { printable, printableJson } from '../text-layout.ts';

const forkSchema = z.looseObject({ id: z.string() });

/** See the head of the file. */
export const forkCommand: Command = {
  positionals: [
    { name: 'session', required: true, help: 'Session to continue from', completes: 'session' },
    { name: 'id', required: false, help: 'Id of the new session (default: made from the first one)' },
  ],
  options: {
    at: {
      kind: 'count',
      value: 'SEQ',
      min: 1,
      max: 999_999_999,
      help: 'Continue from after this message, as `troupe inspect` numbers it (default: the last one)',
    },
    ...AUTHOR_OPTION,
    ...PLACE_OPTIONS,
  },
  details: [
    'The log so far is shared, not copied; afterwards the two sessions are independent. The mailbox, receipts, children and running calls are left out. No model is called until a message is sent to the new session. Exits with 1 if there is no such session or message.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const session = given.positional('session') ?? '';
  const wanted = defined({ id: given.positional('id'), at: given.count('at') });
  const place = await findPlace(given, surroundings);
  const by = authorAt(place, given);
  const fork = await changeSession(place, session, surroundings, {
    served: async (server) => (await server.ask(`${pathOf(session)}/fork`, forkSchema, { body: wanted })).id,
    stored: async (runtime) => (await runtime.session(session).fork({ ...wanted, by })).id,
  });
  surroundings.stdout.write(
    given.flag('json')
      ? `${printableJson({ session, id: fork, ...defined({ at: wanted.at }) })}\n`
      : `Forked: ${printable(fork)} from ${printable(session)}\n`,
  );
  return EXIT.ok;
}
