/** A backup of a store that is erasing deleted sessions: the restored store erases what is left. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ERASE_PAUSE_MS } from '../../../src/base/bounds.ts';
import { agent, type Runtime, restore } from '../../../src/index.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { long } from '../../support/pure-tools.ts';
import { eventually, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { countInFiles, isAudited, storedTexts } from '../../support/stored-texts.ts';

const kit = runtimeKit();
/** A word that stands in everything that the deleted session stores. */
const CANARY = 'canary-91d2';
const options: TestOptions = {
  agents: [agent({ name: 'writer', tools: [long] })],
  provider: scripted({
    rules: [
      { when: { text: 'short' }, reply: `noted ${CANARY}` },
      { when: { text: CANARY, result: false }, reply: { toolUse: { name: 'long', input: { word: CANARY } } } },
    ],
    otherwise: 'ok',
  }),
};

async function foundIn(store: string): Promise<readonly string[]> {
  const texts = (await storedTexts(store)).filter((each) => !isAudited(each));
  return texts.filter(({ text }) => text.includes(CANARY)).map(({ at }) => at);
}

async function erased(runtime: Runtime, left = 0): Promise<void> {
  await eventually(() => runtime.metrics().sessionsErasing === left);
}

/** A store with a session that has the canary in its rows, blobs, media and results, and one without. */
async function filled(store: string, given: TestOptions = {}): Promise<Runtime> {
  const runtime = await kit.open({ directory: store, ...options, ...given });
  await runtime.session('kept').ask('Hi');
  const gone = runtime.session(`gone-${CANARY}`);
  await gone.ask(`Say ${CANARY}`);
  await gone.ask([{ type: 'text', text: CANARY }, imageBlock(png(20_000, { seed: CANARY }))]);
  for (let turn = 0; turn < 8; turn += 1) await gone.ask(`short ${turn}`);
  return runtime;
}

test('a backup before, in the middle of and after an erasure restores a store that erases the rest', async () => {
  const base = await kit.directory();
  const [store, backup] = [join(base, 'store'), join(base, 'backup')];
  // The slices of an erasure wait for this clock.
  const clock = manualClock();
  const runtime = await filled(store, { clock });
  const messages = await runtime.session('kept').messages();
  await runtime.sessions.delete(`gone-${CANARY}`);
  const left: number[] = [];
  for (let slice = 0; runtime.metrics().sessionsErasing > 0; slice += 1) {
    const restored = join(base, `restored-${slice}`);
    await runtime.backup(backup);
    expect(await restore(backup, restored), `slice ${slice}`).toMatchObject({
      sessions: 1,
      results: (await readdir(join(store, 'results'))).length,
    });
    left.push((await foundIn(restored)).length);
    const again = await kit.open({ directory: restored, ...options });
    await erased(again);
    expect(await again.session('kept').messages()).toEqual(messages);
    expect(await again.session('kept').ask('Hi again')).toBe('ok');
    await again.close();
    expect(await foundIn(restored), `slice ${slice}`).toEqual([]);
    await clock.advance(ERASE_PAUSE_MS);
  }
  // Rows were erased in several slices, and a backup was made between them.
  expect(left[0]).toBeGreaterThan(left[1] ?? Number.POSITIVE_INFINITY);
  expect(left[1]).toBeGreaterThan(0);
  await runtime.backup(backup);
  for (const entry of await readdir(backup, { recursive: true, withFileTypes: true })) {
    expect(entry.name).not.toContain('tool_result');
    const isOther = entry.isFile() && !entry.name.endsWith('.mdb');
    if (isOther) expect((await readFile(join(entry.parentPath, entry.name))).includes(CANARY)).toBe(false);
  }
  expect(await restore(backup, join(base, 'last'))).toMatchObject({ sessions: 1, results: 0 });
  expect(await foundIn(join(base, 'last'))).toEqual([]);
  // The only byte of it is in the audit log.
  expect((await countInFiles(join(base, 'last'), new RegExp(CANARY, 'g'))).get(CANARY)).toBe(0);
});

test('a backup keeps what a fork shares with a deleted session, until the fork is deleted from the restored store', async () => {
  const base = await kit.directory();
  const [store, backup, restored] = [join(base, 'store'), join(base, 'backup'), join(base, 'restored')];
  const runtime = await filled(store);
  const fork = await runtime.session(`gone-${CANARY}`).fork({ id: 'fork' });
  const messages = await fork.messages();
  await runtime.sessions.delete(`gone-${CANARY}`);
  // The fork still needs results and media of the deleted session, so these are not erased.
  await eventually(async () => (await runtime.backup(backup)).copiedShards === 0);
  expect(await restore(backup, restored)).toMatchObject({ sessions: 2, results: 1 });
  const again = await kit.open({ directory: restored, ...options });
  expect(await again.session('fork').messages()).toEqual(messages);
  await erased(again, 1);
  await again.sessions.delete('fork');
  await erased(again);
  await again.close();
  expect(await foundIn(restored)).toEqual([]);
});

test('a result that an erasure left behind in a backup is not restored', async () => {
  const base = await kit.directory();
  const [store, backup, restored] = [join(base, 'store'), join(base, 'backup'), join(base, 'restored')];
  const runtime = await filled(store);
  await runtime.backup(backup);
  const results = await readdir(join(backup, 'results'));
  expect(results).toHaveLength(1);
  await runtime.sessions.delete(`gone-${CANARY}`);
  await erased(runtime);
  await runtime.backup(backup);
  expect(await readdir(join(backup, 'results'))).toEqual([]);
  for (const name of [...results, `${results[0]}.1b2c.part`]) await writeFile(join(backup, 'results', name), CANARY);
  expect(await restore(backup, restored)).toMatchObject({ sessions: 1, results: 0 });
  expect(await foundIn(restored)).toEqual([]);
});
