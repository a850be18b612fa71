/** `troupe send`: sends a message to a session and prints its answer. */
import { z } from 'zod';
import { STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, InvalidNameError, ModelAuthenticationError } from '../../base/errors.ts';
import { checkSessionId } from '../../base/ids.ts';
import { anthropic, type OpenOptions, open } from '../../index.ts';
import { readManifest } from '../../journal/store/manifest.ts';
import type { GivenKeys } from '../../journal/store/store-key.ts';
import { agentsModule } from '../agents-module.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { prepareDataDirectory } from '../places/data-directory.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { pathOf } from '../places/served-reader.ts';
import type { Server } from '../places/server.ts';
import { readStore, type StoredSessions } from '../places/stored-sessions.ts';
import { hasCredentials, reviewOptions } from '../review/agents.ts';
import { isReviewId, planOf, reviewAgents } from '../review/plan.ts';
import type { StopSignal, Surroundings } from '../surroundings.ts';
import { printable, printableJson } from '../text-layout.ts';

/** The agent of sessions for which no agent is named. */
const DEFAULT_AGENT = 'default';
/** Number of events searched for a reviewer's plan, which is the first entry of its mailbox. */
const PLAN_EVENTS = 20;

/** See the head of the file. */
export const sendCommand: Command = {
  positionals: [
    { name: 'session', required: true, help: 'Session to send to; created if missing', completes: 'session' },
    { name: 'text', required: true, rest: true, help: 'Text of the message; after -- if it begins with a dash' },
  ],
  options: {
    key: { kind: 'text', value: 'KEY', help: 'Idempotency key: the same key and text are sent once' },
    agents: {
      kind: 'text',
      value: 'MODULE',
      help: 'For a directory that no process has open: module whose default export is the agents, or the options of open()',
    },
    ...PLACE_OPTIONS,
    json: { kind: 'flag', help: 'Print one JSON object with the receipt and the answer' },
  },
  details: [
    'A running server answers with its own agents. In a directory that no process has open, the agents of --agents answer; opening it continues all their interrupted work.',
    'Without --agents a new session is answered by Claude, with the key in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN. A session of a review is answered as its review was, by Claude or by the scripted model. Other sessions have agents that only their own program defines.',
  ],
  run,
};

const receiptSchema = z.looseObject({ id: z.string(), pendingId: z.number(), duplicate: z.boolean() });
const answerSchema = z.looseObject({ answer: z.string() });

/** A sent message and its answer. */
interface Sent {
  readonly receipt: string;
  readonly duplicate: boolean;
  readonly answer: string;
}

interface Sending {
  readonly id: string;
  readonly text: string;
  readonly key: string | undefined;
}

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const sending = {
    id: sessionId(given.positional('session')),
    text: given.positional('text') ?? '',
    key: given.text('key'),
  };
  const module = given.text('agents');
  if (given.text('url') !== undefined && module !== undefined)
    throw new UsageError('--url and --agents exclude each other');
  const place = await findPlace(given, surroundings, { mayCreate: true });
  const stop = new AbortController();
  let stopped: StopSignal | undefined;
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    forget();
    stop.abort();
  });
  try {
    const { receipt, duplicate, answer } =
      place.kind === 'server'
        ? await sendToServer(place.server, sending, stop.signal)
        : await sendInDirectory(place, module, sending, surroundings, stop.signal);
    stdout.write(
      given.flag('json')
        ? `${printableJson({ session: sending.id, receipt, duplicate, answer })}\n`
        : `${printable(answer)}\n`,
    );
    return EXIT.ok;
  } catch (error) {
    if (stopped === undefined) throw error;
    stderr.write(
      'Stopped. If the message was accepted it is in the log, and is answered by its server or when the directory is opened.\n',
    );
    return EXIT[stopped];
  } finally {
    forget();
  }
}

async function sendToServer(server: Server, { id, text, key }: Sending, signal: AbortSignal): Promise<Sent> {
  const body = { content: text, ...defined({ key }) };
  const receipt = await server.ask(`${pathOf(id)}/messages`, receiptSchema, { body });
  // The signal replaces the usual timeout, because a turn may take as long as it needs.
  const path = `${pathOf(id)}/receipts/${receipt.pendingId}?wait=answer`;
  const { answer } = await server.ask(path, answerSchema, { signal });
  return { receipt: receipt.id, duplicate: receipt.duplicate, answer };
}

async function sendInDirectory(
  { directory: data, keys }: Extract<Place, { readonly kind: 'directory' }>,
  module: string | undefined,
  { id, text, key }: Sending,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<Sent> {
  await prepareDataDirectory(data);
  const { agent, options } =
    module === undefined
      ? await howToAnswer(data, id, keys)
      : { agent: undefined, options: await agentsModule(module, surroundings.directory) };
  if (module === undefined && isPaid(options) && !hasCredentials(surroundings.environment)) {
    throw new ModelAuthenticationError(
      `session ${JSON.stringify(id)} is answered by Claude, which needs a key: set ANTHROPIC_API_KEY`,
    );
  }
  const logger = options.logger ?? commandLogger(surroundings);
  const runtime = await open(data, { ...options, ...defined({ encryption: keys }), logger });
  const onStop = (): void => void runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  signal.addEventListener('abort', onStop, { once: true });
  try {
    const receipt = await runtime.session(id, agent).send(text, defined({ key }));
    return { receipt: receipt.id, duplicate: receipt.duplicate, answer: await receipt.answer() };
  } finally {
    signal.removeEventListener('abort', onStop);
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

/**
 * The agent and the options with which a session is answered. They follow from the agent that the session has in the
 * log, which is read before the store is opened.
 */
async function howToAnswer(data: string, id: string, keys: GivenKeys | undefined): Promise<Answering> {
  const isStore = (await readManifest(data)) !== undefined;
  return isStore ? readStore(data, (sessions) => answering(sessions, id), keys) : byClaude();
}

function answering(sessions: StoredSessions, id: string): Answering {
  const agent = sessions.session(id)?.agent;
  if (agent === undefined || agent === DEFAULT_AGENT) return byClaude();
  const [root = id] = id.split(':', 1);
  const { reviewer, reader } = reviewAgents(root);
  if (!isReviewId(root) || (agent !== reviewer && agent !== reader)) {
    throw new ConfigError(
      `session ${JSON.stringify(id)} has the agent ${JSON.stringify(agent)}, which only its own program defines: name its module with --agents, or send from there`,
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
