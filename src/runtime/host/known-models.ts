/**
 * The vendor's list of its models, for one runtime. Lives on the host thread.
 *
 * Owns: the rows of the vendor's list, the file that keeps them in the store's directory, the request in flight, the
 * timer of the next request. Does not own: the traits that follow from a row (`src/context/model-traits.ts`), the
 * session threads, which receive the rows.
 *
 *  V1 opening a runtime reads at most the file, and never waits for the network;
 *  V2 a failure leaves the rows as they are, and each further failure doubles the wait for the next request;
 *  V3 after `close` nothing is in flight, no timer is pending and no file is written;
 *  V4 rows are used only for the address from which they came, and only while there are credentials.
 */
import { randomUUID } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import {
  MODEL_LIST_FILE_BYTES_MAX,
  MODEL_LIST_REFRESH_MS,
  MODEL_LIST_RETRY_MS,
  MODEL_LIST_RETRY_MS_MAX,
  MODEL_LISTS_KEPT_MAX,
} from '../../base/bounds.ts';
import { type Clock, setIdleTimer } from '../../base/clock.ts';
import { asError, systemCodeOf } from '../../base/errors.ts';
import { growingWait } from '../../base/growing-wait.ts';
import type { ListedModel } from '../../context/model-traits.ts';
import { putFile } from '../../journal/store/durable-file.ts';
import { createAnthropicProvider, parseAnthropicData } from '../../models/anthropic/anthropic.ts';
import { listedModelsSchema, type ModelList } from '../../models/model-list.ts';
import type { ModelProvider, ProviderData } from '../../models/provider.ts';
import { isModelProvider } from '../../models/provider-check.ts';
import { RecentMap } from '../../models/recent-map.ts';
import type { GuardedLogger } from '../protocol/options.ts';

/** The file in the store's directory. Deleting it loses nothing. */
const FILE = 'models.json';
const FILE_FORMAT = 1;

/** A list that was read. */
interface ReadList {
  readonly source: string;
  /** Epoch ms. */
  readonly readAt: number;
  readonly models: readonly ListedModel[];
}

const fileSchema: z.ZodType<ReadList & { readonly format: typeof FILE_FORMAT }> = z.object({
  format: z.literal(FILE_FORMAT),
  source: z.string(),
  readAt: z.number(),
  models: listedModelsSchema,
});

/** The last list of each provider in this process. */
const lastRead = new WeakMap<ModelList, ReadList>();

/** Lists by the provider's options, so that all runtimes of a process share the list that one of them has read. */
const listsByOptions = new RecentMap<ModelList>(MODEL_LISTS_KEPT_MAX);

/**
 * The list of a provider; undefined if it has none. A provider that is a module is not asked, since a module is loaded
 * only on the threads that make its calls.
 */
function modelListOf(provider: ModelProvider | ProviderData): ModelList | undefined {
  if (isModelProvider(provider)) return provider.models;
  if (provider.kind !== 'anthropic') return undefined;
  const key = JSON.stringify(provider.options);
  const known = listsByOptions.get(key);
  if (known !== undefined) return known;
  const list = createAnthropicProvider(parseAnthropicData(provider.options)).models;
  if (list !== undefined) listsByOptions.put(key, list);
  return list;
}

/**
 * The list of a runtime: the list of the first provider that has a list. Other providers are not asked, because a row
 * describes a model independently of the provider that is called.
 */
export function firstModelList(providers: readonly (ModelProvider | ProviderData)[]): ModelList | undefined {
  for (const provider of providers) {
    const list = modelListOf(provider);
    if (list !== undefined) return list;
  }
  return undefined;
}

/** The parts of a runtime that the list needs. */
export interface KnownModelsParts {
  /** The provider's list; undefined: it has none, and nothing is known. */
  readonly list: ModelList | undefined;
  /** The store's directory; undefined: the store is in memory. */
  readonly directory: string | undefined;
  readonly clock: Clock;
  readonly logger: GuardedLogger | undefined;
}

/** See the head of the file. */
export class KnownModels {
  readonly #parts: KnownModelsParts;
  readonly #ending = new AbortController();
  readonly #source: string | undefined;
  #read: ReadList | undefined;
  #timer: unknown;
  #asking: Promise<void> | undefined;
  #failures = 0;
  #listener: () => void = () => undefined;

  private constructor(parts: KnownModelsParts) {
    this.#parts = parts;
    this.#source = parts.list?.source();
  }

  /** Takes the list that this process or the store's directory already has (V1). Never rejects. */
  static async open(parts: KnownModelsParts): Promise<KnownModels> {
    const known = new KnownModels(parts);
    await known.#restore();
    return known;
  }

  /** All rows of the list; empty until it was read. */
  get models(): readonly ListedModel[] {
    return this.#read?.models ?? [];
  }

  /** Begins to ask for the list when it is due, at once if there is none. `onChange` runs after each new list. */
  begin(onChange: () => void): void {
    if (this.#source === undefined) return;
    this.#listener = onChange;
    const ageMs = this.#read === undefined ? Number.POSITIVE_INFINITY : this.#parts.clock.now() - this.#read.readAt;
    // A list from the future was read before the clock was set back.
    if (ageMs >= MODEL_LIST_REFRESH_MS || ageMs < 0) this.#ask();
    else this.#askIn(MODEL_LIST_REFRESH_MS - ageMs);
  }

  /** Ends the request in flight and the timer; resolves when no file is being written (V3). */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#parts.clock.clearTimer(this.#timer);
    await this.#asking;
  }

  #askIn(delayMs: number): void {
    this.#timer = setIdleTimer(this.#parts.clock, () => this.#ask(), delayMs);
  }

  #ask(): void {
    const { list } = this.#parts;
    if (list === undefined || this.#ending.signal.aborted) return;
    this.#asking = this.#askNow(list).then((delayMs) => {
      if (!this.#ending.signal.aborted) this.#askIn(delayMs);
    });
  }

  /** Asks once; resolves to the milliseconds until the next request. */
  async #askNow(list: ModelList): Promise<number> {
    const { clock, logger } = this.#parts;
    try {
      const { models, unread = [] } = await list.read({ signal: this.#ending.signal, clock });
      if (unread.length > 0) logger?.warn({ models: unread }, 'rows of the list of models could not be read');
      await this.#take(list, models);
      this.#failures = 0;
      return MODEL_LIST_REFRESH_MS;
    } catch (error) {
      this.#failures += 1;
      if (this.#failures === 1 && !this.#ending.signal.aborted) {
        const { message } = asError(error);
        logger?.debug({ error: message }, 'the list of models cannot be read; what is known of them is kept');
      }
      return growingWait(this.#failures, { first: MODEL_LIST_RETRY_MS, longest: MODEL_LIST_RETRY_MS_MAX });
    }
  }

  async #take(list: ModelList, models: readonly ListedModel[]): Promise<void> {
    const source = this.#source;
    if (source === undefined || this.#ending.signal.aborted) return;
    const read = { source, readAt: this.#parts.clock.now(), models };
    this.#read = read;
    lastRead.set(list, read);
    this.#listener();
    await this.#store(read);
  }

  async #store(read: ReadList): Promise<void> {
    const { directory, logger } = this.#parts;
    if (directory === undefined) return;
    try {
      await putFile(join(directory, FILE), JSON.stringify({ format: FILE_FORMAT, ...read }), `.${randomUUID()}.new`);
    } catch (error) {
      logger?.debug(
        { error: asError(error).message },
        'the list of models cannot be stored; the next start asks again',
      );
    }
  }

  async #restore(): Promise<void> {
    const { list, directory } = this.#parts;
    if (list === undefined || this.#source === undefined) return;
    const own = lastRead.get(list);
    const stored = directory === undefined ? undefined : await this.#readFile(join(directory, FILE));
    const found = [own, stored].filter((each) => each?.source === this.#source);
    // The newer list of the two counts.
    this.#read = found.sort((a, b) => (b?.readAt ?? 0) - (a?.readAt ?? 0))[0];
  }

  async #readFile(path: string): Promise<ReadList | undefined> {
    try {
      const { size } = await stat(path);
      if (size > MODEL_LIST_FILE_BYTES_MAX) throw new Error(`it has ${size} bytes`);
      return fileSchema.parse(JSON.parse(await readFile(path, 'utf8')));
    } catch (error) {
      if (systemCodeOf(error) === 'ENOENT') return undefined;
      this.#parts.logger?.warn(
        { path, error: asError(error).message },
        `the list of models ${path} is broken and ignored`,
      );
      return undefined;
    }
  }
}
