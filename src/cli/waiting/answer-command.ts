/** `troupe answer`: answers a question that waits for a person, on a running server or in a data directory. */
import { z } from 'zod';
import { SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { Runtime } from '../../index.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { pathOf } from '../places/served-reader.ts';
import type { Server } from '../places/server.ts';
import type { Surroundings } from '../surroundings.ts';
import { printable, printableJson } from '../text-layout.ts';
import { CALL_POSITIONALS, DECISION_OPTIONS, decide } from './decision.ts';

const answerSchema = z.looseObject({ answered: z.boolean() });
const pageSchema = z.looseObject({
  waiting: z.array(z.looseObject({ session: z.string(), callId: z.string(), schema: z.unknown().optional() })),
  next: z.string().optional(),
});

/** A call in the queue of waiting calls. */
interface Queued {
  readonly session: string;
  readonly callId: string;
  readonly schema?: unknown;
}

/** See the head of the file. */
export const answerCommand: Command = {
  positionals: [
    ...CALL_POSITIONALS,
    {
      name: 'value',
      required: false,
      rest: true,
      help: 'The answer: text, or JSON if the question has a schema; after -- if it begins with a dash',
    },
  ],
  options: {
    decline: { kind: 'flag', help: 'End the question without an answer' },
    reason: { kind: 'text', value: 'TEXT', help: 'With --decline: the reason, for the model' },
    ...DECISION_OPTIONS,
  },
  details: [
    '`troupe waiting --json` shows the schema of a question. An answer that does not fit is refused with the reason, and the question still waits.',
    'A question that is not in the queue, such as one to a parent, takes a value that is a JSON object or list as JSON, and any other as text.',
    'Exits with 1 if the call asks nothing, for example because it was answered otherwise. In a data directory the session continues in this process until it has nothing to do. So the agents are needed; opening the directory continues all their interrupted work.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const isDeclined = given.flag('decline');
  const text = given.positional('value');
  const reason = given.text('reason');
  if (isDeclined && text !== undefined) throw new UsageError('--decline excludes <value>');
  if (!isDeclined && text === undefined) throw new UsageError('<value> is missing: give a value, or --decline');
  if (reason !== undefined && !isDeclined) throw new UsageError('--reason is for --decline');
  const session = given.positional('session') ?? '';
  const callId = given.positional('call') ?? '';
  const isCall = (call: Queued): boolean => call.session === session && call.callId === callId;
  const answered = await decide(given, session, surroundings, {
    served: async (server) => {
      const value = text === undefined ? undefined : answerIn(text, await queuedAt(server, session, isCall));
      const body = value === undefined ? { callId, decline: true, ...defined({ reason }) } : { callId, value };
      return (await server.ask(`${pathOf(session)}/answer`, answerSchema, { body })).answered;
    },
    stored: async (runtime, by) => {
      const handle = runtime.session(session);
      if (text === undefined) return handle.decline(callId, reason, { by });
      return handle.answer(callId, answerIn(text, await queuedIn(runtime, session, isCall)), { by });
    },
  });
  if (typeof answered === 'number') return answered;
  const name = `${printable(callId)} of ${printable(session)}`;
  if (given.flag('json')) stdout.write(`${printableJson({ session, callId, answered })}\n`);
  else if (answered) stdout.write(`${isDeclined ? 'Declined' : 'Answered'}: ${name}\n`);
  else stderr.write(`${name} asks nothing, or was answered otherwise.\n`);
  return answered ? EXIT.ok : EXIT.failed;
}

/** The value of an answer. Throws `UsageError` if the question has a schema and the text is not JSON. */
function answerIn(text: string, queued: Queued | undefined): unknown {
  if (queued !== undefined && queued.schema === undefined) return text;
  try {
    const value: unknown = JSON.parse(text);
    return queued === undefined && (typeof value !== 'object' || value === null) ? text : value;
  } catch (cause) {
    if (queued === undefined) return text;
    const schema = printableJson(queued.schema);
    throw new UsageError(`<value> must be JSON, since the question has the schema ${schema}`, { cause });
  }
}

async function queuedAt(
  server: Server,
  session: string,
  isCall: (call: Queued) => boolean,
): Promise<Queued | undefined> {
  const query = new URLSearchParams({ session, limit: String(SERVER_PAGE_MAX) });
  for (;;) {
    const { waiting, next } = await server.ask(`waiting?${query}`, pageSchema);
    const found = waiting.find(isCall);
    if (found !== undefined || next === undefined) return found;
    query.set('after', next);
  }
}

async function queuedIn(
  runtime: Runtime,
  session: string,
  isCall: (call: Queued) => boolean,
): Promise<Queued | undefined> {
  for (let after: string | undefined; ; ) {
    const { items, next } = await runtime.waiting({ session, ...defined({ after }) });
    const found = items.find(isCall);
    if (found !== undefined || next === undefined) return found;
    after = next;
  }
}
