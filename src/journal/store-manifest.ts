/**
 * `manifest.json` of a data directory: what must be known before anything in it is opened. Written once, when the directory is
 * made; the shard of a tree depends on the count of shards, so it never changes.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SHARDS_MAX } from '../base/bounds.ts';
import { StoreCorruptError, StoreVersionError } from '../base/errors.ts';
import { isRecord } from '../base/json.ts';
import { putFile } from './durable-file.ts';

/** Version of the data directory's layout; a higher one is not opened. */
export const MANIFEST_FORMAT = 1;

const MANIFEST_FILE = 'manifest.json';
const SHARD_PREFIX = 'shard-';

/** What the manifest says. */
export interface StoreManifest {
  readonly format: number;
  /** Number of shards the directory was made with. */
  readonly shards: number;
}

const manifestSchema = z.object({
  format: z.literal(MANIFEST_FORMAT),
  shards: z.number().int().min(1).max(SHARDS_MAX),
});

/** The directory of one shard, 0-based. */
export function shardDirectory(directory: string, shard: number): string {
  return join(directory, `${SHARD_PREFIX}${shard}`);
}

/**
 * The manifest of a data directory; `undefined` when there is none and no shard either: a new directory. Rejects with
 * `StoreCorruptError` (unreadable, or gone while shards are there) and `StoreVersionError` (newer). Writes nothing.
 */
export async function readManifest(directory: string): Promise<StoreManifest | undefined> {
  const path = join(directory, MANIFEST_FILE);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (!isMissing(error)) throw corrupt(path, 'it cannot be opened', error);
    if (await hasShards(directory)) throw corrupt(path, 'it is gone, and the shards are there', error);
    return undefined;
  }
  const value = parseJson(path, text);
  const format = isRecord(value) ? value['format'] : undefined;
  if (typeof format === 'number' && format > MANIFEST_FORMAT) {
    throw new StoreVersionError(
      `${path} has format ${format}; this version reads up to ${MANIFEST_FORMAT}. Nothing was written`,
      { data: { path, found: format, supported: MANIFEST_FORMAT } },
    );
  }
  const parsed = manifestSchema.safeParse(value);
  if (!parsed.success) throw corrupt(path, 'it does not say what a manifest says', parsed.error);
  return parsed.data;
}

/** Writes the manifest of a new directory, made when missing: to another file first, synced, then moved into place. */
export async function writeManifest(directory: string, shards: number): Promise<StoreManifest> {
  const manifest = manifestSchema.parse({ format: MANIFEST_FORMAT, shards });
  await mkdir(directory, { recursive: true });
  await putFile(join(directory, MANIFEST_FILE), `${JSON.stringify(manifest)}\n`, `.${randomUUID()}.new`);
  return manifest;
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw corrupt(path, 'it is not JSON', error);
  }
}

async function hasShards(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).some((name) => name.startsWith(SHARD_PREFIX));
  } catch (error) {
    if (isMissing(error)) return false;
    throw corrupt(directory, 'it cannot be listed', error);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function corrupt(path: string, reason: string, cause: unknown): StoreCorruptError {
  return new StoreCorruptError(`the manifest ${path} cannot be used: ${reason}; nothing was changed`, {
    cause,
    data: { path, reason },
  });
}
