/**
 * Changes the number of shards of a store that no runtime has open. The caller holds the directory's lock.
 *
 * Owns: the folder `layout` of the data directory. While the new files are put in place, it also owns the shards, the
 * cursors of webhooks and the search index. Does not own: the copy of the sessions, which `move-sessions.ts` makes,
 * and the results of tools, which stay in place.
 *
 * Invariants:
 *  Z1 the new shards are made in `layout`, beside the old ones. The contents of the old shards do not change, except
 *     for the fence and the format. If a crash or an error comes before the manifest has the new number, the store
 *     stays as it was. The next open removes the folder;
 *  Z2 the manifest gets the new number, with `MOVING_FORMAT`, only when every new file and its name are on the device.
 *     From that step on, the new shards are the store;
 *  Z3 after that step each new shard replaces the old shard of the same number. A shard that is in place is not in
 *     `layout` any more. So after a crash at any moment, the next open can finish the change;
 *  Z4 the search index is removed with the old shards, because it contains their row numbers and keys. The first
 *     search builds it again.
 */
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LAYOUT_REPORT_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import type { Engine } from '../engine.ts';
import { openError } from '../lmdb/errors.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import { CURSOR_FILE, namesIn } from '../store/backup.ts';
import { putFile, syncDirectory } from '../store/durable-file.ts';
import {
  MANIFEST_FORMAT,
  MOVING_FORMAT,
  replaceManifest,
  type StoreManifest,
  shardDirectory,
  shardNumbers,
} from '../store/manifest.ts';
import { type MovedSessions, type MoveParts, moveSessions } from './move-sessions.ts';

const LAYOUT_FOLDER = 'layout';
const SEARCH_FOLDER = 'search';
const CURSORS_FOLDER = 'webhooks';

/** A change of the number of shards. */
export interface LayoutChange {
  readonly directory: string;
  readonly from: number;
  readonly to: number;
  readonly reading: MoveParts['reading'];
  /** The text of a webhook's cursor in the new layout. */
  readonly moveCursor: (text: string, moved: MovedSessions) => string;
  /** Called with the bytes copied so far, at most once in `LAYOUT_REPORT_MS`. */
  readonly report?: (bytes: number) => void;
}

/** The result of a change. */
export interface LayoutReport {
  readonly sessions: number;
  readonly bytes: number;
  readonly ms: number;
}

/**
 * Moves the sessions of a store to another number of shards. Rejects with `StoreCorruptError` when a shard cannot be
 * read, and otherwise with the errors of `openError`. After a rejection the store is as it was, unless its manifest has
 * `MOVING_FORMAT`. In that case the next open continues.
 */
export async function changeLayout(change: LayoutChange): Promise<LayoutReport> {
  const { directory, to } = change;
  const startedAt = performance.now();
  const made = join(directory, LAYOUT_FOLDER);
  let moved: MovedSessions;
  try {
    await mkdir(made, { mode: PRIVATE_DIRECTORY_MODE });
    moved = await moveInto(made, change);
    await moveCursors(made, change, moved);
    await syncDirectory(made);
    await syncDirectory(directory);
  } catch (error) {
    await rm(made, { recursive: true, force: true });
    throw await openError(directory, made, error);
  }
  try {
    await replaceManifest(directory, { format: MOVING_FORMAT, shards: to });
    await finishLayout(directory, to);
  } catch (error) {
    throw await openError(directory, made, error);
  }
  return { sessions: moved.sessions, bytes: moved.bytes, ms: performance.now() - startedAt };
}

/**
 * Undoes or finishes an interrupted change: removes the unfinished new shards, or puts the finished ones in place.
 * Resolves to the manifest. Rejects with the error of the system.
 */
export async function settleLayout(directory: string, manifest: StoreManifest): Promise<StoreManifest> {
  if (manifest.format !== MOVING_FORMAT) {
    await rm(join(directory, LAYOUT_FOLDER), { recursive: true, force: true });
    return manifest;
  }
  await finishLayout(directory, manifest.shards);
  return { ...manifest, format: MANIFEST_FORMAT };
}

/** Puts the new shards in place (Z3), and removes the search index (Z4). */
async function finishLayout(directory: string, shards: number): Promise<void> {
  const made = join(directory, LAYOUT_FOLDER);
  const waiting = await namesIn(made);
  await rm(join(directory, SEARCH_FOLDER), { recursive: true, force: true });
  for (const shard of await shardNumbers(directory)) {
    if (shard >= shards) await rm(shardDirectory(directory, shard), { recursive: true, force: true });
  }
  for (const name of waiting) {
    await rm(join(directory, name), { recursive: true, force: true });
    await rename(join(made, name), join(directory, name));
  }
  await syncDirectory(made);
  await syncDirectory(directory);
  await replaceManifest(directory, { format: MANIFEST_FORMAT, shards });
  await rm(made, { recursive: true, force: true });
}

async function moveInto(made: string, change: LayoutChange): Promise<MovedSessions> {
  const { directory, from, to, reading } = change;
  // Imported only on use: the host thread needs the database for nothing else.
  const { openLmdbEngine } = await import('../lmdb/engine.ts');
  const engines: Engine[] = [];
  try {
    const olds: Engine[] = [];
    const news: Engine[] = [];
    for (let shard = 0; shard < from; shard += 1) {
      // Opening takes the fence, so a former owner that still runs cannot write to the shard during the copy.
      const engine = await openLmdbEngine({ directory: shardDirectory(directory, shard), durability: 'flush' });
      olds.push(engine);
      engines.push(engine);
    }
    for (let shard = 0; shard < to; shard += 1) {
      // The new shards are synced as a whole afterwards (Z2), so single commits need not wait for the device.
      const engine = await openLmdbEngine({ directory: shardDirectory(made, shard), durability: 'os' });
      news.push(engine);
      engines.push(engine);
    }
    const progress = reporter(change.report);
    const moved = await moveSessions({ from: olds, to: news, reading, ...defined({ progress }) });
    for (const engine of engines.splice(0)) await engine.close();
    for (let shard = 0; shard < to; shard += 1) await syncShard(shardDirectory(made, shard));
    return moved;
  } finally {
    for (const engine of engines) await engine.close();
  }
}

/** Enforces Z2 for one shard. */
async function syncShard(directory: string): Promise<void> {
  const file = await open(join(directory, DATA_FILE), 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
  await syncDirectory(directory);
}

/** Writes the cursors of webhooks for the new layout beside the new shards. */
async function moveCursors(made: string, { directory, moveCursor }: LayoutChange, moved: MovedSessions): Promise<void> {
  const from = join(directory, CURSORS_FOLDER);
  const names = (await namesIn(from)).filter((name) => CURSOR_FILE.test(name));
  if (names.length === 0) return;
  const to = join(made, CURSORS_FOLDER);
  await mkdir(to, { mode: PRIVATE_DIRECTORY_MODE });
  for (const name of names) {
    const text = await readFile(join(from, name), 'utf8');
    await putFile(join(to, name), moveCursor(text, moved), '.new');
  }
}

function reporter(report: LayoutChange['report']): MoveParts['progress'] {
  if (report === undefined) return undefined;
  let last = performance.now();
  return (bytes) => {
    const now = performance.now();
    if (now - last < LAYOUT_REPORT_MS) return;
    last = now;
    report(bytes);
  };
}
