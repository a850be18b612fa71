/** Writes metrics in the text format that Prometheus reads (version 0.0.4). Pure. */
import type { ProviderMetrics, RuntimeInfo, RuntimeMetrics } from '../index.ts';

/** Figures of the process and of the server itself. */
export interface HostMetrics {
  /** Mean delay of the host thread's event loop. */
  readonly loopDelayMs: number;
  readonly loopDelayP99Ms: number;
  /** Resident memory of the process. */
  readonly memoryBytes: number;
  /** Open event streams. */
  readonly eventStreams: number;
}

type Kind = 'counter' | 'gauge';
type Family = readonly [name: string, kind: Kind, help: string];
/** The names of the runtime's metrics that are counters or gauges here. */
type Figure = Exclude<keyof RuntimeMetrics, 'degraded' | 'providers' | 'compactionSliceMs'>;

/** The media type of the format. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const FAMILIES: Readonly<Record<Figure, Family>> = {
  turns: ['troupe_actor_turns_total', 'counter', 'Transitions committed.'],
  halfSteps: ['troupe_half_steps_total', 'counter', 'Half-steps: claims that led to a model call.'],
  modelCalls: ['troupe_model_calls_total', 'counter', 'Model calls started, attempts included.'],
  toolCalls: ['troupe_tool_calls_total', 'counter', 'Tool calls started.'],
  accepted: ['troupe_accepted_messages_total', 'counter', 'Mailbox entries accepted.'],
  staleCompletions: ['troupe_stale_completions_total', 'counter', 'Completions dropped as obsolete.'],
  sessionsHot: ['troupe_sessions_in_memory', 'gauge', 'Sessions in memory.'],
  sessionsLive: ['troupe_sessions_live', 'gauge', 'Sessions in a turn.'],
  sessionsQueued: ['troupe_sessions_queued', 'gauge', 'Sessions that wait for admission.'],
  modelCallsRunning: ['troupe_model_calls_running', 'gauge', 'Model calls in flight.'],
  modelCallsWaiting: ['troupe_model_calls_waiting', 'gauge', 'Model calls held back by rates or a common pause.'],
  toolCallsRunning: ['troupe_tool_calls_running', 'gauge', 'Tool calls in flight.'],
  toolCallsWaiting: ['troupe_tool_calls_waiting', 'gauge', 'Tool calls in flight that wait for a tool thread.'],
  toolRetries: ['troupe_tool_retries_total', 'counter', 'Failed attempts of tool calls that were repeated.'],
  toolBlocks: [
    'troupe_tool_blocks_total',
    'counter',
    'Times that tool values held the host thread for 250 ms or more.',
  ],
  sessionsErasing: ['troupe_sessions_erasing', 'gauge', 'Deleted sessions of which something is still stored.'],
  compactions: ['troupe_compactions_total', 'counter', 'Compactions of files of the store that have ended.'],
  compactionsRunning: ['troupe_compactions_running', 'gauge', 'Compactions that run.'],
  compactionsFailed: ['troupe_compactions_failed_total', 'counter', 'Compactions that were not made, or discarded.'],
  compactionBytesBefore: [
    'troupe_compaction_before_bytes',
    'gauge',
    'Bytes of the files of the store before their last compactions.',
  ],
  compactionBytes: ['troupe_compaction_bytes', 'gauge', 'Bytes of these files after them.'],
  snapshots: ['troupe_snapshots_total', 'counter', 'Snapshots written to the log of a cluster, or trims after them.'],
  snapshotsFailed: ['troupe_snapshots_failed_total', 'counter', 'Snapshots that were not written.'],
  callsWaitingForPerson: ['troupe_calls_waiting_for_person', 'gauge', 'Tool calls that wait for a person.'],
  flushes: ['troupe_journal_flushes_total', 'counter', 'Group commits flushed.'],
  journalTurns: ['troupe_journal_turns_total', 'counter', 'Transitions written to the journal.'],
  stalls: ['troupe_session_thread_stalls_total', 'counter', 'Times a session thread stood still for a second or more.'],
  cacheWarmUps: ['troupe_cache_warm_ups_total', 'counter', "Calls without output that filled the provider's cache."],
  requestBytes: ['troupe_request_bytes_total', 'counter', 'Bytes of the bodies of answered model requests.'],
  threadsContinued: ['troupe_threads_continued_total', 'counter', 'Requests that continued a message thread.'],
  threadsReplayed: ['troupe_threads_replayed_total', 'counter', 'Requests sent whole because a thread was lost.'],
  webhooksDelivered: ['troupe_webhook_deliveries_total', 'counter', 'Deliveries that receivers took.'],
  webhooksFailed: ['troupe_webhook_failures_total', 'counter', 'Attempts of deliveries that failed.'],
  webhooksWaiting: ['troupe_webhook_sessions_waiting', 'gauge', 'Sessions with undelivered notices.'],
  restarts: ['troupe_session_thread_restarts_total', 'counter', 'Session threads that died and were replaced.'],
};

/**
 * The families with one sample for each provider. The label is the provider's name. If the name is empty, Prometheus
 * treats the label as missing.
 */
const PROVIDER_FAMILIES: Readonly<Record<keyof ProviderMetrics, Family>> = {
  modelCalls: ['troupe_provider_model_calls_total', 'counter', 'Model calls started, attempts included.'],
  modelCallsRunning: ['troupe_provider_model_calls_running', 'gauge', 'Model calls that turns wait for.'],
  modelCallsWaiting: ['troupe_provider_model_calls_waiting', 'gauge', 'Model calls that are held back.'],
  circuitsOpen: ['troupe_provider_circuits_open', 'gauge', 'Session threads to which the provider does not answer.'],
  credentialsRefused: [
    'troupe_provider_credentials_refused',
    'gauge',
    'Session threads whose credentials were refused.',
  ],
};

/** All metrics as one text. Each metric is a family with its help and its type. */
export function prometheusText(metrics: RuntimeMetrics, host: HostMetrics, info: RuntimeInfo): string {
  const families: string[] = [];
  for (const [figure, family] of Object.entries(FAMILIES)) families.push(sample(family, metrics[figure as Figure]));
  for (const [figure, family] of Object.entries(PROVIDER_FAMILIES)) {
    const samples = Object.entries(metrics.providers).map(([provider, figures]) => ({
      value: figures[figure as keyof ProviderMetrics],
      labels: { provider },
    }));
    families.push(samplesOf(family, samples));
  }
  families.push(
    sample(['troupe_store_degraded', 'gauge', 'The store refuses writes.'], metrics.degraded === undefined ? 0 : 1),
    sample(
      ['troupe_compaction_slice_seconds', 'gauge', 'Longest work of a compaction that held a session thread.'],
      metrics.compactionSliceMs / 1_000,
    ),
    sample(['troupe_loop_delay_mean_seconds', 'gauge', 'Delay of the host loop, mean.'], host.loopDelayMs / 1_000),
    sample(['troupe_loop_delay_p99_seconds', 'gauge', 'Delay of the host loop, p99.'], host.loopDelayP99Ms / 1_000),
    sample(['troupe_process_memory_bytes', 'gauge', 'Resident memory of the process.'], host.memoryBytes),
    sample(['troupe_http_event_streams', 'gauge', 'Event streams open.'], host.eventStreams),
    sample(['troupe_info', 'gauge', 'What is running.'], 1, {
      version: info.version,
      node: info.node,
      durability: info.durability,
    }),
  );
  return families.join('');
}

interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
}

function sample(family: Family, value: number, labels: Sample['labels'] = {}): string {
  return samplesOf(family, [{ value, labels }]);
}

function samplesOf([name, kind, help]: Family, samples: readonly Sample[]): string {
  const lines = samples.map(({ value, labels }) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
    return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`;
  });
  return `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n${lines.join('')}`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
