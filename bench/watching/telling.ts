/**
 * What of the product exists so that somebody may watch it: the one list by which profiles are read. Whole files where a file does
 * nothing else, functions where it does. What runs unwatched too, looking whether somebody reads, is on it as well: it is all that an
 * unwatched process has of it, and what `no reader` costs.
 */

/** A place in code, as profiles name it. */
export interface Frame {
  readonly functionName: string;
  readonly url: string;
}

/** One line of the list. */
export interface Teller {
  /** Of the compiled file's address. */
  readonly file: RegExp;
  /** Only these functions; missing: all of the file. */
  readonly functions?: readonly string[];
  /** All of the file but these. */
  readonly except?: readonly string[];
  readonly reason: string;
}

/** See the head of the file. */
export const TELLING: readonly Teller[] = [
  { file: /\/src\/events\//, reason: 'events are built, packed, unpacked, queued, and shown in view modes' },
  { file: /\/src\/otel\//, reason: 'spans and metrics are made of diagnostics' },
  { file: /\/@opentelemetry\//, reason: 'what is made is kept and handed on' },
  { file: /^node:diagnostics_channel$/, reason: 'who subscribes to diagnostics runs inside' },
  {
    file: /\/src\/(base|runtime\/events)\/diagnostics[^/]*\.js$/,
    reason: 'operations are put together from events; unwatched: `look`',
  },
  { file: /\/src\/runtime\/events\/event-hub\.js$/, reason: 'events are handed from shards to readers' },
  {
    file: /\/src\/runtime\/(events\/cursored-events|reading\/event-replay)\.js$/,
    reason: 'a reader goes on where it was',
  },
  { file: /\/src\/runtime\/shard\/event-gathering\.js$/, reason: 'events are gathered for the host' },
  {
    file: /\/src\/runtime\/shard\/audience\.js$/,
    // `observer` and its closures for receipts also serve whoever waits for an answer.
    except: ['observer', 'settled', 'promoted', 'said', 'gate', 'isGated', 'listen', 'Audience'],
    reason: 'events of a turn are gathered; unwatched: `isWatched`, `watchChildren`',
  },
  {
    file: /\/src\/runtime\/shard\/turn-gathering\.js$/,
    functions: ['tell', 'introduce'],
    reason: 'events of a turn are gathered',
  },
  {
    file: /\/src\/session\/apply\/fold\.js$/,
    functions: ['counts', 'tell', 'telling'],
    reason: 'events of a turn are numbered, and told where somebody hears; unwatched: `counts`',
  },
  {
    file: /\/src\/session\/state\/messages\.js$/,
    functions: ['publicMessage', 'publicEntry'],
    reason:
      'a message, an entry as events show them; whoever reads a log has them too, and nobody does while this is measured',
  },
  {
    file: /\/src\/runtime\/shard\/transitions\.js$/,
    functions: ['publish', 'events'],
    reason: 'what is told beside the log',
  },
  {
    file: /\/src\/models\/pools\/in-place-pool\.js$/,
    functions: ['gather', 'tellDeltas', 'tellDeltasOf', 'wantsDeltas'],
    reason: 'an answer is told while it streams',
  },
  {
    file: /\/actors\/model-caller\.js$/,
    functions: ['delta', 'wantsDeltas'],
    reason: 'an answer is told while it streams',
  },
  {
    file: /\/src\/(models\/pools\/(model-service|threaded-pool)|runtime\/(shard\/session-work|host\/(shard-link|host-services)))\.js$/,
    functions: ['delta', 'onDelta', 'wantsDeltas', 'told'],
    reason: 'events, and an answer while it streams, are handed from thread to thread',
  },
  { file: /\/bench\/measure\/watchers\.js$/, reason: 'the reader itself, which does nothing but count' },
];

/** This function exists for the telling. */
export function isTelling({ functionName, url }: Frame): boolean {
  if (url === '') return false;
  const name = functionName.startsWith('#') ? functionName.slice(1) : functionName;
  return TELLING.some(
    ({ file, functions, except }) =>
      file.test(url) && functions?.includes(name) !== false && except?.includes(name) !== true,
  );
}
