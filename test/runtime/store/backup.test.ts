/** `runtime.backup` and `restore`: what a backup has, what a repetition costs, and what a crash leaves. */
import { randomBytes } from 'node:crypto';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  agent,
  type BackupReport,
  ConfigError,
  open,
  type Runtime,
  restore,
  StoreCorruptError,
  StoreLockedError,
  tool,
} from '../../../src/index.ts';
import { killSessionThread } from '../../../src/runtime/handles/runtime.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, failure, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const THREADS = { sessions: 2, models: 0, tools: 1 };

/** The directories of a test. */
async function places(): Promise<Readonly<Record<'base' | 'store' | 'backup' | 'restored', string>>> {
  const base = await kit.directory();
  return { base, store: join(base, 'store'), backup: join(base, 'backup'), restored: join(base, 'restored') };
}

async function textsOf(runtime: Runtime, id: string): Promise<readonly string[]> {
  const texts: string[] = [];
  for (const { seq, type, content } of await runtime.session(id).messages()) {
    texts.push(`${seq} ${type} ${JSON.stringify(content)}`);
  }
  return texts;
}

test('a backup of 40 sessions at work has all that was acknowledged before, and a prefix of each tree', async () => {
  const { store, backup, restored } = await places();
  const runtime = await kit.open({ directory: store, provider: echo, threads: THREADS });
  const sessions = Array.from({ length: 40 }, (_, index) => `s${index}`);
  const acknowledged = new Map<string, number>();
  let isOver = false;
  const work = sessions.map(async (id) => {
    for (let round = 1; !isOver; round += 1) {
      await runtime.session(id).ask(`${id} round ${round}`);
      acknowledged.set(id, round);
    }
  });
  await eventually(() => acknowledged.size === sessions.length);
  const before = new Map(acknowledged);
  const report = await runtime.backup(backup);
  const during = new Map(acknowledged);
  isOver = true;
  await Promise.all(work);
  expect(report).toMatchObject({ directory: backup, shards: 2, copiedShards: 2, copiedBytes: report.bytes });
  // Sessions worked on while the backup was made.
  expect(sessions.filter((id) => (during.get(id) ?? 0) > (before.get(id) ?? 0)).length).toBeGreaterThan(0);

  expect(await restore(backup, restored)).toMatchObject({ directory: restored, shards: 2, sessions: 40 });
  const again = await kit.open({ directory: restored, provider: echo, threads: THREADS });
  await again.drain();
  for (const id of sessions) {
    const [whole, found] = [await textsOf(runtime, id), await textsOf(again, id)];
    expect(found, id).toEqual(whole.slice(0, found.length));
    expect(found.length, id).toBeGreaterThanOrEqual(2 * (before.get(id) ?? 0));
  }
  expect(await again.session('s0').ask('one more')).toBe('to one more');
});

test('a repeated backup copies the shard with changes and new results only, and keeps what the store has', async () => {
  const { store, backup, restored } = await places();
  const long = tool({
    name: 'long',
    description: 'A long text',
    input: { type: 'object', properties: {} },
    effect: 'pure',
    run: (_input, { session }) => `${session}\n`.repeat(50_000),
  });
  const provider = scripted({
    rules: [{ when: { result: true }, reply: 'done' }],
    otherwise: { toolUse: { name: 'long' } },
  });
  const agents = [agent({ name: 'a', tools: [long] })];
  const runtime = await kit.open({ directory: store, provider, agents, threads: THREADS });
  for (const id of ['s0', 's1', 's2', 's3']) await runtime.session(id).ask('go');
  await runtime.drain();
  const first = await runtime.backup(backup);
  expect(first).toMatchObject({ shards: 2, copiedShards: 2, results: 4, copiedResults: 4 });
  // A shard may still write a checkpoint for its last turns.
  let repeated = first;
  await eventually(async () => {
    repeated = await runtime.backup(backup);
    return repeated.copiedShards === 0;
  });
  expect(repeated).toMatchObject({ copiedBytes: 0, copiedShards: 0, results: 4, copiedResults: 0 });
  const sessions = ['s0', 's1', 's2', 's3'];
  let second: BackupReport;
  do {
    // On a busy machine a checkpoint of the other shard may come only now. Then another session shows it.
    await eventually(async () => (await runtime.backup(backup)).copiedShards === 0);
    sessions.push(`s${sessions.length}`);
    await runtime.session(sessions.at(-1) ?? '').ask('go');
    second = await runtime.backup(backup);
  } while (second.copiedShards > 1 && sessions.length < 10);
  expect(second).toMatchObject({ copiedShards: 1, results: sessions.length, copiedResults: 1 });
  expect(second.copiedBytes).toBeLessThan(second.bytes / 2);
  expect((await readdir(join(backup, 'shards'))).length).toBe(2);
  const kept = await readdir(join(store, 'results'));
  await runtime.sessions.delete('s1');
  await restore(backup, restored);
  const again = await kit.open({ directory: restored, provider, agents, threads: THREADS });
  expect((await again.sessions.list()).map(({ id }) => id).sort()).toEqual(sessions);
  expect((await readdir(join(restored, 'results'))).sort()).toEqual(kept.sort());
  // The index of the restored store is its own: it finds the session that was deleted after the backup.
  const { found } = await again.search('done', { session: 's1' });
  expect(found.map(({ session }) => session)).toEqual(['s1']);
});

test('a backup continues after the thread of a shard died and was replaced', async () => {
  const { store, backup, restored } = await places();
  const runtime = await kit.open({ directory: store, provider: echo, threads: THREADS });
  await runtime.session('s').ask('hi');
  const first = await runtime.backup(backup);
  await runtime.session('s').ask('and more');
  const [second] = await Promise.all([
    runtime.backup(backup),
    killSessionThread(runtime, 0),
    killSessionThread(runtime, 1),
  ]);
  expect(second.copiedShards).toBeGreaterThan(0);
  expect((await runtime.backup(backup)).bytes).toBeGreaterThanOrEqual(first.bytes);
  expect(await restore(backup, restored)).toMatchObject({ sessions: 1 });
});

test('B5: what cannot be a backup is refused, and nothing is written', async () => {
  const { store, backup, base, restored } = await places();
  const runtime = await kit.open({ directory: store, provider: echo });
  await runtime.session('s').ask('hi');
  const inMemory = await kit.open({ provider: echo });
  expect(await failure(inMemory.backup(backup))).toMatchObject({
    code: 'config',
    message: expect.stringMatching(/in memory/),
  });
  for (const path of [store, join(store, 'backups'), base]) {
    expect(await failure(runtime.backup(path)), path).toMatchObject({
      code: 'config',
      message: expect.stringMatching(/lies in the store/),
    });
  }
  const other = join(base, 'other');
  await mkdir(other);
  await writeFile(join(other, 'notes.txt'), 'mine');
  expect(await failure(runtime.backup(other))).toMatchObject({
    code: 'config',
    message: expect.stringMatching(/notes\.txt/),
  });
  expect(await readdir(other)).toEqual(['notes.txt']);
  expect(await failure(restore(other, restored))).toMatchObject({
    code: 'config',
    message: expect.stringMatching(/no backup/),
  });
  await runtime.backup(backup);
  expect(await failure(restore(backup, other))).toMatchObject({
    code: 'config',
    message: expect.stringMatching(/not empty/),
  });
  expect(await failure(restore(backup, store))).toBeInstanceOf(ConfigError);
  expect(await failure(open(backup, { provider: echo, logger: false }))).toMatchObject({
    code: 'config',
    message: expect.stringMatching(/troupe restore/),
  });
  expect(await readdir(backup)).not.toContain('manifest.json');
});

test('two backups into one directory: the second is refused until the first is complete', async () => {
  const { store, backup } = await places();
  const runtime = await kit.open({ directory: store, provider: echo });
  await runtime.session('s').ask('hi');
  const outcomes = await Promise.allSettled([runtime.backup(backup), runtime.backup(backup)]);
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  expect(refused).toHaveLength(1);
  expect(refused[0]?.reason).toBeInstanceOf(StoreLockedError);
  expect((await runtime.backup(backup)).shards).toBe(1);
});

test('a damaged backup is refused, names the damage, and leaves no store', async () => {
  const { store, backup, base, restored } = await places();
  const runtime = await kit.open({ directory: store, provider: echo });
  for (let round = 0; round < 20; round += 1) {
    await runtime.session('s').ask(randomBytes(3_000).toString('base64'));
  }
  await runtime.backup(backup);
  const [name = ''] = await readdir(join(backup, 'shards'));
  const path = join(backup, 'shards', name);
  const whole = await readFile(path);
  const damages: readonly ((bytes: Buffer) => Buffer)[] = [
    (bytes) => bytes.subarray(0, bytes.length - 4_096),
    (bytes) => {
      // The end of the first page after the middle that is full up to its end.
      let at = Math.floor(bytes.length / 8_192) * 4_096;
      while (bytes.subarray(at + 4_000, at + 4_064).every((byte) => byte === 0)) at += 4_096;
      return bytes.fill(0x5a, at + 4_000, at + 4_064);
    },
  ];
  for (const damage of damages) {
    await writeFile(path, damage(Buffer.from(whole)));
    const refusal = await failure(restore(backup, restored));
    expect(refusal).toBeInstanceOf(StoreCorruptError);
    expect(refusal).toMatchObject({ data: { path: backup, reason: expect.any(String) } });
    expect((await readdir(base)).sort()).toEqual(['backup', 'store']);
  }
  await writeFile(path, whole);
  expect(await restore(backup, restored)).toMatchObject({ sessions: 1 });
});

test('K5: a copy of a live directory is refused as a copy, as long as its process lives', async () => {
  const { store, restored } = await places();
  const runtime = await kit.open({ directory: store, provider: echo });
  await runtime.session('s').ask('hi');
  await cp(store, restored, { recursive: true });
  const refusal = await failure(open(restored, { provider: echo, logger: false }));
  expect(refusal).toBeInstanceOf(StoreLockedError);
  expect(refusal).toMatchObject({
    message: expect.stringMatching(/is a copy of a store that process \d+ has open.*troupe backup/),
  });
  await runtime.close();
});
