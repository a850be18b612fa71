// Goal: `settings.llm.warmCache` fills the provider's cache once before a fan-out, and no answer depends on it. Method:
// the public API against the strict fake, which has the requests in their order.
import { afterEach, describe, expect, test } from 'vitest';
import { agent, anthropic, type Runtime } from '../../../src/index.ts';
import type { ReplyError } from '../../../src/models/script/script.ts';
import { type StrictFake, strictFake } from '../../../src/testing/strict-fake.ts';
import { MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

/** Longer than the longest prompt that no model caches. */
const SYSTEM = 'Be exact, and cite the section. '.repeat(1_000);

async function started(
  warmCache: boolean,
  options: {
    readonly system?: string;
    readonly threads?: object;
    readonly script?: readonly (string | ReplyError)[];
  } = {},
): Promise<{ readonly runtime: Runtime; readonly fake: StrictFake }> {
  const { system = SYSTEM, threads, script = ['done'] } = options;
  const fake = await strictFake({ script: (_request) => script[0] ?? 'done' });
  fakes.push(fake);
  const runtime = await kit.open({
    provider: anthropic({ apiKey: 'k', baseURL: fake.url, listModels: false }),
    agents: [agent({ name: 'worker', model: 'claude-opus-5-5', system })],
    settings: { llm: { warmCache } },
    ...(threads === undefined ? {} : { threads }),
  });
  return { runtime, fake };
}

const tasks = (count: number): { readonly task: string }[] =>
  Array.from({ length: count }, (_, index) => ({ task: `part ${index}` }));

/** A value without its cache marks. */
const bare = (value: unknown): string => JSON.stringify(value).replaceAll(/,"cache_control":\{[^}]*\}/g, '');

const isWarmUp = ({ max_tokens }: { readonly max_tokens?: unknown }): boolean => max_tokens === 0;

describe.each(MATRIX)('settings.llm.warmCache, %s', (_name, threads) => {
  test('one call without output precedes the calls of a fan-out, which all leave after it', async () => {
    const { runtime, fake } = await started(true, { threads });
    const children = await runtime.session('boss').spawnAll(tasks(20));
    await children.all();
    const order = fake.requests.map(isWarmUp);
    expect(order.slice(0, 21)).toEqual([true, ...Array.from({ length: 20 }, () => false)]);
    expect(order.filter(Boolean)).toHaveLength(1);
    expect(runtime.metrics().cacheWarmUps).toBe(1);
    // The cached bytes are those that the calls send.
    const [warmUp, call] = fake.requests;
    const [shared] = (call?.system ?? []) as unknown as readonly object[];
    expect(JSON.stringify(warmUp?.system)).toBe(JSON.stringify([shared]));
    expect(bare(warmUp?.tools)).toBe(bare(call?.tools));
    expect(fake.violations).toEqual([]);
    // The prompt is warm now, so the next fan-out leaves at once.
    await (await runtime.session('boss').spawnAll(tasks(5))).all();
    expect(fake.requests.filter(isWarmUp)).toHaveLength(1);
  });
});

test('without the setting, and for a prompt that is too short to be cached, there is no such call', async () => {
  for (const [warmCache, system] of [
    [false, SYSTEM],
    [true, 'Be exact.'],
  ] as const) {
    const { runtime, fake } = await started(warmCache, { system });
    await (await runtime.session('boss').spawnAll(tasks(10))).all();
    expect(fake.requests.filter(isWarmUp)).toEqual([]);
    expect(runtime.metrics().cacheWarmUps).toBe(0);
  }
});
