/**
 * Goal: a log loses its old entries only to a snapshot that replaces them, whatever is killed or fenced on the way, and
 * what was erased leaves it.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, open as openFile, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { LOG_KEPT_ENTRIES, SNAPSHOT_LOG_BYTES_MIN } from '../../../src/base/bounds.ts';
import { StoreCorruptError } from '../../../src/base/errors.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import type { CopyFault } from '../../../src/journal/replica/replicated-engine.ts';
import type { ShardLog, SnapshotStore } from '../../../src/journal/replica/shard-log.ts';
import { MemoryShardLogs } from './memory-shard-log.ts';
import { openReplicaJournal } from './support.ts';

const open: Journal[] = [];
const directories: string[] = [];

afterEach(async () => {
  // A journal that was fenced off refuses its last writes.
  for (const journal of open.splice(0)) await journal.close().catch(() => undefined);
  for (const directory of directories.splice(0)) await rm(directory, { recursive: true, force: true });
});

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-snapshots-'));
  directories.push(directory);
  return join(directory, 'copy');
}

async function openNode(log: ShardLog, directory: string, faults: CopyFault[] = []): Promise<Journal> {
  const journal = await openReplicaJournal({ directory, log, faults });
  open.push(journal);
  return journal;
}

async function write(journal: Journal, name: string, texts: readonly string[]): Promise<void> {
  for (const text of texts) {
    journal.append([{ key: journal.intern(name), data: JSON.stringify(text) }]);
    await journal.flushed();
  }
}

function textsOf(journal: Journal, name: string): readonly unknown[] {
  return [...journal.read(journal.intern(name), 0)].map(({ data }) => JSON.parse(data) as unknown);
}

function snapshotsOf(journal: Journal): NonNullable<Journal['snapshots']> {
  if (journal.snapshots === undefined) throw new Error('the journal has no log');
  return journal.snapshots;
}

/** Deletes a session, with everything that the shard does for that. */
async function deleteSession(journal: Journal, name: string): Promise<void> {
  journal.remove([journal.intern(name)]);
  await journal.flushed();
  while (journal.eraseSome()) await journal.flushed();
  journal.erased(journal.erasable());
  await journal.flushed();
}

/** A log whose snapshots are changed by a test. */
function withSnapshots(log: ShardLog, change: (store: SnapshotStore) => Partial<SnapshotStore>): ShardLog {
  const { snapshots } = log;
  if (snapshots === undefined) throw new Error('the log has no snapshots');
  return { ...log, snapshots: { ...snapshots, ...change(snapshots) } };
}

const isStored = (logs: MemoryShardLogs, text: string): boolean =>
  logs.contents().some((bytes) => {
    if (bytes.includes(text)) return true;
    try {
      return brotliDecompressSync(bytes).includes(text);
    } catch {
      // An entry, which is not compressed as a whole.
      return false;
    }
  });

const TEXTS = Array.from({ length: 40 }, (_, index) => `text ${index}`);

test('SN2: a snapshot is owed once the rows of a deleted session are erased, though a fork needs its results', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  await write(journal, 'parent', ['canary']);
  await write(journal, 'fork', ['kept']);
  journal.remove([journal.intern('parent')], new Map([[journal.intern('parent'), [journal.intern('fork')]]]));
  await journal.flushed();
  while (journal.eraseSome()) await journal.flushed();
  expect(journal.erasable()).toEqual([]);
  expect(snapshotsOf(journal).isOwed).toBe(true);
  await snapshotsOf(journal).run();
  expect(snapshotsOf(journal).isOwed).toBe(false);
  expect(isStored(logs, 'canary')).toBe(false);
});

test('RE7: a node without a copy begins with the snapshot, and continues the chain after it', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  await write(journal, 'one', TEXTS);
  await deleteSession(journal, 'gone');
  await snapshotsOf(journal).run();
  await write(journal, 'one', ['after']);
  const fetched: number[] = [];
  const log = logs.claim();
  const second = await openNode(
    {
      ...log,
      fetch: async (after) => {
        fetched.push(after);
        return log.fetch(after);
      },
    },
    await newDirectory(),
  );
  expect(fetched[0]).toBeGreaterThan(TEXTS.length);
  expect(textsOf(second, 'one')).toEqual([...TEXTS, 'after']);
  await write(second, 'one', ['last']);
  const third = await openNode(logs.claim(), await newDirectory());
  expect(textsOf(third, 'one')).toEqual([...TEXTS, 'after', 'last']);
});

test('RE7: a copy older than the first entry is replaced by the snapshot; one at the snapshot continues with entries', async () => {
  const logs = new MemoryShardLogs();
  const [old, current] = [await newDirectory(), await newDirectory()];
  const first = await openNode(logs.claim(), old);
  await write(first, 'one', TEXTS);
  await first.close();
  const second = await openNode(logs.claim(), current);
  await write(second, 'one', ['more']);
  await deleteSession(second, 'gone');
  await snapshotsOf(second).run();
  await second.close();
  const faults: CopyFault[] = [];
  const third = await openNode(logs.claim(), old, faults);
  expect(faults).toEqual(['behind']);
  expect(textsOf(third, 'one')).toEqual([...TEXTS, 'more']);
  await write(third, 'one', ['again']);
  const fourth = await openNode(logs.claim(), current, faults);
  expect(faults).toEqual(['behind']);
  expect(textsOf(fourth, 'one')).toEqual([...TEXTS, 'more', 'again']);
});

test('SN2: what was deleted leaves the log with the snapshot that is owed then', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  await write(journal, 'kept', ['a kept text']);
  await write(journal, 'gone', ['a canary']);
  await snapshotsOf(journal).run();
  expect(snapshotsOf(journal).isOwed).toBe(false);
  await deleteSession(journal, 'gone');
  expect(snapshotsOf(journal).isOwed).toBe(true);
  expect(isStored(logs, 'canary')).toBe(true);
  await snapshotsOf(journal).run();
  expect(snapshotsOf(journal).isOwed).toBe(false);
  expect(isStored(logs, 'canary')).toBe(false);
  const second = await openNode(logs.claim(), await newDirectory());
  expect(textsOf(second, 'kept')).toEqual(['a kept text']);
  expect(snapshotsOf(second).isOwed).toBe(false);
});

test('SN2: the older part of a log that was removed leaves the log outside too', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  await write(journal, 'one', ['a canary']);
  const key = journal.intern('one');
  const cutAt = journal.end();
  await write(journal, 'one', ['a kept text']);
  expect(journal.starts.cut(key, cutAt, journal.putBlob('"base"', key))).toBe(true);
  await journal.flushed();
  while (journal.eraseSome()) await journal.flushed();
  expect(snapshotsOf(journal).isOwed).toBe(false);
  journal.erased(journal.erasable());
  await journal.flushed();
  expect(journal.compaction.isOwed).toBe(false);
  expect(snapshotsOf(journal).isOwed).toBe(true);
  expect(isStored(logs, 'canary')).toBe(true);
  await snapshotsOf(journal).run();
  expect(isStored(logs, 'canary')).toBe(false);
  const second = await openNode(logs.claim(), await newDirectory());
  expect(textsOf(second, 'one')).toEqual(['a kept text']);
});

test('SN4: a store of several pieces is the same at the next node', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  // Random, so that neither rows nor pieces become small.
  const large = Array.from({ length: 40 }, () =>
    randomBytes(48 * 1024)
      .toString('base64')
      .replace(/[+/]/gu, ' '),
  );
  await write(journal, 'one', large);
  await deleteSession(journal, 'gone');
  await snapshotsOf(journal).run();
  const log = logs.claim();
  expect((await log.snapshots?.history())?.snapshot?.pieces).toBeGreaterThan(1);
  expect(await log.fetch(0)).toEqual([]);
  const second = await openNode(log, await newDirectory());
  expect(textsOf(second, 'one')).toEqual(large);
});

test('SN3: without an erasure the newest entries stay', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  await write(journal, 'one', TEXTS);
  await snapshotsOf(journal).run();
  expect(LOG_KEPT_ENTRIES).toBeGreaterThan(TEXTS.length);
  const log = logs.claim();
  expect((await log.fetch(0)).map(({ number }) => number)).toEqual(TEXTS.map((_, index) => index + 1));
  expect((await log.snapshots?.history())?.snapshot?.number).toBe(TEXTS.length);
});

test('a snapshot is due once the log after the last one is long', async () => {
  const logs = new MemoryShardLogs();
  let bytes = 0;
  const log = withSnapshots(logs.claim(), (store) => ({
    history: async () => ({ ...(await store.history()), bytes }),
  }));
  const journal = await openNode(log, await newDirectory());
  await write(journal, 'one', ['a text']);
  expect(snapshotsOf(journal).isDue?.()).toBe(false);
  bytes = SNAPSHOT_LOG_BYTES_MIN - 1;
  await snapshotsOf(journal).run();
  expect(snapshotsOf(journal).isDue?.()).toBe(false);
  await write(journal, 'one', ['another']);
  expect(snapshotsOf(journal).isDue?.()).toBe(true);
});

test('SN1: a node killed while it writes a snapshot leaves the log as it was; the next one removes what was begun', async () => {
  const logs = new MemoryShardLogs();
  let onPiece: (() => void) | undefined;
  let onClose: ((error: Error) => void) | undefined;
  const reached = new Promise<void>((resolve) => {
    onPiece = resolve;
  });
  const killing = new Promise<void>((_resolve, reject) => {
    onClose = reject;
  });
  const log = withSnapshots(logs.claim(), (store) => ({
    putPiece: async (...piece) => {
      await store.putPiece(...piece);
      onPiece?.();
      return killing;
    },
    close: async () => onClose?.(new Error('killed')),
  }));
  const killed = await openNode(log, await newDirectory());
  await write(killed, 'gone', ['a canary']);
  await write(killed, 'one', TEXTS);
  const taking = snapshotsOf(killed).run();
  await reached;
  const directory = await newDirectory();
  const second = await openNode(logs.claim(), directory);
  expect(logs.loosePieces).toBe(1);
  expect(textsOf(second, 'one')).toEqual(TEXTS);
  await deleteSession(second, 'gone');
  await snapshotsOf(second).run();
  expect(logs.loosePieces).toBe(0);
  expect(isStored(logs, 'canary')).toBe(false);
  expect(await readdir(directory)).not.toContain('snapshot');
  await Promise.all([killed.close(), expect(taking).rejects.toThrow('killed')]);
});

test('SN2: a node killed between a snapshot and the end of the removal leaves it owed, and the next one finishes it', async () => {
  const logs = new MemoryShardLogs();
  let left = 2;
  const log = withSnapshots(logs.claim(), (store) => ({
    trim: async (upTo) => {
      left -= 1;
      if (left < 0) throw new Error('killed');
      return store.trim(upTo);
    },
  }));
  const killed = await openNode(log, await newDirectory());
  await write(killed, 'one', TEXTS);
  await write(killed, 'gone', ['a canary']);
  await deleteSession(killed, 'gone');
  await expect(snapshotsOf(killed).run()).rejects.toThrow('killed');
  const taken: string[] = [];
  const second = await openNode(
    withSnapshots(logs.claim(), (store) => ({
      put: async (snapshot) => {
        taken.push(snapshot.id);
        return store.put(snapshot);
      },
    })),
    await newDirectory(),
  );
  expect(textsOf(second, 'one')).toEqual(TEXTS);
  expect(snapshotsOf(second).isOwed).toBe(true);
  await snapshotsOf(second).run();
  expect(snapshotsOf(second).isOwed).toBe(false);
  expect(taken).toEqual([]);
  expect(isStored(logs, 'canary')).toBe(false);
});

test('N1: a copy with other bytes becomes no snapshot, and is built again from the log', async () => {
  const logs = new MemoryShardLogs();
  const directory = await newDirectory();
  const faults: CopyFault[] = [];
  const journal = await openNode(logs.claim(), directory, faults);
  await write(journal, 'one', ['a needle', ...TEXTS]);
  const path = join(directory, 'data.mdb');
  const bytes = await readFile(path);
  const file = await openFile(path, 'r+');
  let changed = 0;
  // The page may have been written several times.
  for (let at = bytes.indexOf('needle'); at >= 0; at = bytes.indexOf('needle', at + 1)) {
    await file.write(Buffer.from('noodle'), 0, 6, at);
    changed += 1;
  }
  await file.close();
  expect(changed).toBeGreaterThan(0);
  await expect(snapshotsOf(journal).run()).rejects.toThrow(StoreCorruptError);
  journal.append([{ key: journal.intern('one'), data: '"refused"' }]);
  await expect(journal.flushed()).rejects.toMatchObject({ code: 'store_full', data: { reason: 'copy' } });
  await journal.recover();
  expect(faults).toEqual(['damaged']);
  expect(textsOf(journal, 'one')).toEqual(['a needle', ...TEXTS]);
  await snapshotsOf(journal).run();
  const second = await openNode(logs.claim(), await newDirectory());
  expect(textsOf(second, 'one')).toEqual(['a needle', ...TEXTS]);
});

test('SL8: a node fenced while it writes a snapshot writes no more, and removes nothing', async () => {
  const logs = new MemoryShardLogs();
  let taker: ShardLog | undefined;
  const log = withSnapshots(logs.claim(), (store) => ({
    putPiece: async (...piece) => {
      await store.putPiece(...piece);
      taker ??= logs.claim();
    },
  }));
  const fenced = await openNode(log, await newDirectory());
  await write(fenced, 'one', TEXTS);
  await expect(snapshotsOf(fenced).run()).rejects.toMatchObject({ code: 'shard_moved' });
  if (taker === undefined) throw new Error('the shard was not claimed');
  expect((await taker.snapshots?.history())?.first).toBe(1);
  const second = await openNode(taker, await newDirectory());
  expect(textsOf(second, 'one')).toEqual(TEXTS);
});

test('SN4: a snapshot with other bytes is refused, and no copy is left of it', async () => {
  const logs = new MemoryShardLogs();
  const journal = await openNode(logs.claim(), await newDirectory());
  await write(journal, 'one', TEXTS);
  await snapshotsOf(journal).run();
  const log = withSnapshots(logs.claim(), (store) => ({
    piece: async (...place) => {
      const bytes = Buffer.from(await store.piece(...place));
      bytes.writeUInt8((bytes.at(-9) ?? 0) ^ 1, bytes.length - 9);
      return bytes;
    },
  }));
  const directory = await newDirectory();
  await expect(openNode(log, directory)).rejects.toThrow(StoreCorruptError);
  expect(await readdir(directory)).not.toContain('data.mdb');
  const second = await openNode(logs.claim(), directory);
  expect(textsOf(second, 'one')).toEqual(TEXTS);
});
