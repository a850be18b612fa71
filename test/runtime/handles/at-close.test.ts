/**
 * Goal: a request left alone when the runtime closes ends no process, and one that is awaited still rejects. Any other
 * failure that nothing handles is reported. Method: the unhandled rejections of this process are counted.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { agent, CancelledError, type Runtime, type TroupeError } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { gatedModel, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const unhandled: unknown[] = [];
const listeners = process.listeners('unhandledRejection');
const note = (error: unknown): void => void unhandled.push(error);

beforeEach(() => {
  unhandled.splice(0);
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', note);
});
afterEach(() => {
  process.removeAllListeners('unhandledRejection');
  for (const listener of listeners) process.on('unhandledRejection', listener);
});

/** Node reports unhandled rejections after the microtasks of a tick. */
async function ticks(): Promise<void> {
  for (let tick = 0; tick < 3; tick += 1) await new Promise((resolve) => setImmediate(resolve));
}

async function asking(runtime: Runtime): Promise<void> {
  const session = runtime.session('s');
  const receipt = await session.send('Hi');
  void receipt.answer();
  void session.ask('More');
  const child = await session.spawn({ task: 'Help', replies: 'handle' });
  void child.reply();
  void child.exit();
}

test.each(MATRIX)('requests that are left alone at close are no unhandled rejections (%o)', async (threads) => {
  const model = gatedModel();
  const runtime = await kit.open({ threads, agents: [agent({ name: 'a' })], provider: model.provider });
  await asking(runtime);
  await model.next();
  const awaited = runtime.session('s').ask('And this');
  await runtime.close({ deadlineMs: 0 });
  await expect(awaited).rejects.toBeInstanceOf(CancelledError);
  void runtime.session('s').send('Too late');
  await ticks();
  expect(unhandled).toEqual([]);
});

test('another failure that nothing handles is reported as usual', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  void runtime.session('s').ask(' ');
  await ticks();
  expect(unhandled).toEqual([expect.objectContaining({ code: 'content' })]);
});

test.each(MATRIX)(
  'a message that was accepted before a close without deadline is acknowledged (%o)',
  async (threads) => {
    const directory = await kit.directory();
    const options = { directory, threads, agents: [agent({ name: 'a' })], provider: scripted(() => 'ok') };
    const runtime = await kit.open(options);
    const session = runtime.session('s');
    await session.send('first');
    const sent = Array.from({ length: 300 }, (_, index) =>
      session.send(`message ${index}`).then(
        () => ({ index, code: 'accepted' }),
        (error: unknown) => ({ index, code: (error as TroupeError).code }),
      ),
    );
    await ticks();
    await runtime.close({ deadlineMs: 0 });
    const ends = await Promise.all(sent);
    expect(ends.filter(({ code }) => code !== 'accepted' && code !== 'cancelled')).toEqual([]);
    const again = await kit.open(options);
    await again.drain();
    const stored = new Set((await again.session('s').messages()).map(({ content }) => content));
    const accepted = ends.filter(({ index }) => stored.has(`message ${index}`));
    expect(accepted).toEqual(ends.filter(({ code }) => code === 'accepted'));
  },
);
