/**
 * Full-text search over all sessions of a runtime: the host's connection to the thread that has the index.
 *
 * Owns: the thread of the index. Does not own: the index (`search/service.ts`), messages.
 * Invariants:
 *  R1 the first search or erasure starts the thread, and nothing is read or held before. The index on disk is brought
 *     up to date from the logs, and anything missing is read from them. So a crash or a restart needs no other repair;
 *  R2 a search finds only messages that existed when it began; see V1 of `service.ts`;
 *  R3 the host only forwards pages: neither a search nor building the index blocks it.
 */
import { existsSync } from 'node:fs';
import { SEARCH_CLOSE_MS, SEARCH_WAIT_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, TroupeError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { derivedKey } from '../../journal/encryption/master-keys.ts';
import { parseQuery } from '../../search/query.ts';
import { keepAliveFor, settledInTime, startThread, type Thread } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import type { SearchMethod } from './reader.ts';
import type { SearchAnswer, SearchRequest, SearchStatistics } from './service.ts';

/** The parts that a search needs. */
export interface SearchParts {
  readonly links: () => readonly ShardCaller[];
  readonly linkOf: (session: string) => ShardCaller;
  /** Directory of the index; the first search makes it. */
  readonly directory: string;
  /** The master key of the store. The key of the index is derived from it. Missing: the index is not encrypted. */
  readonly key?: Uint8Array;
  /** Epoch ms. */
  readonly now: () => number;
  /** How strongly age lowers a score: the score is divided by `1 + decay * years`. */
  readonly decay: number;
  /** How long a search waits for the index to be up to date; default `SEARCH_WAIT_MS`. */
  readonly waitMs?: number;
}

/** The data with which the search thread starts. */
export interface SearchThreadData {
  readonly directory: string;
  readonly shards: number;
  /** Missing: the index is not encrypted. */
  readonly key?: Uint8Array;
}

/** Statistics of the index, and the bytes its thread uses: the heap, and buffers outside the heap. */
export interface ThreadStatistics extends SearchStatistics {
  readonly threadBytes: number;
}

const METHODS: ReadonlySet<unknown> = new Set<SearchMethod>([
  'search.log',
  'search.rows',
  'search.chain',
  'search.names',
  'search.session',
  'search.blob',
]);

/** See the head of the file. */
export class MessageSearch {
  readonly #parts: SearchParts;
  #thread: Thread | undefined;
  #isClosed = false;

  constructor(parts: SearchParts) {
    this.#parts = parts;
  }

  /** Statistics of the index; `undefined` while the thread of the index does not run. */
  async statistics(): Promise<ThreadStatistics | undefined> {
    const thread = this.#thread;
    return thread === undefined
      ? undefined
      : ((await this.#asked(thread, 'statistics', undefined)) as ThreadStatistics);
  }

  /**
   * The messages that fit a query best, at most `limit`. `excluding`: a session whose window is not searched. The
   * window is its messages since the last eviction, or all messages if there was none. `trees`: roots of the trees to
   * search; missing: all. `tenant`: only this tenant's sessions; empty: only sessions without a tenant; missing: all. A
   * query without terms finds nothing. Rejects with the error of a shard, with a retryable error when the thread died,
   * and with `CancelledError` once the runtime is closed.
   */
  async search(
    text: string,
    options: {
      readonly limit: number;
      readonly excluding?: string;
      readonly trees?: ReadonlySet<string> | undefined;
      readonly tenant?: string;
    },
  ): Promise<SearchAnswer> {
    if (parseQuery(text) === undefined) return { found: [], isComplete: true, messages: 0 };
    const { excluding, trees, tenant } = options;
    const { now, decay, waitMs = SEARCH_WAIT_MS } = this.#parts;
    const floor = excluding === undefined ? undefined : await this.#floorOf(excluding);
    const request: SearchRequest = {
      text,
      limit: options.limit,
      now: now(),
      decay,
      waitMs,
      ...defined({ trees, tenant }),
      ...(excluding === undefined ? {} : { excluding: { session: excluding, ...defined({ floor }) } }),
    };
    return (await this.#asked(this.#running(), 'search', request)) as SearchAnswer;
  }

  /** Sends a request to the thread. A thread with a request keeps the process alive; an idle thread does not. */
  #asked(thread: Thread, method: string, request: unknown): Promise<unknown> {
    return keepAliveFor(thread.endpoint.call(method, request));
  }

  /** Forgets deleted sessions. */
  forget(sessions: readonly string[]): void {
    this.#thread?.endpoint.notify('forget', sessions);
  }

  /**
   * Removes messages of these deleted sessions from all files of the index. Resolves at once if there is no index.
   * Rejects with the error of a shard or of the device, and when the thread dies.
   */
  async erase(sessions: readonly string[]): Promise<void> {
    if (this.#thread === undefined && !existsSync(this.#parts.directory)) return;
    await this.#asked(this.#running(), 'erase', sessions);
  }

  /** Saves the index, waiting at most `SEARCH_CLOSE_MS`, and ends the thread. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const thread = this.#thread;
    this.#thread = undefined;
    if (thread === undefined) return;
    await settledInTime(thread.endpoint.call('close', undefined), SEARCH_CLOSE_MS);
    await thread.exit();
    thread.endpoint.close();
  }

  /**
   * The first seq of a session's window. Undefined if the session is not resident; the index then determines the seq.
   */
  #floorOf(session: string): Promise<number | undefined> {
    return this.#parts.linkOf(session).call('search.floor', { session }, true);
  }

  #running(): Thread {
    if (this.#isClosed) throw new CancelledError('the runtime is closed');
    this.#thread ??= this.#start();
    return this.#thread;
  }

  #start(): Thread {
    const { directory, links, key } = this.#parts;
    const data: SearchThreadData = {
      directory,
      shards: links().length,
      ...(key === undefined ? {} : { key: new Uint8Array(derivedKey(key, 'search index')) }),
    };
    const thread = startThread(workerUrl('./search.worker', import.meta.url), {
      name: 'troupe search',
      workerData: data,
    });
    thread.endpoint.handle('ask', (question) => this.#ask(question));
    // The next search starts another thread, which continues from the saved index.
    thread.onExit(() => {
      if (this.#thread === thread) this.#thread = undefined;
    });
    thread.unref();
    return thread;
  }

  /** Forwards a request of the index to a shard. */
  #ask(question: unknown): Promise<unknown> {
    const { shard, method, request } = isRecord(question) ? question : {};
    const link = this.#parts.links()[Number(shard)];
    if (link === undefined || !METHODS.has(method))
      throw new TroupeError('internal', 'the search thread asked for an unknown shard or method');
    return link.call(method as SearchMethod, request as never, true);
  }
}
