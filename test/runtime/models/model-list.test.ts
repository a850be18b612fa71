/**
 * Goal: what the vendor's list says of a model reaches a session's requests from its next epoch on, and never earlier;
 * the list is read beside the start, kept in the store's directory, and its failures harm nothing. Method: runtimes over
 * the wire against the strict fake, which serves the list, refuses what the list refuses, and keeps every request.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { agent, anthropic, type ListedModel, type Logger, type OpenOptions, type Session } from '../../../src/index.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { type StrictFake, strictFake } from '../../../src/testing/strict-fake.ts';
import { eventually, failure, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const fake of fakes.splice(0)) await fake.close();
});

/** A model that the dated table does not have, so that all it refuses is known from the list. */
const MODEL = 'claude-opus-6';
const UP_TO_HIGH: ListedModel = { id: MODEL, efforts: ['low', 'medium', 'high'] };
const UP_TO_XHIGH: ListedModel = { id: MODEL, efforts: ['low', 'medium', 'high', 'xhigh'] };
const DAY_MS = 24 * 3_600_000;
type Fetch = typeof globalThis.fetch;

async function fakeWith(models: readonly ListedModel[], delayMs = 0): Promise<StrictFake> {
  const fake = await strictFake({ script: () => ({ text: 'Fine.', delayMs }), models });
  fakes.push(fake);
  return fake;
}

const eager = agent({ name: 'eager', model: MODEL, effort: 'xhigh' });
const providerOf = (fake: StrictFake, fetch?: Fetch) =>
  anthropic({ apiKey: 'test', baseURL: fake.url, ...(fetch === undefined ? {} : { fetch }) });
const isList = (url: Parameters<Fetch>[0]): boolean => String(url).includes('/v1/models');

async function effortOf(session: Session): Promise<string | undefined> {
  return (await session.request()).output_config?.effort;
}

const efforts = (fake: StrictFake) =>
  fake.requests.map((each) => (each['output_config'] as { effort?: string }).effort);

/** A logger that keeps its lines. */
function linesOf(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const at = (level: string) => (_fields: object, message: string) => void lines.push(`${level}: ${message}`);
  return { lines, logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } };
}

describe.each(MATRIX)('traits from the list, %o', (threads) => {
  test('with several providers the list is that of the first which has one, for models of any of them', async () => {
    const fake = await fakeWith([UP_TO_HIGH]);
    const other = await fakeWith([UP_TO_XHIGH]);
    const runtime = await kit.open({
      providers: { plain: scripted([]), listed: providerOf(fake), late: providerOf(other) },
      agents: [agent({ name: 'eager', model: `listed/${MODEL}`, effort: 'xhigh' })],
      threads,
    });
    const session = runtime.session('s');
    await eventually(async () => (await effortOf(session)) === 'high');
    expect(await session.ask('Hi')).toBe('Fine.');
    expect(efforts(fake)).toEqual(['high']);
    expect(fake.requests[0]).toMatchObject({ model: MODEL });
    expect(other.requests).toEqual([]);
  });

  test('A8: new traits apply from the next epoch, and an epoch in use keeps what it recorded', async () => {
    const models = [UP_TO_HIGH];
    const fake = await fakeWith(models);
    const clock = manualClock();
    const runtime = await kit.open({ provider: providerOf(fake), agents: [eager], clock, threads });
    await eventually(async () => (await effortOf(runtime.session('unused'))) === 'high');
    const session = runtime.session('s');
    await session.ask('One');

    models[0] = UP_TO_XHIGH;
    await clock.advance(DAY_MS);
    await eventually(async () => (await effortOf(runtime.session('unused'))) === 'xhigh');
    expect(await effortOf(session)).toBe('high');
    await session.ask('Two');
    const fork = await session.fork();
    expect(await effortOf(fork)).toBe('high');
    await session.history.truncateFrom(2);
    expect(await effortOf(session)).toBe('xhigh');
    await session.ask('Three');
    await session.ask('Four');
    expect(efforts(fake)).toEqual(['high', 'high', 'xhigh', 'xhigh']);
    expect(fake.violations).toEqual([]);
  });

  test('A8: an eviction in the transition of a claim opens an epoch with the new traits', async () => {
    const models = [UP_TO_HIGH];
    const fake = await fakeWith(models);
    const clock = manualClock();
    const provider = providerOf(fake);
    const small = agent({ name: 'eager', model: MODEL, effort: 'xhigh', tokenBudget: 400 });
    const runtime = await kit.open({ provider, agents: [small], clock, threads });
    await eventually(async () => (await effortOf(runtime.session('unused'))) === 'high');
    const session = runtime.session('s');
    const words = 'word '.repeat(60);
    await session.ask(words);
    models[0] = UP_TO_XHIGH;
    await clock.advance(DAY_MS);
    await eventually(async () => (await effortOf(runtime.session('unused'))) === 'xhigh');
    const shown: number[] = [];
    for (let turn = 0; turn < 8; turn += 1) {
      await session.ask(words);
      shown.push(fake.requests.at(-1)?.messages.length ?? 0);
    }
    const shrunk = shown.findIndex((count, index) => index > 0 && count <= (shown[index - 1] ?? 0));
    expect(shrunk).toBeGreaterThan(0);
    // The first request is the one before the list changed.
    expect(efforts(fake).indexOf('xhigh')).toBe(shrunk + 1);
    expect(efforts(fake).lastIndexOf('high')).toBe(shrunk);
  });

  test('A8, A10: after a restart with other traits the request is the same, byte for byte', async () => {
    const directory = await kit.directory();
    const fake = await fakeWith([UP_TO_HIGH]);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [eager], directory, threads });
    await eventually(async () => (await effortOf(runtime.session('unused'))) === 'high');
    await runtime.session('s').ask('One');
    const before = JSON.stringify(await runtime.session('s').request());
    await runtime.close();

    const other = await fakeWith([{ ...UP_TO_XHIGH, outputTokensMax: 4_000 }]);
    const again = await kit.open({ provider: providerOf(other), agents: [eager], directory, threads });
    expect(JSON.stringify(await again.session('s').request())).toBe(before);
    await eventually(async () => (await again.session('unused').request()).max_tokens === 4_000);
    expect(JSON.stringify(await again.session('s').request())).toBe(before);
    await again.session('s').ask('Two');
    const [one, two] = [fake.requests[0], other.requests[0]];
    expect({ ...two, messages: [] }).toEqual({ ...one, messages: [] });
  });

  test('A8, A10: a call that a crash lost is made again with the same bytes, whatever is known by then', async () => {
    const directory = await kit.directory();
    const fake = await fakeWith([UP_TO_HIGH], DAY_MS);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [eager], directory, threads });
    await eventually(async () => (await effortOf(runtime.session('unused'))) === 'high');
    await runtime.session('s').send('One');
    await eventually(() => fake.requests.length === 1);
    const copy = await kit.crashed(directory);

    const other = await fakeWith([UP_TO_XHIGH]);
    const again = await kit.open({ provider: providerOf(other), agents: [eager], directory: copy, threads });
    await eventually(() => other.requests.length === 1);
    await again.drain();
    expect(other.requests).toEqual(fake.requests);
  });
});

describe('the start', () => {
  test('V1: open, the first turn and close do not wait for a list that hangs', async () => {
    const fake = await fakeWith([UP_TO_HIGH]);
    const asked: string[] = [];
    const hanging: Fetch = (url, init) => {
      asked.push(String(url));
      return isList(url) ? new Promise(() => {}) : fetch(url, init);
    };
    const directory = await kit.directory();
    const clock = manualClock();
    const runtime = await kit.open({ provider: providerOf(fake, hanging), agents: [eager], directory, clock });
    await eventually(() => asked.some(isList));
    const lenient = runtime.session('s');
    expect(await effortOf(lenient)).toBe('xhigh');
    expect(clock.pending).toBeGreaterThan(0);
    await runtime.close();
    expect(clock.pending).toBe(0);
    await expect(readFile(join(directory, 'models.json'))).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('V1: a restart without network has the list that the store keeps', async () => {
    const directory = await kit.directory();
    const fake = await fakeWith([UP_TO_HIGH]);
    const first = await kit.open({ provider: providerOf(fake), agents: [eager], directory });
    await eventually(async () => (await effortOf(first.session('s'))) === 'high');
    await first.close();

    const asked: string[] = [];
    const offline: Fetch = (url) => {
      asked.push(String(url));
      return Promise.reject(new TypeError('fetch failed'));
    };
    const again = await kit.open({ provider: providerOf(fake, offline), agents: [eager], directory });
    expect(await effortOf(again.session('s'))).toBe('high');
    // The stored list is from today, so nothing is asked.
    expect(asked).toEqual([]);
    await again.close();
    const late = manualClock(Date.now() + DAY_MS);
    const nextDay = await kit.open({ provider: providerOf(fake, offline), agents: [eager], directory, clock: late });
    expect(await effortOf(nextDay.session('s'))).toBe('high');
    await eventually(() => asked.length === 1);
  });

  test('V4: the list of another address is not used', async () => {
    const directory = await kit.directory();
    const fake = await fakeWith([UP_TO_HIGH]);
    const first = await kit.open({ provider: providerOf(fake), agents: [eager], directory });
    await eventually(async () => (await effortOf(first.session('s'))) === 'high');
    await first.close();
    const other = await fakeWith([]);
    const again = await kit.open({ provider: providerOf(other), agents: [eager], directory });
    expect(await effortOf(again.session('s'))).toBe('xhigh');
  });

  test.each([
    ['text that is no JSON', '{"format":'],
    ['another form', JSON.stringify({ format: 1, source: 'x', readAt: 0, models: [{ id: 7 }] })],
    ['more bytes than there may be', ' '.repeat(1_100_000)],
  ])('a stored list of %s is ignored, with a line in the log', async (_what, text) => {
    const directory = await kit.directory();
    const fake = await fakeWith([UP_TO_HIGH]);
    const provider = providerOf(fake);
    await (await kit.open({ provider: anthropic({ apiKey: 'test', listModels: false }), directory })).close();
    await writeFile(join(directory, 'models.json'), text);
    const { logger, lines } = linesOf();
    const runtime = await kit.open({ provider, agents: [eager], directory, logger });
    expect(lines.filter((line) => line.includes('is broken and ignored'))).toHaveLength(1);
    await eventually(async () => (await effortOf(runtime.session('s'))) === 'high');
  });

  test('without a key, and with listModels: false, nothing is asked', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', '');
    vi.stubEnv('ANTHROPIC_AUTH_TOKEN', '');
    const asked: string[] = [];
    const given: Fetch = (url) => {
      asked.push(String(url));
      return Promise.reject(new TypeError('fetch failed'));
    };
    for (const options of [{ fetch: given }, { apiKey: 'k', listModels: false, fetch: given }]) {
      const clock = manualClock();
      const runtime = await kit.open({ provider: anthropic(options), clock });
      await clock.advance(2 * DAY_MS);
      await runtime.close();
    }
    expect(asked).toEqual([]);
  });
});

describe('failures and news', () => {
  test('V2: a failure keeps what is known, is logged once, and each further one doubles the wait', async () => {
    const models = [UP_TO_HIGH];
    const fake = await fakeWith(models);
    const clock = manualClock();
    const times: number[] = [];
    let isDown = true;
    const flaky: Fetch = (url, init) => {
      if (!isList(url)) return fetch(url, init);
      times.push(clock.now());
      return isDown ? Promise.resolve(new Response('busy', { status: 529 })) : fetch(url, init);
    };
    const { logger, lines } = linesOf();
    const runtime = await kit.open({ provider: providerOf(fake, flaky), agents: [eager], clock, logger });
    await clock.advance(16 * 60_000);
    const [start = 0] = times;
    expect(times.map((time) => (time - start) / 60_000)).toEqual([0, 1, 3, 7, 15]);
    expect(lines.filter((line) => line.includes('the list of models'))).toEqual([
      'debug: the list of models cannot be read; what is known of them is kept',
    ]);
    expect(await effortOf(runtime.session('s'))).toBe('xhigh');
    isDown = false;
    await clock.advance(16 * 60_000);
    await eventually(async () => (await effortOf(runtime.session('s'))) === 'high');
    expect(times).toHaveLength(6);
    isDown = true;
    await clock.advance(DAY_MS);
    expect(await effortOf(runtime.session('s'))).toBe('high');
  });

  test('what only the list refuses is logged with what is sent, and the end of a model too, each once', async () => {
    const fake = await fakeWith([{ ...UP_TO_HIGH, lifecycle: 'deprecated', retiresAfter: '2999-01-02' }]);
    const clock = manualClock();
    const { logger, lines } = linesOf();
    const runtime = await kit.open({ provider: providerOf(fake), agents: [eager], clock, logger });
    await eventually(async () => (await effortOf(runtime.session('s'))) === 'high');
    await clock.advance(DAY_MS);
    expect(lines.filter((line) => line.startsWith('warn'))).toEqual([
      'warn: the model claude-opus-6 is deprecated, and may be retired from 2999-01-02: choose a newer one',
      `warn: option "agent eager.effort": claude-opus-6 refuses "xhigh", as the vendor's list of models says; from a session's next epoch on "high" is sent`,
    ]);
  });

  test('a model that is almost one of the list is logged with that one, and only once there is a list', async () => {
    const fake = await fakeWith([UP_TO_HIGH, { id: 'claude-haiku-6-20990101' }]);
    const { logger, lines } = linesOf();
    const names = ['claude-opus-6', 'claude-opus-7', 'claude-haiku-6', 'claude-haiku6', 'llama-4'];
    const agents = names.map((model, index) => agent({ name: `a${index}`, model }));
    const runtime = await kit.open({ provider: providerOf(fake), agents, logger });
    const warnings = (): readonly string[] => lines.filter((line) => line.startsWith('warn'));
    expect(warnings()).toEqual([]);
    await eventually(() => warnings().length > 0);
    expect(warnings()).toEqual([
      "warn: the model claude-opus-7 is not in the vendor's list of models: did you mean claude-opus-6?",
      "warn: the model claude-haiku6 is not in the vendor's list of models: did you mean claude-haiku-6?",
    ]);
    await runtime.close();
  });

  test('an option that the stored list accepts passes, although the dated table refuses it', async () => {
    const quiet = agent({ name: 'quiet', model: 'claude-opus-5-5', thinking: { type: 'disabled' } });
    const fake = await fakeWith([{ id: 'claude-opus-5-5', thinkingTypes: ['adaptive', 'disabled'] }]);
    const directory = await kit.directory();
    const options: OpenOptions = { provider: providerOf(fake) };
    expect(await failure(kit.open({ ...options, agents: [quiet], directory }))).toMatchObject({ code: 'config' });
    const first = await kit.open({ ...options, directory });
    await eventually(() => readFile(join(directory, 'models.json')).then(Boolean, () => false));
    await first.close();
    const runtime = await kit.open({ ...options, agents: [quiet], directory });
    expect((await runtime.session('s').request()).thinking).toEqual({ type: 'disabled' });
    await runtime.session('s').ask('Hi');
    expect(fake.violations).toEqual([]);
  });
});
