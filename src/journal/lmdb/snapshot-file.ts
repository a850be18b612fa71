/**
 * The files of snapshots. Such a file is a compact copy of a shard's store. It is made and read here, and a received
 * file is made the store of a shard.
 *
 * Owns: the folder `snapshot` of a shard, and the directory of a shard that is closed while a file is put there. Does
 * not own: the log that has the snapshots.
 *
 * Invariants:
 *  N1 before a file is read for the log, each entry in it is checked by its seal or checksum. Later the log removes its
 *     own entries that the snapshot covers, so a damaged snapshot could not be repaired;
 *  N2 a received file gets the name of the shard's data file by one rename, once the file is whole;
 *  N3 a file that a crash left in the folder is removed by `discard`, before the shard is opened.
 */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import type { Engine } from '../engine.ts';
import { SliceWatch } from '../live-compaction.ts';
import type { SnapshotFile, SnapshotFiles } from '../replica/snapshots.ts';
import { writeError } from './errors.ts';
import { checkPages } from './file.ts';
import { checkSpace } from './live-copy.ts';
import { DATA_FILE, SNAPSHOT_FOLDER } from './tables.ts';

/** The name of a file that is not whole. */
const UNFINISHED = `${DATA_FILE}.part`;

/** The files of the shard in this directory. */
export function lmdbSnapshotFiles(directory: string): SnapshotFiles {
  const folder = join(directory, SNAPSHOT_FOLDER);
  const discard = (): Promise<void> => rm(folder, { recursive: true, force: true });
  const write = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw await writeError(directory, error);
    }
  };
  return {
    discard,
    take: (engine) => write(() => take(engine, directory, folder)),
    place: (pieces) => write(() => place(pieces, directory)),
  };
}

async function take(engine: Engine, directory: string, folder: string): Promise<SnapshotFile> {
  if (engine.copyTo === undefined) throw new TroupeError('internal', 'N1: a store in memory has no file');
  const path = join(folder, DATA_FILE);
  const slices = new SliceWatch();
  await checkSpace(directory, engine.compaction.use());
  await mkdir(folder, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  await engine.copyTo(folder, undefined);
  const records = await checkPages(path, slices, 'entries');
  const file = await open(path, 'r');
  const { size } = await file.stat();
  return {
    records,
    bytes: size,
    sliceMs: slices.longestMs,
    read: (offset, length) => readPart(file, offset, Math.min(length, size - offset)),
    close: () => file.close(),
  };
}

async function readPart(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const part = Buffer.allocUnsafe(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(part, done, length - done, offset + done);
    if (bytesRead === 0) throw new Error(`the file of the snapshot ends at ${offset + done} bytes`);
    done += bytesRead;
  }
  return part;
}

async function place(pieces: AsyncIterable<Buffer>, directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  const unfinished = join(directory, UNFINISHED);
  const file = await open(unfinished, 'w', PRIVATE_FILE_MODE);
  try {
    for await (const piece of pieces) await file.writeFile(piece);
  } finally {
    await file.close();
  }
  await rename(unfinished, join(directory, DATA_FILE));
}
