/** `troupe approve`: decides a tool call that waits for a person, on a running server or in a data directory. */
import { z } from 'zod';
import { STOP_DEADLINE_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { open } from '../index.ts';
import { agentsModule } from './agents-module.ts';
import { type Arguments, type Command, EXIT, UsageError } from './command.ts';
import { commandLogger } from './command-logger.ts';
import { answerOf, checked, serverAddress } from './served-answers.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, requireStore } from './store-directory.ts';
import type { StopSignal, Surroundings } from './surroundings.ts';
import { printable, printableJson } from './text-layout.ts';

const answerSchema = z.looseObject({ decided: z.boolean() });

interface Decision {
  readonly session: string;
  readonly callId: string;
  readonly allow: boolean;
  readonly reason?: string;
}

/** See the head of the file. */
export const approveCommand: Command = {
  positionals: [
    { name: 'session', required: true, help: 'Session of the call' },
    { name: 'call', required: true, help: 'Id of the call, as `troupe waiting` shows it' },
  ],
  options: {
    deny: { kind: 'flag', help: 'Deny the call; without this it is allowed' },
    reason: { kind: 'text', value: 'TEXT', help: 'With --deny: the reason, for the model' },
    url: { kind: 'text', value: 'URL', help: 'A running server, instead of a data directory' },
    token: { kind: 'text', value: 'TOKEN', help: 'Token of the server (default: $TROUPE_TOKEN)' },
    data: DATA_OPTION,
    agents: {
      kind: 'text',
      value: 'MODULE',
      help: 'Without --url: module whose default export is the agents, or the options of open()',
    },
    json: JSON_OPTION,
  },
  details: [
    'Exits with 1 if the call does not wait, for example because it was decided otherwise; the same decision may be repeated.',
    'In a data directory an allowed call runs in this process, and its session continues until it has nothing to do. So the agents are needed; opening the directory continues all their interrupted work.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const url = given.text('url');
  const reason = given.text('reason');
  if (url !== undefined && (given.text('data') ?? given.text('agents')) !== undefined)
    throw new UsageError('--url excludes --data and --agents');
  if (reason !== undefined && !given.flag('deny')) throw new UsageError('--reason is for --deny');
  const decision: Decision = {
    session: given.positional('session') ?? '',
    callId: given.positional('call') ?? '',
    allow: !given.flag('deny'),
    ...defined({ reason }),
  };
  const { session, callId, allow } = decision;
  const decided =
    url === undefined
      ? await decideStored(decision, given, surroundings)
      : await decideServed(url, decision, given, surroundings);
  if (typeof decided !== 'boolean') return EXIT[decided];
  if (given.flag('json')) stdout.write(`${printableJson({ session, callId, allow, decided })}\n`);
  else if (decided) stdout.write(`${allow ? 'Allowed' : 'Denied'}: ${printable(callId)} of ${printable(session)}\n`);
  else
    stderr.write(
      `${printable(callId)} of ${printable(session)} does not wait for a person, or was decided otherwise.\n`,
    );
  return decided ? EXIT.ok : EXIT.failed;
}

async function decideServed(
  url: string,
  { session, ...body }: Decision,
  given: Arguments,
  { environment }: Surroundings,
): Promise<boolean> {
  const base = serverAddress(url);
  const token = given.text('token') ?? environment['TROUPE_TOKEN'];
  const answer = await answerOf(base, `sessions/${encodeURIComponent(session)}/approve`, { token, body });
  return checked(answerSchema, answer, base).decided;
}

/** Resolves to whether the decision holds, or to the signal that stopped the work. */
async function decideStored(
  { session, callId, ...decision }: Decision,
  given: Arguments,
  surroundings: Surroundings,
): Promise<boolean | StopSignal> {
  const module = given.text('agents');
  if (module === undefined) {
    throw new UsageError(
      '--agents MODULE is needed to decide in a data directory, since the session continues; or --url',
    );
  }
  const data = dataDirectory(given, surroundings);
  await requireStore(data);
  const options = await agentsModule(module, surroundings.directory);
  const runtime = await open(data, { ...options, logger: options.logger ?? commandLogger(surroundings) });
  let stopped: StopSignal | undefined;
  const stop = new AbortController();
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    stop.abort();
  });
  try {
    const decided = await runtime.session(session).approve(callId, decision);
    // The call must not be cut off: a call of a tool with the effect `once` would be lost.
    await runtime.drain({ signal: stop.signal });
    return decided;
  } catch (error) {
    if (stopped === undefined) throw error;
    return stopped;
  } finally {
    forget();
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}
