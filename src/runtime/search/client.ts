/**
 * Full-text search over all sessions of a runtime: the host's connection to the thread that has the index.
 *
 * Owns: the thread of the index. Does not own: the index (`search/service.ts`), messages.
 * Invariants:
 *  R1 the first search or erasure starts the thread, and nothing is read or held before. The index on disk is brought
 *     up to date from the logs, and anything missing is read from them. So a crash or a restart needs no other repair;
 *  R2 a search finds the messages that were durable when it began, and none that were removed before; see V1 of
 *     `service.ts`;
 *  R3 the host only forwards pages: neither a search nor building the index blocks it;
 *  R4 each shard is searched by the node that has it, once. If a node does not answer, or does not have a shard any more,
 *     the answer says that it is not complete.
 */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { SEARCH_CLOSE_MS, SEARCH_OTHERS_MS, SEARCH_WAIT_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, TroupeError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { orAborted } from '../../base/lazy-abort.ts';
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
  /** The nodes that have the sessions now; missing: this node has all. */
  readonly spread?: () => SearchSpread;
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

/** The options of a search. */
export interface SearchOptions {
  readonly limit: number;
  readonly excluding?: string;
  readonly trees?: ReadonlySet<string> | undefined;
  readonly tenant?: string;
}

/** The shards of this node, and the other nodes with theirs. */
export interface SearchSpread {
  readonly own: readonly number[];
  readonly others: readonly {
    readonly shards: readonly number[];
    /** Asks the host of the node. Undefined: the shards are here meanwhile. */
    readonly ask: (request: OwnerSearch) => Promise<{ readonly answer: unknown } | undefined>;
  }[];
}

/** A search by the host of another node, in those shards that it believes to be at this one. */
export interface OwnerSearch {
  readonly text: string;
  readonly options: SearchOptions;
  readonly shards: readonly number[];
}

const ownerSearchSchema = z.strictObject({
  text: z.string(),
  options: z.strictObject({
    limit: z.number(),
    excluding: z.string().optional(),
    trees: z.set(z.string()).optional(),
    tenant: z.string().optional(),
  }),
  shards: z.array(z.number().int().nonnegative()),
});

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
  async search(text: string, options: SearchOptions): Promise<SearchAnswer> {
    if (parseQuery(text) === undefined) return NOTHING;
    const spread = this.#parts.spread?.();
    if (spread === undefined) return this.#searchHere(text, options);
    const own = spread.own.length === 0 ? [] : [this.#searchHere(text, options, spread.own)];
    const others = spread.others.map(({ shards, ask }) => this.#searchThere({ text, options, shards }, ask));
    return merged(await Promise.all([...own, ...others]), options.limit);
  }

  /** Answers a search of another node. Rejects like `search`, and with `ZodError` for anything but an `OwnerSearch`. */
  async answer(request: unknown): Promise<SearchAnswer> {
    const { text, options, shards } = ownerSearchSchema.parse(request);
    const { limit, ...rest } = options;
    const own = this.#parts.spread?.().own ?? [];
    const wanted = shards.filter((shard) => own.includes(shard));
    const answer = await this.#searchHere(text, { limit, ...defined(rest) }, wanted);
    return { ...answer, isComplete: answer.isComplete && wanted.length === shards.length };
  }

  /** Asks another node. If it does not answer in time, nothing of its sessions is found. */
  async #searchThere(request: OwnerSearch, ask: SearchSpread['others'][number]['ask']): Promise<SearchAnswer> {
    const { waitMs = SEARCH_WAIT_MS } = this.#parts;
    try {
      const there = await orAborted(ask(request), AbortSignal.timeout(waitMs + SEARCH_OTHERS_MS));
      if (there === undefined) return await this.#searchHere(request.text, request.options, request.shards);
      // The other host has the same version, so its answer has the same form.
      return there.answer as SearchAnswer;
    } catch (error) {
      if (this.#isClosed) throw error;
      return { ...NOTHING, isComplete: false };
    }
  }

  async #searchHere(text: string, options: SearchOptions, shards?: readonly number[]): Promise<SearchAnswer> {
    const { excluding, trees, tenant } = options;
    const { now, decay, waitMs = SEARCH_WAIT_MS } = this.#parts;
    const floor = excluding === undefined ? undefined : await this.#floorOf(excluding);
    const request: SearchRequest = {
      text,
      limit: options.limit,
      now: now(),
      decay,
      waitMs,
      ...defined({ trees, tenant, shards: shards && new Set(shards) }),
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
    thread.endpoint.handle('here', () => new Set(this.#parts.spread?.().own ?? links().keys()));
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

const NOTHING: SearchAnswer = { found: [], scores: [], isComplete: true, messages: 0 };

/** The best messages of all answers. The scores of two indexes are close: each weighs terms by its own messages. */
function merged(answers: readonly SearchAnswer[], limit: number): SearchAnswer {
  const all = answers.flatMap(({ found, scores }) => found.map((message, at) => ({ message, score: scores[at] ?? 0 })));
  const best = all.sort((a, b) => b.score - a.score).slice(0, limit);
  return {
    found: best.map(({ message }) => message),
    scores: best.map(({ score }) => score),
    isComplete: answers.every(({ isComplete }) => isComplete),
    messages: answers.reduce((sum, { messages }) => sum + messages, 0),
  };
}
