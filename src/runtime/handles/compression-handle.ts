/** Compression of a session's conversation, as functions over its address. */
import { z } from 'zod';
import { describeValue, InvalidArgumentError } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { parseOption } from '../../base/settings.ts';
import type { ChunkInfo, CompressionResult } from '../protocol/protocol.ts';
import type { HistoryAddress } from './history-tasks.ts';

/** How to compress. */
export interface CompressOptions {
  /** Also below the usual bounds: from `idleMinMessages` and `idleMinTokens` of the settings on. Default false. */
  readonly force?: boolean;
}

const compressSchema = z.strictObject({ force: z.boolean().optional() });

/** See `History.compress`. Throws `ConfigError` for a bad option. */
export function compressNow({ link, address }: HistoryAddress, options: CompressOptions): Promise<CompressionResult> {
  const { force = false } = parseOption(compressSchema, 'compress', options);
  return link.call('session.compress', { ...address, force }, false);
}

/** See `History.chunks`. */
export function readChunks({ link, address }: HistoryAddress): Promise<readonly ChunkInfo[]> {
  return link.call('session.chunks', address, true);
}

/** See `History.chunk`. Throws `InvalidArgumentError`. */
export function readChunk(
  { link, address }: HistoryAddress,
  number: number,
): Promise<readonly HistoryMessage[] | undefined> {
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new InvalidArgumentError(
      'invalid_index',
      `a chunk is named by an integer from 1, got ${describeValue(number)}`,
    );
  }
  return link.call('session.chunk', { ...address, number }, true);
}
