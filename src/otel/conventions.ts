/**
 * The names that traces and metrics use for the activities of agents: names of OpenTelemetry, and our own names.
 *
 * Source: the GenAI semantic conventions, https://github.com/open-telemetry/semantic-conventions-genai, at the commit
 * below. At this commit all these names have the status Development. Our own names begin with `actor.`, `store.` and
 * `pool.`.
 */

/** The commit from which these names were taken. */
export const CONVENTIONS_COMMIT = '004902b8cb70aa5ae6ca4ae07132b7daabcd3e10';
/** The instrumentation scope. */
export const SCOPE = 'troupe';

/** The environment variable by which a user chooses between conventions. */
export const STABILITY_VARIABLE = 'OTEL_SEMCONV_STABILITY_OPT_IN';
/** The value of `STABILITY_VARIABLE` with which a user asks for the newest GenAI conventions only. */
const LATEST_EXPERIMENTAL = 'gen_ai_latest_experimental';

/** `gen_ai.operation.name`, also the first word of a span's name. */
export const OPERATION = { agent: 'invoke_agent', chat: 'chat', tool: 'execute_tool' } as const;

/** Names of attributes. */
export const ATTRIBUTE = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  /** The name of this attribute up to version 1.36 of the conventions. */
  formerProvider: 'gen_ai.system',
  requestModel: 'gen_ai.request.model',
  conversation: 'gen_ai.conversation.id',
  agentName: 'gen_ai.agent.name',
  agentId: 'gen_ai.agent.id',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheCreationTokens: 'gen_ai.usage.cache_creation.input_tokens',
  finishReasons: 'gen_ai.response.finish_reasons',
  tokenType: 'gen_ai.token.type',
  toolName: 'gen_ai.tool.name',
  toolCallId: 'gen_ai.tool.call.id',
  toolType: 'gen_ai.tool.type',
  toolArguments: 'gen_ai.tool.call.arguments',
  toolResult: 'gen_ai.tool.call.result',
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
  errorType: 'error.type',
  /** Number of the attempt, from 1. */
  attempt: 'actor.attempt',
  /** How a turn ended. */
  turnReason: 'actor.turn.reason',
  /** The type of a mailbox entry. */
  entryType: 'actor.mailbox.entry.type',
  pool: 'pool.name',
  /** The name of a provider in the option `providers`. */
  poolProvider: 'pool.provider',
} as const;

const SECONDS_OF_CALLS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const SECONDS_OF_TURNS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const CALLS_OF_TURNS = [1, 2, 4, 8, 16, 32, 64, 128];
const TOKENS = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];
const SECONDS_OF_WAITS = [0.001, 0.002, 0.005, ...SECONDS_OF_CALLS];

/** A histogram: its name, UCUM unit and bucket boundaries. */
export interface HistogramName {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly buckets: readonly number[];
}

/** The keys of the histograms. */
export type HistogramKey =
  | 'tokens'
  | 'chatDuration'
  | 'firstChunk'
  | 'agentDuration'
  | 'agentCalls'
  | 'agentTools'
  | 'toolDuration'
  | 'mailboxWait'
  | 'turnDuration';

/** The histograms. */
export const HISTOGRAM: Readonly<Record<HistogramKey, HistogramName>> = {
  tokens: {
    name: 'gen_ai.client.token.usage',
    unit: '{token}',
    description: 'Tokens of a model call.',
    buckets: TOKENS,
  },
  chatDuration: {
    name: 'gen_ai.client.operation.duration',
    unit: 's',
    description: 'Duration of a model call.',
    buckets: SECONDS_OF_CALLS,
  },
  firstChunk: {
    name: 'gen_ai.client.operation.time_to_first_chunk',
    unit: 's',
    description: 'Time until the first piece of a streamed answer.',
    buckets: SECONDS_OF_CALLS,
  },
  agentDuration: {
    name: 'gen_ai.invoke_agent.duration',
    unit: 's',
    description: 'Duration of a turn of an agent.',
    buckets: SECONDS_OF_TURNS,
  },
  agentCalls: {
    name: 'gen_ai.invoke_agent.inference_calls',
    unit: '{inference_call}',
    description: 'Model calls of a turn.',
    buckets: CALLS_OF_TURNS,
  },
  agentTools: {
    name: 'gen_ai.invoke_agent.tool_calls',
    unit: '{tool_call}',
    description: 'Tool calls of a turn.',
    buckets: CALLS_OF_TURNS,
  },
  toolDuration: {
    name: 'gen_ai.execute_tool.duration',
    unit: 's',
    description: 'Duration of a tool call.',
    buckets: SECONDS_OF_CALLS,
  },
  mailboxWait: {
    name: 'actor.mailbox.wait',
    unit: 's',
    description: 'Time an entry waited in a mailbox.',
    buckets: SECONDS_OF_WAITS,
  },
  turnDuration: {
    name: 'actor.turn.duration',
    unit: 's',
    description: 'Time from idle to idle.',
    buckets: SECONDS_OF_TURNS,
  },
};

/** The other instruments, by name. */
export const INSTRUMENT = {
  mailboxDepth: 'actor.mailbox.depth',
  restarts: 'actor.restarts',
  sessions: 'actor.sessions',
  flushes: 'store.commits',
  commitTurns: 'store.commit.turns',
  queueDepth: 'pool.queue.depth',
} as const;

/**
 * True if the attribute names of version 1.36 are set too; false if the user asked for the newest names only. `value`:
 * the value of `STABILITY_VARIABLE`, a list separated by commas.
 */
export function wantsFormerNames(value: string | undefined): boolean {
  const asked = (value ?? '').split(',').map((word) => word.trim());
  return !asked.includes(LATEST_EXPERIMENTAL);
}
