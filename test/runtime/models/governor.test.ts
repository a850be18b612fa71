// Goal: how sessions on one provider key affect each other, through the public API: rates, the pause after a 429, the
// circuit, refused credentials.
import { afterEach, describe, expect, test } from 'vitest';
import type { Logger } from '../../../src/index.ts';
import { agent, anthropic, ConfigError, type OpenOptions, type Runtime } from '../../../src/index.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import type { ReplyError } from '../../../src/models/script/script.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { type StrictFake, strictFake } from '../../../src/testing/strict-fake.ts';
import { eventually, failure, gatedModel, history, log, MATRIX, runtimeKit, types } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

const names = (count: number, prefix = 's'): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);
const refusedBy = (status: number, retryAfterMs?: number): ReplyError => ({
  error: { status, message: `no (${status})`, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
});

/** A logger that keeps its lines as `level message`. */
function lines(): { readonly logger: Logger; readonly kept: string[] } {
  const kept: string[] = [];
  const tell = (level: string) => (_fields: object, message: string) => void kept.push(`${level} ${message}`);
  const logger = { debug: tell('debug'), info: tell('info'), warn: tell('warn'), error: tell('error') };
  return { logger: logger, kept };
}

/** A model that answers with the current value of `reply`, and counts its calls. */
function switchedModel(reply: () => string | ReplyError): {
  readonly provider: ModelProvider;
  readonly calls: string[];
} {
  const calls: string[] = [];
  const provider = scripted((_request, { session }) => {
    calls.push(session);
    return reply();
  }) as ModelProvider;
  return { provider, calls };
}

describe('the option', () => {
  const model = scripted(['no']);
  test.each<[unknown, RegExp]>([
    [{ rate: 1 }, /unknown option "governor\.rate"/u],
    [{ concurrency: 0 }, /"governor\.concurrency".*got number 0/u],
    [{ requestsPerMinute: 1.5 }, /"governor\.requestsPerMinute".*got number 1\.5/u],
    [{ inputTokensPerMinute: '80k' }, /"governor\.inputTokensPerMinute".*got string "80k"/u],
    [{ outputTokensPerMinute: -1 }, /"governor\.outputTokensPerMinute".*got number -1/u],
    ['fast', /"governor".*got string "fast"/u],
  ])('A9: %o is refused, and the error names the option', async (governor, message) => {
    const error = await failure(kit.open({ provider: model, governor } as OpenOptions));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(message);
  });

  test('A9: a limit smaller than the number of session threads is refused, and the error names it', async () => {
    const error = await failure(kit.open({ provider: model, threads: { sessions: 2 }, governor: { concurrency: 1 } }));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(/"governor\.concurrency".*2; got number 1/u);
  });
});

describe('F20: rates', () => {
  test('F20: calls in flight stay within the concurrency; waiting ones are counted, interruptible, and served in turn', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, governor: { concurrency: 2 } });
    const receipts = await Promise.all(names(6).map((name) => runtime.session(name).send('Hi')));
    await eventually(() => runtime.metrics().modelCallsWaiting === 4);
    expect(await runtime.session('s5').interrupt()).toBe(true);
    expect((await runtime.session('s5').state()).state).toBe('idle');
    for (let answered = 0; answered < 5; answered += 1) {
      expect(model.calls.length - answered).toBeLessThanOrEqual(2);
      (await model.next()).answer('ok');
      if (answered < 3) await eventually(() => model.calls.length === answered + 3);
    }
    await runtime.drain();
    expect(model.calls.map(({ session }) => session)).toEqual(names(5));
    expect(await Promise.all(receipts.slice(0, 5).map((receipt) => receipt.answer()))).toEqual(Array(5).fill('ok'));
    expect(runtime.metrics().modelCallsWaiting).toBe(0);
  });

  test('F20: in any minute at most the allowed requests per minute are sent', async () => {
    const clock = manualClock();
    const { provider, calls } = switchedModel(() => 'ok');
    const runtime = await kit.open({ provider, clock, governor: { requestsPerMinute: 2 } });
    await Promise.all(names(5).map((name) => runtime.session(name).send('Hi')));
    const seen: number[] = [];
    for (const ms of [0, 59_999, 1, 59_999, 1]) {
      await clock.advance(ms);
      seen.push(calls.length);
    }
    expect(seen).toEqual([2, 2, 4, 4, 5]);
    await runtime.drain();
  });

  test('F20: several session threads together keep the rates', async () => {
    const fake = await strictFake({ script: () => 'ok' });
    fakes.push(fake);
    const runtime = await kit.open({
      provider: anthropic({ apiKey: 'test', baseURL: fake.url }),
      threads: { sessions: 2, models: 1 },
      governor: { requestsPerMinute: 7 },
    });
    await Promise.all(names(20).map((name) => runtime.session(name).send('Hi')));
    await eventually(() => fake.requests.length >= 7 && runtime.metrics().modelCallsWaiting === 13);
    expect(fake.requests.length).toBe(7);
  });

  test('F20: what the provider reports to one session thread holds back the calls of all, and none is refused', async () => {
    const rates = { requestsPerMinute: 15 };
    const fake = await strictFake({ script: () => 'ok', rates });
    fakes.push(fake);
    const runtime = await kit.open({
      provider: anthropic({ apiKey: 'test', baseURL: fake.url }),
      threads: { sessions: 2, models: 1 },
    });
    await runtime.session('first').ask('Hi');
    const sessions = names(25).map((name) => runtime.session(name));
    await Promise.all(sessions.map((session) => session.send('Hi')));
    await eventually(() => fake.requests.length + runtime.metrics().modelCallsWaiting === 1 + sessions.length);
    expect(runtime.metrics().modelCallsWaiting).toBeGreaterThan(0);
    await eventually(() => runtime.metrics().modelCalls - runtime.metrics().modelCallsWaiting <= fake.requests.length);
    for (const session of sessions) expect(types(await history(session))).not.toContain('llm.retry');
  });
});

describe('F20: one 429 holds back all sessions', () => {
  test('F20: a session whose own call was not refused also waits for the pause after a 429', async () => {
    const clock = manualClock();
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, clock, random: () => 0 });
    const first = await runtime.session('a').send('Hi');
    (await model.next()).answer(refusedBy(429, 30_000));
    await eventually(async () => (await runtime.session('a').state()).phase === 'retrying');
    const second = await runtime.session('b').send('Hi');
    await clock.advance(29_999);
    expect(model.calls).toHaveLength(1);
    expect(runtime.metrics().modelCallsWaiting).toBe(1);
    await clock.advance(1);
    for (const receipt of [1, 2]) {
      (await model.next()).answer(`ok ${receipt}`);
    }
    await Promise.all([first.answer(), second.answer()]);
    expect(model.calls.slice(1).map(({ session }) => session)).toEqual(['b', 'a']);
    expect((await history(runtime.session('a'))).find(({ type }) => type === 'llm.retry')).toMatchObject({
      attempt: 1,
      waitMs: 30_000,
      status: 429,
    });
    expect(types(await history(runtime.session('b')))).not.toContain('llm.retry');
  });

  test('F20: two hundred waiting sessions are released one, two, four … at a time, and each makes one call', async () => {
    const clock = manualClock();
    const model = gatedModel();
    const { logger, kept } = lines();
    const runtime = await kit.open({ provider: model.provider, clock, random: () => 0, logger });
    await runtime.session('first').send('Hi');
    (await model.next()).answer(refusedBy(429, 30_000));
    await eventually(async () => (await runtime.session('first').state()).phase === 'retrying');
    await Promise.all(names(199).map((name) => runtime.session(name).send('Hi')));
    await clock.advance(29_999);
    expect(model.calls).toHaveLength(1);
    await clock.advance(1);
    const waves: number[] = [];
    for (let answered = 1; answered < 201; answered = model.calls.length) {
      const expected = Math.min(2 ** waves.length, 201 - answered);
      await eventually(() => model.calls.length >= answered + expected);
      // Gives calls that should not come a moment to come.
      await clock.advance(0);
      const wave = model.calls.slice(answered);
      waves.push(wave.length);
      for (const call of wave) call.answer('ok');
      if (model.calls.length === 201) break;
    }
    expect(waves).toEqual([1, 2, 4, 8, 16, 32, 64, 73]);
    await runtime.drain();
    expect(new Set(model.calls.map(({ session }) => session)).size).toBe(200);
    expect(kept.filter((line) => line.includes('pause'))).toHaveLength(1);
  });
});

test('F20: settings.llm.retry sets number and delay of the retries; the first of them is logged, as a warning, and the failed turn', async () => {
  const clock = manualClock();
  const { provider, calls } = switchedModel(() => refusedBy(529));
  const told: object[] = [];
  const ignore = () => undefined;
  const logger = { debug: ignore, info: ignore, error: ignore, warn: (fields: object) => void told.push(fields) };
  const settings = { llm: { retry: { attempts: 3, base: 0.2, factor: 2 } } };
  const runtime = await kit.open({ provider, clock, random: () => 0, settings, logger: logger });
  await runtime.session('s').send('Hi');
  const seen: number[] = [];
  for (const ms of [0, 199, 1, 399, 1, 3_600_000]) {
    await clock.advance(ms);
    seen.push(calls.length);
  }
  expect(seen).toEqual([1, 1, 2, 2, 3, 3]);
  const error = { data: { status: 529 } };
  expect(told).toMatchObject([
    { session: 's', ms: 200, error },
    { session: 's', error },
  ]);
  await runtime.drain();
});

test('F20: explain names the governor and the reason while it holds a call back', async () => {
  const clock = manualClock();
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, clock, random: () => 0, governor: { concurrency: 5 } });
  const reasonOf = async (name: string): Promise<string> => {
    const { reason, detail } = await runtime.session(name).explain();
    return `${reason}: ${detail}`;
  };
  await Promise.all(names(6).map((name) => runtime.session(name).send('Hi')));
  await eventually(() => runtime.metrics().modelCallsWaiting === 1);
  expect(await reasonOf('s0')).toMatch(/^waiting_for_model/u);
  expect(await reasonOf('s5')).toBe('waiting_for_governor: 5 calls are in flight (governor.concurrency: 5)');
  (await model.next()).answer(refusedBy(429, 30_000));
  await eventually(async () => (await runtime.session('s0').state()).phase === 'retrying');
  expect(await reasonOf('s0')).toMatch(/^waiting_for_retry/u);
  expect(await reasonOf('s5')).toBe(
    'waiting_for_governor: the provider asked for a pause (retry-after): 30 s are left',
  );
  for (let answered = 0; answered < 4; answered += 1) (await model.next()).answer('ok');
  await clock.advance(30_000);
  for (let answered = 0; answered < 2; answered += 1) (await model.next()).answer('ok');
  await runtime.drain();
});

test('F21: the circuit opens for all sessions after failures in a row, one call probes it, an answer closes it', async () => {
  const clock = manualClock();
  let isDown = true;
  const { provider, calls } = switchedModel(() => (isDown ? refusedBy(503) : 'ok'));
  const { logger, kept } = lines();
  const runtime = await kit.open({ provider, clock, random: () => 0, logger });
  await Promise.all(names(12).map((name) => runtime.session(name).send('Hi')));
  await clock.advance(0);
  expect(calls).toHaveLength(12);
  const isCircuit = (line: string): boolean => line.startsWith('warn') && line.includes('does not answer');
  expect(kept.filter(isCircuit)).toHaveLength(1);
  // The pause is half a second plus a random half of that; here the random part is zero.
  await runtime.session('late').send('Hi');
  await clock.advance(499);
  expect(calls).toHaveLength(12);
  await clock.advance(1);
  expect(calls.slice(12)).toEqual(['late']);
  // One failure opens the circuit again, for twice as long. The other calls, which are due after their own second, wait
  // too.
  expect(kept.filter(isCircuit)).toHaveLength(2);
  isDown = false;
  await clock.advance(999);
  expect(calls).toHaveLength(13);
  await clock.advance(1);
  await clock.advance(2_000);
  await runtime.drain();
  expect(calls).toHaveLength(13 + 13);
  expect((await log(runtime.session('late'))).at(-1)).toBe('agent_message:ok');
});

describe.each(MATRIX)('calls refused for all sessions, sessions: $sessions, models: $models', (threads) => {
  async function refusing(
    status: number,
    isFor: (model: string) => boolean = () => true,
  ): Promise<{ readonly fake: StrictFake; readonly runtime: Runtime; mend(): void; readonly kept: readonly string[] }> {
    let isRefusing = true;
    const fake = await strictFake({
      script: (request) => (isRefusing && isFor(request.model) ? refusedBy(status) : 'ok'),
    });
    fakes.push(fake);
    const { logger, kept } = lines();
    const agents = [
      agent({ name: 'old', model: 'claude-opus-4-6' }),
      agent({ name: 'new', model: 'claude-haiku-4-5' }),
    ];
    const provider = anthropic({ apiKey: 'test', baseURL: fake.url });
    const runtime = await kit.open({ threads, provider, agents, logger });
    return {
      fake,
      runtime,
      kept,
      mend: () => {
        isRefusing = false;
      },
    };
  }

  // Each status is tested on the host thread; one of them also crosses the threads.
  test.each(threads.models === 0 ? [401, 402, 403] : [401])(
    'F36: after one call with status %i each session on the key waits, nothing is dropped, runtime.resume() resumes all',
    async (status) => {
      const { fake, runtime, kept, mend } = await refusing(status);
      const error = await failure(runtime.session('first', 'old').ask('Hi'));
      expect(error.cause).toMatchObject({ code: 'model_authentication', status });
      const all = names(12);
      const receipts = await Promise.all(all.map((name) => runtime.session(name, 'old').send('Hi')));
      await runtime.drain();
      expect(fake.requests).toHaveLength(1);
      expect(kept.filter((line) => line.startsWith('error'))).toEqual([
        'error the credentials were refused: no session calls until resume()',
      ]);
      for (const name of all) {
        expect(await runtime.session(name).state()).toMatchObject({
          state: 'awaiting',
          blocked: { code: 'model_authentication' },
        });
      }
      expect(await runtime.session('s7').explain()).toMatchObject({
        reason: 'waiting_for_governor',
        detail: expect.stringMatching(/credentials.*resume\(\)/u),
      });
      mend();
      await runtime.resume();
      expect(await Promise.all(receipts.map((receipt) => receipt.answer()))).toEqual(all.map(() => 'ok'));
      expect(fake.requests).toHaveLength(13);
      expect((await runtime.session('s7').state()).blocked).toBeUndefined();
    },
  );

  test('F36: the children of spawnAll wait instead of failing, and all reply after resume', async () => {
    const { fake, runtime, mend } = await refusing(401);
    await failure(runtime.session('first', 'old').ask('Hi'));
    const family = await runtime.session('parent', 'old').spawnAll(names(5).map((task) => ({ task })));
    await runtime.drain();
    expect(fake.requests).toHaveLength(1);
    mend();
    await runtime.resume();
    expect(await family.all()).toHaveLength(5);
  });

  test('F36: after a resume with a key that is still refused, one call fails and all others wait again', async () => {
    const { fake, runtime, mend } = await refusing(401);
    await failure(runtime.session('first', 'old').ask('Hi'));
    const all = names(12);
    const receipts = await Promise.all(all.map((name) => runtime.session(name, 'old').send('Hi')));
    await runtime.drain();
    await runtime.resume();
    await runtime.drain();
    expect(fake.requests).toHaveLength(2);
    mend();
    await runtime.resume();
    const ends = await Promise.allSettled(receipts.map((receipt) => receipt.answer()));
    expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  });

  test('F36: session.resume() of a blocked session resumes all on its thread; of a merely paused one it does not', async () => {
    const { fake, runtime, mend } = await refusing(401);
    await runtime.session('paused', 'old').pause();
    await failure(runtime.session('first', 'old').ask('Hi'));
    const receipts = await Promise.all(names(3).map((name) => runtime.session(name, 'old').send('Hi')));
    const again = await runtime.session('first', 'old').send('Now?');
    mend();
    await runtime.session('paused').resume();
    await runtime.drain();
    expect(fake.requests).toHaveLength(1);
    await runtime.session('s1').resume();
    expect(await Promise.all([...receipts, again].map((receipt) => receipt.answer()))).toEqual(Array(4).fill('ok'));
  });

  test('F39, F13: a blocked session can be interrupted, and delays no close', async () => {
    const { fake, runtime } = await refusing(401);
    await failure(runtime.session('first', 'old').ask('Hi'));
    await runtime.session('one', 'old').send('Hi');
    const two = await runtime.session('two', 'old').send('Hi');
    expect(await runtime.session('one').interrupt()).toBe(true);
    expect((await runtime.session('one').state()).state).toBe('idle');
    expect(await two.status()).toMatchObject({ status: 'promoted' });
    await runtime.close();
    expect(fake.requests).toHaveLength(1);
  });

  test('F37: a model that no longer exists blocks its own sessions after one call, and no others', async () => {
    const { fake, runtime, mend } = await refusing(404, (model) => model === 'claude-opus-4-6');
    await failure(runtime.session('first', 'old').ask('Hi'));
    const errors = await Promise.all(names(8).map((name) => failure(runtime.session(name, 'old').ask('Hi'))));
    for (const error of errors) expect(error.cause).toMatchObject({ code: 'model_invalid_request', status: 404 });
    expect(await runtime.session('modern', 'new').ask('Hi')).toBe('ok');
    expect(fake.requests).toHaveLength(2);
    const waiting = await runtime.session('s3').send('waits');
    await runtime.drain();
    expect(await runtime.session('s3').state()).toMatchObject({ mailbox: 1, blocked: { data: { status: 404 } } });
    expect(types(await history(runtime.session('s3')))).not.toContain('authentication_required');
    mend();
    await runtime.session('s3').resume();
    expect(await waiting.answer()).toBe('ok');
    expect((await runtime.session('s3').state()).blocked).toBeUndefined();
  });
});
