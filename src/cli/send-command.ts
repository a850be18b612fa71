/** `troupe send`: sends a message to a session and prints its answer. */
import { STOP_DEADLINE_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { ConfigError, InvalidNameError, ModelAuthenticationError } from '../base/errors.ts';
import { checkSessionId } from '../base/ids.ts';
import { anthropic, type OpenOptions, open } from '../index.ts';
import { readManifest } from '../journal/store/manifest.ts';
import { type Arguments, type Command, EXIT, UsageError } from './command.ts';
import { commandLogger } from './command-logger.ts';
import { hasCredentials, reviewOptions } from './review/agents.ts';
import { isReviewId, planOf, reviewAgents } from './review/plan.ts';
import { DATA_OPTION, dataDirectory, prepareDataDirectory } from './store-directory.ts';
import { readStore, type StoredSessions } from './stored-sessions.ts';
import type { StopSignal, Surroundings } from './surroundings.ts';
import { printable, printableJson } from './text-layout.ts';

/** The agent of sessions for which no agent is named. */
const DEFAULT_AGENT = 'default';
/** Number of events searched for a reviewer's plan, which is the first entry of its mailbox. */
const PLAN_EVENTS = 20;

/** See the head of the file. */
export const sendCommand: Command = {
  positionals: [
    { name: 'session', required: true, help: 'Session to send to; created if missing' },
    { name: 'text', required: true, rest: true, help: 'Text of the message; after -- if it begins with a dash' },
  ],
  options: {
    data: DATA_OPTION,
    key: { kind: 'text', value: 'KEY', help: 'Idempotency key: the same key and text are sent once' },
    json: { kind: 'flag', help: 'Print one JSON object with the receipt and the answer' },
  },
  details: [
    'A new session is answered by Claude, with the key in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN. A session of a review is answered as its review was, by Claude or by the scripted model. Other sessions have agents that only their own program defines: send to them from that program.',
    'Opening a data directory continues all interrupted work of the same agents.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const data = dataDirectory(given, surroundings);
  const id = sessionId(given.positional('session'));
  const text = given.positional('text') ?? '';
  const key = given.text('key');
  await prepareDataDirectory(data);
  const { agent, options } = await howToAnswer(data, id);
  if (isPaid(options) && !hasCredentials(surroundings.environment)) {
    throw new ModelAuthenticationError(
      `session ${JSON.stringify(id)} is answered by Claude, which needs a key: set ANTHROPIC_API_KEY`,
    );
  }
  const { stdout, stderr } = surroundings;
  const runtime = await open(data, { ...options, logger: commandLogger(surroundings) });
  let stopped: StopSignal | undefined;
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    forget();
    void runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  });
  try {
    const receipt = await runtime.session(id, agent).send(text, defined({ key }));
    const answer = await receipt.answer();
    stdout.write(
      given.flag('json')
        ? `${printableJson({ session: id, receipt: receipt.id, duplicate: receipt.duplicate, answer })}\n`
        : `${printable(answer)}\n`,
    );
    return EXIT.ok;
  } catch (error) {
    if (stopped === undefined) throw error;
    stderr.write(
      'Stopped. If the message was accepted it is in the log, and is answered when the directory is opened.\n',
    );
    return EXIT[stopped];
  } finally {
    forget();
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

function sessionId(given: string | undefined): string {
  try {
    return checkSessionId(given);
  } catch (error) {
    if (error instanceof InvalidNameError) throw new UsageError(`<session>: ${error.message}`, { cause: error });
    throw error;
  }
}

interface Answering {
  readonly agent: string;
  readonly options: OpenOptions;
}

function isPaid({ provider }: OpenOptions): boolean {
  return provider !== undefined && 'kind' in provider && provider.kind === 'anthropic';
}

/** The model that answers a session, read from the log before the store is opened. */
async function howToAnswer(data: string, id: string): Promise<Answering> {
  const isStore = (await readManifest(data)) !== undefined;
  return isStore ? readStore(data, (sessions) => answering(sessions, id)) : byClaude();
}

function answering(sessions: StoredSessions, id: string): Answering {
  const agent = sessions.session(id)?.agent;
  if (agent === undefined || agent === DEFAULT_AGENT) return byClaude();
  const [root = id] = id.split(':', 1);
  const { reviewer, reader } = reviewAgents(root);
  if (!isReviewId(root) || (agent !== reviewer && agent !== reader)) {
    throw new ConfigError(
      `session ${JSON.stringify(id)} has the agent ${JSON.stringify(agent)}, which only its own program defines; send from there`,
    );
  }
  const plan = sessions
    .events(root, { after: 0, limit: PLAN_EVENTS })
    .map((event) => (event.type === 'pending.created' ? planOf(event.pending.content) : undefined))
    .find((found) => found !== undefined);
  if (plan === undefined)
    throw new ConfigError(`the review ${JSON.stringify(root)} has no plan; \`troupe run\` makes one`);
  return { agent, options: reviewOptions(root, plan.directory, plan.model) };
}

function byClaude(): Answering {
  return { agent: DEFAULT_AGENT, options: { provider: anthropic() } };
}
