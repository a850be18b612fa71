/** Compression of a session's conversation as its embedder holds it. An address, nothing more. */
import { z } from 'zod';
import { InvalidArgumentError } from '../base/errors.ts';
import type { HistoryMessage } from '../base/history-message.ts';
import { parseOption } from '../base/settings.ts';
import type { ChunkInfo, CompressionResult } from './protocol.ts';
import type { ShardLink } from './shard-link.ts';

/** How to compress. */
export interface CompressOptions {
  /** Also below the usual bounds: from `idleMinMessages` and `idleMinTokens` of the settings on. Default false. */
  readonly force?: boolean;
}

const compressSchema = z.strictObject({ force: z.boolean().optional() });

/** See the head of the file. */
export class CompressionHandle {
  readonly #link: ShardLink;
  readonly #address: { readonly session: string; readonly agent?: string };

  constructor(link: ShardLink, address: { readonly session: string; readonly agent?: string }) {
    this.#link = link;
    this.#address = address;
  }

  /**
   * Compresses the conversation now, if it is worth it; resolves when that is over and durable. `reason` of one that was not made:
   * `disabled`, `busy` (the session is not idle), `not_needed`, or why the summary failed; the history is then as it was. Rejects
   * with `ConfigError` (bad option), `StoreFullError`, `CancelledError` (closed, deleted).
   */
  async compress(options: CompressOptions = {}): Promise<CompressionResult> {
    const { force = false } = parseOption(compressSchema, 'compress', options);
    return this.#link.call('session.compress', { ...this.#address, force }, false);
  }

  /** The archived parts of the conversation, oldest first. */
  chunks(): Promise<readonly ChunkInfo[]> {
    return this.#link.call('session.chunks', this.#address, true);
  }

  /**
   * The messages of an archived part, as they were; `undefined` when there is none of this number (from 1). Rejects with
   * `InvalidArgumentError` (`invalid_index`) for what is no such number.
   */
  async chunk(number: number): Promise<readonly HistoryMessage[] | undefined> {
    if (!Number.isSafeInteger(number) || number < 1) {
      throw new InvalidArgumentError('invalid_index', `a chunk is named by an integer from 1, got ${String(number)}`);
    }
    return this.#link.call('session.chunk', { ...this.#address, number }, true);
  }
}
