/**
 * `manifest.json` of a data directory: the facts needed before a shard of the directory is opened. It is written when
 * the directory is made, and when the master key of an encrypted store is replaced. It is also written when the
 * sessions move to another number of shards (`layout/change-layout.ts`), because this number determines the shard of
 * each tree.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SHARDS_MAX } from '../../base/bounds.ts';
import { ConfigError, StoreCorruptError, StoreVersionError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { CORRUPT_HINT } from '../lmdb/errors.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import { isThere, putFile, syncDirectory } from './durable-file.ts';
import { type EncryptionRecord, encryptionSchema } from './store-key.ts';

/** Version of a data directory whose shards are in place. */
export const MANIFEST_FORMAT = 1;
/**
 * Version of a data directory whose new shards are complete, but not in place yet. An older version of this package
 * cannot put them in place, and refuses the directory.
 */
export const MOVING_FORMAT = 2;
/** The highest version that is opened. */
const FORMAT_MAX = MOVING_FORMAT;

const MANIFEST_FILE = 'manifest.json';
/** The file that stands in for the manifest until the store is created; see `store/birth.ts`. */
const BEGUN_FILE = 'creating.json';
const MANIFEST_BYTES_MAX = 4_096;
const SHARD_PREFIX = 'shard-';

/** The contents of the manifest. */
export interface StoreManifest {
  /** `MOVING_FORMAT`: the shards must be put in place before any of them is opened. */
  readonly format: typeof MANIFEST_FORMAT | typeof MOVING_FORMAT;
  readonly shards: number;
  /** Missing: the store is not encrypted. */
  readonly encryption?: EncryptionRecord | undefined;
  /** The cluster whose log the shards are copies of; missing: the store belongs to this directory alone. */
  readonly cluster?: ClusterRecord | undefined;
}

/** The part of a manifest about the cluster of its directory. */
export interface ClusterRecord {
  readonly id: string;
}

const manifestSchema = z.object({
  format: z.union([z.literal(MANIFEST_FORMAT), z.literal(MOVING_FORMAT)]),
  shards: z.number().int().min(1).max(SHARDS_MAX),
  encryption: encryptionSchema.optional(),
  cluster: z.object({ id: z.string() }).optional(),
});

/** The directory of one shard, 0-based. */
export function shardDirectory(directory: string, shard: number): string {
  return join(directory, `${SHARD_PREFIX}${shard}`);
}

/**
 * The manifest of a data directory. `undefined` for a new directory: there is neither a manifest nor a shard, or the
 * creation of the store has not ended. If the manifest has `MOVING_FORMAT`, the shards are not checked. Rejects with
 * `StoreCorruptError` (the manifest is unreadable, or does not match the shards that exist) and `StoreVersionError`
 * (newer). Writes nothing.
 */
export async function readManifest(directory: string): Promise<StoreManifest | undefined> {
  const path = join(directory, MANIFEST_FILE);
  const manifest = await readFileOf(path);
  const found = await shardNumbers(directory);
  if (manifest === undefined) {
    if (found.length > 0 && (await readBegunManifest(directory)) === undefined) {
      throw corrupt(path, 'the manifest is missing although shards exist');
    }
    return undefined;
  }
  // A copy that is missing is built again from the log of its cluster.
  if (manifest.format === MOVING_FORMAT || manifest.cluster !== undefined) return manifest;
  for (let shard = 0; shard < manifest.shards; shard += 1) {
    if (!(await isThere(join(shardDirectory(directory, shard), DATA_FILE)))) {
      throw corrupt(
        shardDirectory(directory, shard),
        `${DATA_FILE} is missing although ${MANIFEST_FILE} names this shard`,
      );
    }
  }
  const extra = found.find((shard) => shard >= manifest.shards);
  if (extra !== undefined)
    throw corrupt(path, `the manifest names ${manifest.shards} shards, but ${SHARD_PREFIX}${extra} exists`);
  return manifest;
}

/**
 * The manifest of a store whose shards are in place. Rejects like `readManifest`. Rejects with `ConfigError` if the
 * manifest has `MOVING_FORMAT`: a runtime must first open the store and finish the change.
 */
export async function readSettledManifest(directory: string): Promise<StoreManifest | undefined> {
  const manifest = await readManifest(directory);
  if (manifest?.format !== MOVING_FORMAT) return manifest;
  throw new ConfigError(
    `the number of session threads of ${directory} was being changed when its process ended: open the store with ` +
      'a runtime once, which finishes the change',
    { data: { path: directory } },
  );
}

/**
 * The manifest that a store will have once its creation ends; `undefined` if no creation is under way. Rejects like
 * `readManifest`.
 */
export function readBegunManifest(directory: string): Promise<StoreManifest | undefined> {
  return readFileOf(join(directory, BEGUN_FILE));
}

/**
 * Records that a store of so many shards is being made. An earlier creation that did not end keeps its number of
 * shards.
 */
export async function beginManifest(directory: string, shards: number): Promise<StoreManifest> {
  const manifest = manifestSchema.parse({ format: MANIFEST_FORMAT, shards });
  const begun = await readBegunManifest(directory);
  if (begun === undefined) await put(join(directory, BEGUN_FILE), manifest);
  return begun ?? manifest;
}

/**
 * Writes the manifest of a directory whose shards exist; the directory is made when missing. From then on a missing
 * shard counts as damage.
 */
export async function writeManifest(
  directory: string,
  shards: number,
  encryption?: EncryptionRecord,
  cluster?: ClusterRecord,
): Promise<StoreManifest> {
  const path = join(directory, MANIFEST_FILE);
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  // After a crash in the creation the manifest may exist already. Its facts count, not the arguments of this call.
  const known = await readFileOf(path);
  const manifest = known ?? manifestSchema.parse({ format: MANIFEST_FORMAT, shards, encryption, cluster });
  if (known === undefined) await put(path, manifest);
  await rm(join(directory, BEGUN_FILE), { force: true });
  await syncDirectory(directory);
  return manifest;
}

/** Replaces facts of a store's manifest, durably and in one step. The other facts stay. */
export async function replaceManifest(directory: string, facts: Partial<StoreManifest>): Promise<StoreManifest> {
  const known = await readManifest(directory);
  const manifest = manifestSchema.parse({ ...known, ...facts });
  await put(join(directory, MANIFEST_FILE), manifest);
  return manifest;
}

function put(path: string, manifest: StoreManifest): Promise<void> {
  return putFile(path, `${JSON.stringify(manifest)}\n`, `.${randomUUID()}.new`);
}

async function readFileOf(path: string): Promise<StoreManifest | undefined> {
  let text: string;
  try {
    // No manifest is this long. A malicious file must not fill the memory.
    if ((await stat(path)).size > MANIFEST_BYTES_MAX) throw new Error('it is too long');
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw corrupt(path, 'it cannot be opened', error);
  }
  const value = parseJson(path, text);
  const format = isRecord(value) ? value['format'] : undefined;
  if (typeof format === 'number' && format > FORMAT_MAX) {
    throw new StoreVersionError(
      `${path} has format ${format}; this version reads up to ${FORMAT_MAX}. Nothing was written`,
      { data: { path, found: format, supported: FORMAT_MAX } },
    );
  }
  const parsed = manifestSchema.safeParse(value);
  if (!parsed.success) throw corrupt(path, 'the manifest does not have the form of a manifest', parsed.error);
  return parsed.data;
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw corrupt(path, 'it is not JSON', error);
  }
}

/** The numbers of the shards whose directories exist. */
export async function shardNumbers(directory: string): Promise<readonly number[]> {
  let names: readonly string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw corrupt(directory, 'it cannot be listed', error);
  }
  return names.flatMap((name) => (name.startsWith(SHARD_PREFIX) ? [Number(name.slice(SHARD_PREFIX.length))] : []));
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function corrupt(path: string, reason: string, cause?: unknown): StoreCorruptError {
  return new StoreCorruptError(`the store ${path} cannot be used: ${reason}; nothing was changed. ${CORRUPT_HINT}`, {
    cause,
    data: { path, reason, hint: CORRUPT_HINT },
  });
}
