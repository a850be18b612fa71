/** Goal: a store that is removed, replaced or cut short under its runtime accepts no more writes, and says why. */
import { cp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { StoreLostError } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { startChild } from '../support/children.ts';
import { eventually, failure, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const provider = scripted(() => 'ok');

/** Ways to lose a store, given its directory and an earlier copy of it. */
const LOSSES: readonly (readonly [string, RegExp, (store: string, copy: string) => Promise<void>])[] = [
  ['removed', /was removed/, (store) => rm(store, { recursive: true })],
  ['moved away', /was removed/, (store) => rename(store, `${store}.old`)],
  [
    'replaced by a copy',
    /was replaced/,
    async (store, copy) => {
      await rm(store, { recursive: true });
      await cp(copy, store, { recursive: true });
    },
  ],
];

for (const threads of MATRIX) {
  test.each(LOSSES)(
    `sessions: ${threads.sessions}: a store that is %s is noticed without a write, and refuses from then on`,
    async (_how, reason, lose) => {
      const base = await kit.directory();
      const [store, copy] = [join(base, 'store'), join(base, 'copy')];
      const runtime = await kit.open({ directory: store, threads, provider });
      const session = runtime.session('s');
      expect(await session.ask('before')).toBe('ok');
      await cp(store, copy, { recursive: true });
      await lose(store, copy);
      await eventually(() => runtime.metrics().degraded !== undefined);
      expect(runtime.metrics().degraded).toMatch(reason);
      const refusal = await failure(session.send('after'));
      expect(refusal).toBeInstanceOf(StoreLostError);
      expect(refusal).toMatchObject({
        code: 'store_lost',
        retryable: false,
        data: { reason: expect.stringMatching(reason) },
      });
      // Earlier data can still be read, because the files are open.
      expect(await session.messages()).toHaveLength(2);
      expect(await failure(runtime.session('other').send('after'))).toBeInstanceOf(StoreLostError);
    },
  );
}

test('a store that reappears under the same name stays lost until it is opened again', async () => {
  const base = await kit.directory();
  const store = join(base, 'store');
  const runtime = await kit.open({ directory: store, provider });
  await runtime.session('s').ask('before');
  await rename(store, `${store}.old`);
  await eventually(() => runtime.metrics().degraded !== undefined);
  await rename(`${store}.old`, store);
  expect(await failure(runtime.session('s').send('after'))).toBeInstanceOf(StoreLostError);
  await runtime.close();
  const again = await kit.open({ directory: store, provider });
  expect(await again.session('s').messages()).toHaveLength(2);
  expect(await again.session('s').ask('after')).toBe('ok');
});

test.skipIf(process.platform === 'win32')(
  'a check before each read keeps a truncated data file from ending the process',
  async () => {
    const store = join(await kit.directory(), 'store');
    const child = startChild(new URL('./fixtures/cut-store.ts', import.meta.url), [store]);
    expect(await child.ended(), child.errors()).toBe(0);
    expect(JSON.parse(child.output())).toEqual({ degraded: true, send: 'store_lost', read: 'store_lost' });
    expect((await readFile(join(store, 'shard-0', 'data.mdb'))).length).toBe(8_192);
  },
);
