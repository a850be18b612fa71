import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { defined } from '../../../src/base/defined.ts';
import { foldedSessions } from '../../../src/cli/doctor/sessions.ts';
import { agent, compact, open, restore, StoreKeyError } from '../../../src/index.ts';
import { openSalvage } from '../../../src/journal/check/salvage-store.ts';
import { openJournal } from '../../../src/journal/open-journal.ts';
import { shardDirectory } from '../../../src/journal/store/manifest.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { read_file } from '../../../src/tools/built-in/index.ts';
import { filesWith } from '../../journal/support/plain-bytes.ts';
import { imageBlock, png } from '../../support/images.ts';
import { long } from '../../support/pure-tools.ts';
import { eventually, failure, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const CANARY = 'canary-7f3a-canary';
const KEY = '11'.repeat(32);
const NEW_KEY = '22'.repeat(32);
const KEYS = { encryption: { key: Buffer.from(KEY, 'hex'), previousKeys: [], isRotating: false } };

function options(threads: TestOptions['threads'] = { sessions: 0, models: 0 }): TestOptions {
  return {
    agents: [agent({ name: 'writer', tools: [long, read_file] })],
    threads: { ...threads, tools: 1 },
    encryption: { key: KEY },
    provider: scripted({
      rules: [
        {
          when: { text: CANARY, result: false },
          reply: { text: CANARY, toolUse: { name: 'long', input: { word: CANARY } } },
        },
        { when: { text: CANARY }, reply: `the end of ${CANARY}` },
      ],
      otherwise: 'ok',
    }),
  };
}

/** Fills a store with the canary in every kind of value. */
async function fill(directory: string, threads?: TestOptions['threads']): Promise<readonly unknown[]> {
  const runtime = await kit.open({ directory, ...options(threads) });
  const session = runtime.session('one');
  for (let turn = 0; turn < 3; turn += 1) await session.ask(`Say ${CANARY} ${turn}`);
  await session.ask([{ type: 'text', text: CANARY }, imageBlock(png(20_000, { seed: CANARY }))]);
  await session.goals.create({ description: `reach ${CANARY}` });
  const child = await session.spawn({ task: `A task about ${CANARY}`, name: 'helper' }, { key: CANARY });
  await child.reply();
  await session.history.startTask(`branch ${CANARY}`);
  expect((await runtime.search(CANARY)).found.length).toBeGreaterThan(0);
  const messages = await session.messages();
  await runtime.close();
  return messages;
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('G44: no file of an encrypted store has what was said, and everything reads as before', async () => {
    const directory = await kit.directory();
    const messages = await fill(directory, threads);
    expect(await filesWith(directory, CANARY)).toEqual([]);
    expect((await readdir(join(directory, 'results'))).length).toBeGreaterThan(0);
    const again = await kit.open({ directory, ...options(threads) });
    expect(await again.session('one').messages()).toEqual(messages);
    expect((await again.search(CANARY)).found.length).toBeGreaterThan(0);
    expect(await again.session('one').ask(`Say ${CANARY} again`)).toBe(`the end of ${CANARY}`);
    await again.close();
    expect(await filesWith(directory, CANARY)).toEqual([]);
  });
});

describe('keys', () => {
  test('the same scenario without encryption leaves the canary in the files, so the check can fail', async () => {
    const directory = await kit.directory();
    const { encryption: _encryption, ...plain } = options();
    const runtime = await kit.open({ directory, ...plain });
    await runtime.session('one').ask(`Say ${CANARY}`);
    await runtime.close();
    expect(await filesWith(directory, CANARY)).not.toEqual([]);
  });

  test('G44: a missing key, another key, and a key for a plain store are refused, and nothing is written', async () => {
    const directory = await kit.directory();
    await fill(directory);
    const before = await readFile(join(shardDirectory(directory, 0), 'data.mdb'));
    const { encryption: _encryption, ...plain } = options();
    await expect(open(directory, plain)).rejects.toThrow(/encrypted, and no key was given/);
    const other = { ...plain, encryption: { key: NEW_KEY } };
    await expect(open(directory, other)).rejects.toThrow(/encrypted with another key/);
    expect((await readFile(join(shardDirectory(directory, 0), 'data.mdb'))).equals(before)).toBe(true);
    const unencrypted = await kit.directory();
    await (await kit.open({ directory: unencrypted, ...plain })).close();
    await expect(open(unencrypted, options())).rejects.toBeInstanceOf(StoreKeyError);
    await expect(open(':memory:', options())).rejects.toMatchObject({ code: 'config' });
  });

  test('a key that is none is refused, and the error does not show it', async () => {
    const secret = 'not-a-key-but-secret';
    const refused = open(await kit.directory(), { encryption: { key: secret } });
    await expect(refused).rejects.toThrow(/"encryption\.key": must be a key of 32 bytes.*got a text of length 20/);
  });

  test('G44: a new key takes the place of the earlier one, which then opens nothing', async () => {
    const directory = await kit.directory();
    const messages = await fill(directory);
    const both = { ...options(), encryption: { key: Buffer.from(NEW_KEY, 'hex'), previousKeys: [KEY] } };
    await (await kit.open({ directory, ...both })).close();
    const again = await kit.open({ directory, ...options(), encryption: { key: NEW_KEY } });
    expect(await again.session('one').messages()).toEqual(messages);
    expect((await again.search(CANARY)).found.length).toBeGreaterThan(0);
    await again.close();
    await expect(open(directory, options())).rejects.toMatchObject({ code: 'store_key' });
  });

  test('a rotation that was cut short continues with both keys, and the earlier key alone is refused', async () => {
    const directory = await kit.directory();
    const messages = await fill(directory);
    const manifest = await readFile(join(directory, 'manifest.json'), 'utf8');
    const both = { ...options(), encryption: { key: NEW_KEY, previousKeys: [KEY] } };
    await (await kit.open({ directory, ...both })).close();
    // The store is then as a process leaves it that ends before it names the new key.
    await writeFile(join(directory, 'manifest.json'), manifest);
    const early = await kit.open({ directory, ...options() });
    await expect(early.session('one').messages()).rejects.toMatchObject({ code: 'store_key' });
    await early.close();
    const again = await kit.open({ directory, ...both });
    expect(await again.session('one').messages()).toEqual(messages);
  });

  test('G44: with a deleted session its data key goes, so bytes kept elsewhere cannot be read', async () => {
    const directory = await kit.directory();
    await fill(directory);
    const runtime = await kit.open({ directory, ...options() });
    await runtime.session('other').ask('Hi');
    await runtime.sessions.delete('one');
    await eventually(() => runtime.metrics().sessionsErasing === 0);
    await runtime.close();
    const encryption = { key: Buffer.from(KEY, 'hex'), previousKeys: [], isRotating: false };
    const journal = await openJournal({ directory: shardDirectory(directory, 0), durability: 'flush', encryption });
    const keys = Array.from({ length: 10 }, (_, key) => journal.resultKey?.(key, false) !== undefined);
    const known = journal.keyOf('other') ?? 0;
    await journal.close();
    // Key 0 belongs to no session: it seals the audit log.
    expect(keys.flatMap((isThere, key) => (isThere ? key : []))).toEqual([0, known]);
  });

  test('a fork reads the shortened results that it shares with a deleted session', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, ...options() });
    const session = runtime.session('gone');
    await session.ask(`Say ${CANARY}`);
    await session.fork({ id: 'fork' });
    await runtime.sessions.delete('gone');
    const [name = ''] = await readdir(join(directory, 'results'));
    await runtime.close();
    const path = join(directory, 'results', name);
    const reader = scripted({
      rules: [
        {
          when: { text: 'read it', result: false },
          reply: { toolUse: { name: 'read_file', input: { path, offset: 7_000, limit: 2 } } },
        },
      ],
      otherwise: 'done',
    });
    const again = await kit.open({ directory, ...options(), provider: reader });
    await again.session('fork').ask('read it');
    const said = JSON.stringify(await again.session('fork').messages());
    expect(said).toContain(`${CANARY} 6999\\n${CANARY} 7000`);
  });

  test('G44: a backup is encrypted, and restored without a key; the store is opened with it', async () => {
    const directory = await kit.directory();
    const messages = await fill(directory);
    const runtime = await kit.open({ directory, ...options() });
    const backup = join(await kit.directory(), 'backup');
    const restored = join(await kit.directory(), 'restored');
    await runtime.backup(backup);
    await runtime.close();
    expect(await filesWith(backup, CANARY)).toEqual([]);
    await restore(backup, restored);
    const { encryption: _encryption, ...plain } = options();
    await expect(open(restored, plain)).rejects.toMatchObject({ code: 'store_key' });
    const again = await kit.open({ directory: restored, ...options() });
    expect(await again.session('one').messages()).toEqual(messages);
  });
});

describe('other features', () => {
  test('G44: the draft of an answer is encrypted, and shown after a restart', async () => {
    const directory = await kit.directory();
    const { encryption } = options();
    const provider: ModelProvider = {
      name: 'half',
      generate: (_request, context) =>
        new Promise(() => {
          context.onDelta({ type: 'text', text: CANARY });
        }),
    };
    const runtime = await kit.open({ directory, provider, ...defined({ encryption }) });
    await runtime.session('one').send('Go');
    await eventually(async () => (await runtime.session('one').state()).draft?.text === CANARY);
    await runtime.close({ deadlineMs: 0 });
    const journal = await openJournal({ directory: shardDirectory(directory, 0), durability: 'flush', ...KEYS });
    const stored = journal.drafts.get(journal.keyOf('one') ?? 0);
    await journal.close();
    expect(stored).toContain(CANARY);
    expect(await filesWith(directory, CANARY)).toEqual([]);
    const again = await kit.open({ directory, provider, ...defined({ encryption }) });
    await eventually(async () => (await again.session('one').state()).draft?.lost === 'restart');
    expect((await again.session('one').state()).draft?.text).toBe(CANARY);
    await again.close({ deadlineMs: 0 });
    expect(await filesWith(directory, CANARY)).toEqual([]);
  });

  test('G41, G44: a session whose old history is removed keeps its data key, also over a compaction without the key', async () => {
    const directory = await kit.directory();
    const compression = { messages: 12, keepRecent: 4, idleMinMessages: 5, idleMinTokens: 0 };
    const given = {
      ...options(),
      agents: [agent({ name: 'main', compression })],
      provider: scripted({ rules: [], otherwise: 'ok' }),
    };
    const first = await kit.open({ directory, ...given });
    for (let turn = 0; turn < 15; turn += 1) await first.session('one').ask(`${CANARY} ${turn}`);
    await first.close();
    const second = await kit.open({ directory, ...given, retention: { archivedHistoryMs: 1 } });
    await eventually(async () => (await second.session('one').state()).removed !== undefined);
    await eventually(() => second.metrics().sessionsErasing === 0);
    await second.session('one').ask(`${CANARY} porcupine`);
    const messages = await second.session('one').messages();
    await second.close();
    expect(await filesWith(directory, CANARY)).toEqual([]);
    expect((await compact(directory)).shards).toBe(1);
    const store = await openSalvage(directory, { key: Buffer.from(KEY, 'hex'), previousKeys: [] });
    const folded = [...foldedSessions(store)].map(({ id, damage }) => ({ id, damage }));
    const findings = store.shards.flatMap((shard) => shard.findings);
    store.close();
    expect({ folded, findings }).toEqual({ folded: [{ id: 'one', damage: undefined }], findings: [] });
    const third = await kit.open({ directory, ...given });
    expect(await third.session('one').messages()).toEqual(messages);
    expect((await third.search('porcupine')).found.length).toBeGreaterThan(0);
    await third.sessions.delete('one');
    await eventually(() => third.metrics().sessionsErasing === 0);
  });

  test('another number of session threads is refused, and nothing is written', async () => {
    const directory = await kit.directory();
    const messages = await fill(directory);
    const files = async (): Promise<Buffer> =>
      Buffer.concat([
        await readFile(join(directory, 'manifest.json')),
        await readFile(join(shardDirectory(directory, 0), 'data.mdb')),
      ]);
    const before = await files();
    const refused = open(directory, options({ sessions: 2, models: 0 }));
    await expect(refused).rejects.toMatchObject({
      code: 'config',
      message: expect.stringMatching(/"threads.sessions": 2, but the encrypted store .* made with 1 .* open it with 1/),
    });
    expect((await files()).equals(before)).toBe(true);
    expect(await readdir(directory)).not.toContain('layout');
    const again = await kit.open({ directory, ...options() });
    expect(await again.session('one').messages()).toEqual(messages);
  });

  test.each([
    ['the option', KEY],
    ['previousKeys', { key: NEW_KEY, previousKeys: KEY }],
    ['a key', { key: `${KEY}0` }],
  ])('a key in the wrong place is refused and not shown: %s', async (_place, encryption) => {
    const refused = open(await kit.directory(), { ...options(), encryption: encryption as never });
    const error = (await failure(refused)) as Error & { readonly data?: unknown };
    expect(error).toMatchObject({ code: 'config' });
    expect(JSON.stringify([error.message, error.data, String(error.cause)])).not.toContain(KEY.slice(0, 8));
  });

  test('an interrupted replacement of the key can be turned back, and the other key is not needed then', async () => {
    const directory = await kit.directory();
    const messages = await fill(directory);
    // A crash in the replacement leaves data keys wrapped with the new key, and a manifest that names the old one.
    const manifest = await readFile(join(directory, 'manifest.json'));
    const replaced = await kit.open({ directory, ...options(), encryption: { key: NEW_KEY, previousKeys: [KEY] } });
    await replaced.close();
    await writeFile(join(directory, 'manifest.json'), manifest);
    const back = await kit.open({ directory, ...options(), encryption: { key: KEY, previousKeys: [NEW_KEY] } });
    await back.close();
    const again = await kit.open({ directory, ...options() });
    expect(await again.session('one').messages()).toEqual(messages);
  });
});
