/**
 * `backup.json` of a backup directory: the record of the backup. It has the names of the copies of the shards, and of
 * the folder of the cursors. It is replaced whole, so a new backup takes the place of the former one in one step.
 */

import { randomUUID } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { BACKUP_RECORD_BYTES_MAX, SHARDS_MAX } from '../../base/bounds.ts';
import { StoreCorruptError, StoreVersionError, systemCodeOf } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { putFile } from './durable-file.ts';
import { type EncryptionRecord, encryptionSchema } from './store-key.ts';

/** Version of the layout of a backup; a higher version is not read. */
const BACKUP_FORMAT = 2;
/** The version of a backup of a store that is not encrypted. Earlier versions of the library can read such a backup. */
const PLAIN_FORMAT = 1;
const RECORD_FILE = 'backup.json';

/** The directories of a backup. */
export const BACKUP_FOLDERS = { shards: 'shards', results: 'results', cursors: 'webhooks' } as const;

/** A name in a directory of the backup, never a path that leads out of it. */
const fileName = z.string().regex(/^[\w-][\w.-]{0,127}$/);

/** A shard in a backup. */
export interface BackedUpShard {
  readonly file: string;
  /** The mark of the copy; see `Journal.copyTo`. */
  readonly mark: string;
  /** The size of the file. */
  readonly bytes: number;
}

/** The contents of `backup.json`. */
export interface BackupRecord {
  readonly format: number;
  /** Epoch ms at which the backup began: everything acknowledged before that time is in the backup. */
  readonly startedAt: number;
  readonly shards: readonly BackedUpShard[];
  /** The folder of the cursors of webhooks; missing: there are none. */
  readonly cursors?: string | undefined;
  /** The encryption of the store, from its manifest; missing: it is not encrypted. */
  readonly encryption?: EncryptionRecord | undefined;
}

const recordSchema: z.ZodType<BackupRecord> = z.strictObject({
  format: z.union([z.literal(PLAIN_FORMAT), z.literal(BACKUP_FORMAT)]),
  startedAt: z.number(),
  shards: z
    .array(z.strictObject({ file: fileName, mark: z.string(), bytes: z.number().int().positive() }))
    .min(1)
    .max(SHARDS_MAX),
  cursors: fileName.optional(),
  encryption: encryptionSchema.optional(),
});

/** A record, of the oldest format that can hold its contents. */
export function backupRecord(contents: Omit<BackupRecord, 'format'>): BackupRecord {
  return { format: contents.encryption === undefined ? PLAIN_FORMAT : BACKUP_FORMAT, ...contents };
}

/**
 * The record of a backup; undefined for a directory without one. Rejects with `StoreCorruptError` for a record that
 * cannot be read, and `StoreVersionError` for a newer one.
 */
export async function readBackupRecord(directory: string): Promise<BackupRecord | undefined> {
  const path = join(directory, RECORD_FILE);
  let value: unknown;
  try {
    if ((await stat(path)).size > BACKUP_RECORD_BYTES_MAX) throw new Error('it is too long');
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw corruptBackup(directory, `${RECORD_FILE} cannot be read`, error);
  }
  const format = isRecord(value) ? value['format'] : undefined;
  if (typeof format === 'number' && format > BACKUP_FORMAT) {
    throw new StoreVersionError(`${path} has format ${format}; this version reads up to ${BACKUP_FORMAT}`, {
      data: { path, found: format, supported: BACKUP_FORMAT },
    });
  }
  const parsed = recordSchema.safeParse(value);
  if (!parsed.success) {
    throw corruptBackup(directory, `${RECORD_FILE} does not have the form of a record`, parsed.error);
  }
  return parsed.data;
}

/** Makes a record the present one. Resolves when it is durable. */
export function writeBackupRecord(directory: string, record: BackupRecord): Promise<void> {
  return putFile(join(directory, RECORD_FILE), `${JSON.stringify(record)}\n`, `.${randomUUID()}.new`);
}

/** The error for a backup that cannot be used. */
export function corruptBackup(directory: string, reason: string, cause?: unknown): StoreCorruptError {
  return new StoreCorruptError(`the backup ${directory} cannot be used: ${reason}`, {
    cause,
    data: { path: directory, reason },
  });
}
