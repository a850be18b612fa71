/** `troupe approve`: decides a tool call that waits for a person, on a running server or in a data directory. */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { pathOf } from '../places/served-reader.ts';
import type { Surroundings } from '../surroundings.ts';
import { printable, printableJson } from '../text-layout.ts';
import { CALL_POSITIONALS, DECISION_OPTIONS, decide } from './decision.ts';

const answerSchema = z.looseObject({ decided: z.boolean() });

/** See the head of the file. */
export const approveCommand: Command = {
  positionals: CALL_POSITIONALS,
  options: {
    deny: { kind: 'flag', help: 'Deny the call; without this it is allowed' },
    reason: { kind: 'text', value: 'TEXT', help: 'With --deny: the reason, for the model' },
    ...DECISION_OPTIONS,
  },
  details: [
    'Exits with 1 if the call does not wait, for example because it was decided otherwise; the same decision may be repeated. `troupe answer` answers a question.',
    'In a data directory an allowed call runs in this process, and its session continues until it has nothing to do. So the agents are needed; opening the directory continues all their interrupted work.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const reason = given.text('reason');
  if (reason !== undefined && !given.flag('deny')) throw new UsageError('--reason is for --deny');
  const session = given.positional('session') ?? '';
  const callId = given.positional('call') ?? '';
  const allow = !given.flag('deny');
  const decision = { allow, ...defined({ reason }) };
  const decided = await decide(given, session, surroundings, {
    served: async (server) => {
      const path = `${pathOf(session)}/approve`;
      return (await server.ask(path, answerSchema, { body: { callId, ...decision } })).decided;
    },
    stored: async (runtime, by) => runtime.session(session).approve(callId, { ...decision, by }),
  });
  if (typeof decided === 'number') return decided;
  if (given.flag('json')) stdout.write(`${printableJson({ session, callId, allow, decided })}\n`);
  else if (decided) stdout.write(`${allow ? 'Allowed' : 'Denied'}: ${printable(callId)} of ${printable(session)}\n`);
  else
    stderr.write(
      `${printable(callId)} of ${printable(session)} does not wait for a person, or was decided otherwise.\n`,
    );
  return decided ? EXIT.ok : EXIT.failed;
}
