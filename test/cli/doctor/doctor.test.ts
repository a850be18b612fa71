import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { open as openLmdb } from 'lmdb';
import { beforeEach, describe, expect, test } from 'vitest';
import { agent, open } from '../../../src/index.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { acquireStoreLock } from '../../../src/journal/store/lock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { emptyDirectory } from '../support/program.ts';
import { command, type Outcome } from '../support/surroundings.ts';

const FIXTURE = fileURLToPath(new URL('../../fixtures/store-v1', import.meta.url));
const PAGE = 4_096;

let place: string;
let store: string;
let data: string;

beforeEach(async () => {
  place = await emptyDirectory();
  store = join(place, 'store');
  data = join(store, 'shard-0', 'data.mdb');
  await cp(FIXTURE, store, { recursive: true });
  await rm(join(store, 'expected.json'));
});

function doctor(...line: readonly string[]): Promise<Outcome> {
  return command(['doctor', ...line], place);
}

interface Line {
  readonly type: string;
  readonly id?: string;
  readonly session?: string;
  readonly agent?: string;
  readonly cut?: string;
  readonly message?: { readonly seq: number; readonly content: unknown };
}

async function lines(path: string): Promise<readonly Line[]> {
  const text = await readFile(path, 'utf8');
  return text === ''
    ? []
    : text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Line);
}

/** Every file of the store with its bytes and times, so that a test sees any change or addition. */
async function snapshot(): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(store, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    found[relative(store, path)] = `${(await stat(path)).mtimeMs} ${(await readFile(path)).toString('base64')}`;
  }
  return found;
}

/** Overwrites bytes of the data file: at a position, or wherever `what` is found, since free pages hold copies. */
async function damage(what: string | number, by: Buffer): Promise<void> {
  const bytes = await readFile(data);
  if (typeof what === 'number') by.copy(bytes, what);
  else for (let at = bytes.indexOf(what); at >= 0; at = bytes.indexOf(what, at + 1)) by.copy(bytes, at);
  await writeFile(data, bytes);
}

describe('check', () => {
  test('F08: a sound store: no finding, exit code 0, and no byte of it changes', async () => {
    const before = await snapshot();
    expect(await doctor('store')).toEqual({ code: 0, stdout: 'store: whole; 4 sessions checked\n', stderr: '' });
    const { code, stdout } = await doctor('check', store, '--json');
    expect([code, JSON.parse(stdout)]).toEqual([0, { data: store, ok: true, sessions: 4, total: 0, findings: [] }]);
    expect((await doctor('--data', 'store')).code).toBe(0);
    expect(await snapshot()).toEqual(before);
  });

  test('F08: a flipped bit in a message: the report names the row and the session', async () => {
    await damage('Count to three', Buffer.from('Xount'));
    const before = await snapshot();
    const { code, stdout } = await doctor('store');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^shard-0\/data\.mdb, row \d+: checksum of an entry$/m);
    expect(stdout).toMatch(/^shard-0\/data\.mdb, session writer-1:1.*checksum of an entry$/m);
    const json = JSON.parse((await doctor('store', '--json')).stdout) as { readonly findings: readonly object[] };
    expect(json).toMatchObject({ ok: false, sessions: 4 });
    expect(json.findings).toContainEqual(expect.objectContaining({ session: 'writer-1:1', row: expect.any(Number) }));
    expect(await snapshot()).toEqual(before);
  });

  test('F08: a flipped bit in a packed row: row and sessions are named, and the sessions are saved up to it', async () => {
    const journal = await openLmdbJournal({ directory: join(store, 'shard-0'), durability: 'flush' });
    const key = journal.keyOf('writer-1') ?? 0;
    const bad = Buffer.from([...Array(64).keys()]);
    journal.append([{ key, data: JSON.stringify({ pad: 'said again '.repeat(200), noise: bad.toString('base64') }) }]);
    await journal.close();
    const bytes = await readFile(data);
    const environment = openLmdb({ path: join(store, 'shard-0'), readOnly: true });
    const log = environment.openDB<Buffer, number>({ name: 'log', encoding: 'binary' });
    const [last] = log.getRange({ reverse: true, limit: 1 });
    await environment.close();
    if (last === undefined) throw new Error('a row was written');
    expect(last.value[1]).toBe(2);
    const at = bytes.indexOf(last.value);
    bytes.writeUInt8(bytes.readUInt8(at + 80) ^ 1, at + 80);
    await writeFile(data, bytes);
    const { code, stdout } = await doctor('store');
    expect(code).toBe(1);
    expect(stdout).toMatch(new RegExp(`row ${last.key}: (its data|checksum)`, 'm'));
    expect(stdout).toMatch(/session writer-1.*row/);
    const { stdout: saved } = await doctor('salvage', 'store', '--to', 'saved', '--json');
    expect(JSON.parse(saved)).toMatchObject({ sessions: 4, cut: 1 });
  });

  test.each([
    ['a meta page', 0, Buffer.alloc(PAGE)],
    ['a page of a tree', 'names\0', Buffer.from('nbmes')],
    ['an empty file', 'cut', Buffer.alloc(0)],
  ])('F08: %s damaged: told, exit code 1', async (_what, at, by) => {
    if (at === 'cut') await writeFile(data, by);
    else await damage(at, by);
    const { code, stdout, stderr } = await doctor('store');
    expect([code, stderr]).toEqual([1, '']);
    expect(stdout).toMatch(/things? wrong/);
  });

  test('F08: a missing manifest or shard is reported', async () => {
    await rm(join(store, 'manifest.json'));
    expect((await doctor('store')).stdout).toMatch(/^manifest\.json: the manifest is missing although shards exist$/m);
    await writeFile(join(store, 'manifest.json'), '{"format":1,"shards":2}');
    expect((await doctor('store')).stdout).toMatch(/^shard-1: data\.mdb is missing although/m);
  });

  test('F09: a store in use is not touched and its owner is named; stale claims stay', async () => {
    const lock = await acquireStoreLock(store);
    const { code, stdout, stderr } = await doctor('store', '--json');
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { error: { code: 'store_locked' } }]);
    expect(stderr).toContain(`process ${process.pid}`);
    await lock.release();
    const stale = 'owner-1-00000000-0000-0000-0000-000000000000.lock';
    const claim = { pid: 1, startedAt: 'never', boot: 'another', host: 'elsewhere', since: 0 };
    const { hostname } = await import('node:os');
    await writeFile(join(store, stale), JSON.stringify({ ...claim, host: hostname() }));
    expect((await doctor('store')).code).toBe(0);
    expect(await readdir(store)).toContain(stale);
  });

  test('F11: a store of a newer version is refused, and the error names that version', async () => {
    await writeFile(join(store, 'manifest.json'), '{"format":9}');
    const { code, stdout } = await doctor('store', '--json');
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { error: { code: 'store_version' } }]);
  });

  test('a directory that is not a store, and unknown actions, are usage errors', async () => {
    await mkdir(join(place, 'empty'));
    for (const line of [['empty'], ['nowhere'], ['chekc', 'store'], ['store', '--to', 'x'], ['salvage', 'store']]) {
      expect((await doctor(...line)).code, line.join(' ')).toBe(2);
    }
  });
});

describe('salvage', () => {
  test('F08: everything in a sound store is saved: sessions, messages and waiting entries', async () => {
    const before = await snapshot();
    const { code, stdout } = await doctor('salvage', 'store', '--to', 'saved', '--json');
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { sessions: 4, cut: 0, damage: 0 }]);
    const saved = await lines(join(place, 'saved', 'sessions.jsonl'));
    const expected = JSON.parse(await readFile(join(FIXTURE, 'expected.json'), 'utf8')) as Readonly<
      Record<string, { readonly messages: readonly unknown[]; readonly pending: readonly unknown[] }>
    >;
    for (const [id, { messages, pending }] of Object.entries(expected)) {
      const of = saved.filter(({ session }) => session === id);
      // The build that made the store named no keys of messages.
      expect(of.flatMap(({ message }) => (message === undefined ? [] : [message]))).toMatchObject(messages);
      expect(of.filter(({ type }) => type === 'pending')).toEqual(
        pending.map((entry) => ({ type: 'pending', session: id, pending: entry })),
      );
    }
    expect(await readFile(join(place, 'saved', 'damage.jsonl'), 'utf8')).toBe('');
    for (const name of ['sessions.jsonl', 'audit.jsonl', 'damage.jsonl']) {
      if (process.platform !== 'win32') expect((await stat(join(place, 'saved', name))).mode & 0o077, name).toBe(0);
    }
    expect(await snapshot()).toEqual(before);
  });

  test('F08: a damaged session is saved up to its first damage, the others whole; exit code 1', async () => {
    await damage('The sum is told', Buffer.from('?'));
    const { code, stdout } = await doctor('salvage', 'store', '--to', 'saved');
    expect(code).toBe(1);
    expect(stdout).toContain('1 session saved in part');
    const saved = await lines(join(place, 'saved', 'sessions.jsonl'));
    const session = saved.find(({ id }) => id === 'writer-1');
    expect(session).toMatchObject({ agent: 'writer', cut: expect.stringContaining('checksum') });
    const contents = saved.filter(({ session: of }) => of === 'writer-1').map(({ message }) => message?.content);
    expect(contents[0]).toBe('Add 2 and 3');
    expect(contents.join()).not.toContain('plus drei');
    expect(saved.filter(({ type, cut }) => type === 'session' && cut === undefined)).toHaveLength(3);
    expect((await lines(join(place, 'saved', 'damage.jsonl'))).map(({ session: of }) => of)).toContain('writer-1');
  });

  test('F08: the audit log is saved, but for a damaged entry, also where its pages must be searched', async () => {
    const directory = join(place, 'audited');
    const runtime = await open(directory, {
      provider: scripted({ rules: [], otherwise: 'Done.' }),
      threads: { sessions: 0, models: 0, tools: 1 },
      logger: false,
    });
    for (const id of ['first', 'second', 'third']) {
      await runtime.session(id).ask('Begin');
      await runtime.sessions.delete(id, { by: `author of ${id}` });
    }
    const { items } = await runtime.audit();
    await runtime.close();
    const whole = await doctor('salvage', 'audited', '--to', 'saved');
    expect(whole.stdout).toContain('3 entries of the audit log');
    expect(await lines(join(place, 'saved', 'audit.jsonl'))).toEqual(items);

    data = join(directory, 'shard-0', 'data.mdb');
    await damage('author of second', Buffer.from('author of SECOND'));
    await damage(0, Buffer.alloc(2 * PAGE));
    const { code, stdout } = await doctor('salvage', 'audited', '--to', 'searched', '--json');
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { audit: 2 }]);
    const left = items.filter(({ session }) => session !== 'second');
    expect(await lines(join(place, 'searched', 'audit.jsonl'))).toEqual(left);
  });

  test.each([
    ['both meta pages', 0, 2],
    ['the whole upper half of the file', 11, 10],
  ])('F08: with %s zeroed, the content of the other pages is saved', async (_what, page, count) => {
    await damage(page * PAGE, Buffer.alloc(count * PAGE));
    const { code, stdout } = await doctor('salvage', 'store', '--to', 'saved', '--json');
    expect(code).toBe(1);
    const { sessions, damage: found } = JSON.parse(stdout) as { readonly sessions: number; readonly damage: number };
    expect(found).toBeGreaterThan(0);
    if (page === 0) {
      expect(sessions).toBe(4);
      const texts = JSON.stringify(await lines(join(place, 'saved', 'sessions.jsonl')));
      for (const text of ['zwei plus drei', 'Count to three', 'waits too']) expect(texts).toContain(text);
    }
  });

  test('writes neither into the store nor over existing files', async () => {
    const before = await snapshot();
    for (const to of ['store', 'store/saved', place]) {
      expect((await doctor('salvage', 'store', '--to', to)).code, to).toBe(2);
    }
    expect(await snapshot()).toEqual(before);
  });
});

describe('stats', () => {
  test('counts the contents of the store', async () => {
    const { code, stdout } = await doctor('stats', 'store', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      sessions: 4,
      messages: 14,
      waiting: 3,
      waitingSessions: 2,
      longestMailbox: 2,
      bytes: (await stat(data)).size,
      freePages: expect.any(Number),
      agents: [{ agent: 'writer', sessions: 4, inTurn: 1 }],
      biggest: [{ id: 'writer-1', messages: 9 }, { id: 'writer-1:1' }, { id: 'paused' }, { id: 'stuck', messages: 1 }],
    });
    const text = (await doctor('stats', 'store')).stdout;
    expect(text).toContain('3 entries in 2 sessions, 2 at most');
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(82);
  });

  test('counts the sessions by agent and version, as the list names them', async () => {
    const provider = scripted({ rules: [], otherwise: 'Done.' });
    for (const [version, ids] of [
      ['1', ['a', 'b', 'c']],
      ['2', ['a']],
    ] as const) {
      const runtime = await open(join(place, 'versions'), { agents: [agent({ name: 'writer', version })], provider });
      for (const id of ids) await runtime.session(id).ask('Go');
      await runtime.close();
    }
    const { agents } = JSON.parse((await doctor('stats', 'versions', '--json')).stdout) as { readonly agents: unknown };
    expect(agents).toEqual([
      { agent: 'writer', version: '1', sessions: 2, inTurn: 0 },
      { agent: 'writer', version: '2', sessions: 1, inTurn: 0 },
    ]);
    expect((await doctor('stats', 'versions')).stdout).toMatch(/^writer@1 +2 +0$/mu);
    expect((await command(['ls', '--data', 'versions'], place)).stdout).toMatch(/^a +writer@2 /mu);
    expect((await command(['inspect', 'a', '--data', 'versions'], place)).stdout).toMatch(/^agent +writer@2$/mu);
  });
});

test('F79: a malicious file is only data: excessive lengths, cycles, code and prototypes in texts do nothing', async () => {
  const whole = await readFile(data);
  for (let page = 2; page < whole.length / PAGE; page += 1) {
    // Each page in turn points at itself, claims a value of 4 GB, and an entry outside of it.
    const bytes = Buffer.from(whole);
    const at = page * PAGE;
    bytes.writeUInt16LE(1, at + 18);
    bytes.writeUInt32LE(0xffff_ffff, at + 24 + bytes.readUInt16LE(at + 24));
    await writeFile(data, bytes);
    expect([0, 1]).toContain((await doctor('store')).code);
    bytes.writeUInt16LE(2, at + 18);
    bytes.writeUInt16LE(0xfff0, at + 24);
    await writeFile(data, bytes);
    expect([0, 1]).toContain((await doctor('store')).code);
  }
  expect(Reflect.get({}, 'polluted')).toBeUndefined();
});
