// Goal: one conversation runs over three vendors, with tools and thoughts at each, and is killed in between: no vendor
// would refuse a request, every tool runs once, and no vendor receives the thoughts or the metadata of another. Method:
// the strict fakes of the three wires outlive the runtimes, each of which continues from the copy that a crash leaves.
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { isRecord } from '../../../src/base/json.ts';
import {
  type Agent,
  agent,
  anthropic,
  type Runtime,
  type Session,
  type SessionEvent,
  tool,
} from '../../../src/index.ts';
import { aiModel } from '../../../src/models/ai-model/index.ts';
import type { Reply } from '../../../src/models/script/script.ts';
import { fakeGemini, fakeOpenAi, type StrictFake, strictFake } from '../../../src/testing/index.ts';
import { vendors } from '../../models/ai-model/samples.ts';
import { deferred, history, queue, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

const { openAi, gemini } = await vendors();
const RETURN_MS = 60_000;
const GPT = 'gpt/gpt-5.5';
const GEMINI = 'gemini/gemini-3-pro';
const VENDORS = ['claude', 'gpt', 'gemini'] as const;
/** A model that binds its thoughts to everything before them (R21), and one that does not. */
const CLAUDE_MODELS = [
  ['claude-opus-5-5', true],
  ['claude-opus-4-8', false],
] as const;
type Vendor = (typeof VENDORS)[number];
/** A reply of a script, or a call that is never answered: its runtime is killed meanwhile. */
type Step = Reply | 'hold';

/** The signature that stands for a call which no Gemini model made. */
const FOREIGN_CALL = 'skip_thought_signature_validator';
const OVERLOADED: Reply = { error: { status: 529, message: 'overloaded' } };
const REFUSED_KEY: Reply = { error: { status: 401, message: 'not this key' } };
const REFUSAL: Reply = { text: 'I will not.', stopReason: 'refusal' };

/** Two calls of the tool behind a thought, and text behind another one. */
const called = (vendor: Vendor, ...steps: readonly number[]): Reply => ({
  thinking: `A thought of ${vendor} before ${steps.join(' and ')}.`,
  toolUse: steps.map((step) => ({ name: 'charge', input: { step } })),
});
const said = (vendor: Vendor, text: string): Reply => ({ thinking: `A thought of ${vendor} on ${text}.`, text });

type World = Awaited<ReturnType<typeof world>>;

/** The vendors, with their replies in order, and the tool. They outlive every runtime. */
async function world(scripts: Readonly<Record<Vendor, readonly Step[]>>) {
  const holds = queue<Vendor>();
  const runs: number[] = [];
  const scriptOf = (vendor: Vendor): (() => Reply | Promise<Reply>) => {
    const steps = [...scripts[vendor]];
    return () => {
      const step = steps.shift();
      if (step === undefined) throw new Error(`${vendor} was asked too often`);
      if (step !== 'hold') return step;
      holds.put(vendor);
      return deferred<Reply>().promise;
    };
  };
  const claude = await strictFake({ script: scriptOf('claude') });
  fakes.push(claude);
  const gpt = fakeOpenAi({ script: scriptOf('gpt') });
  const google = fakeGemini({ script: scriptOf('gemini') });
  const bodies: Record<Vendor, readonly object[]> = {
    claude: claude.requests,
    gpt: gpt.requests,
    gemini: google.requests,
  };
  const providers = {
    claude: anthropic({ apiKey: 'test', baseURL: claude.url, listModels: false }),
    gpt: aiModel(openAi(gpt.fetch, 'gpt-5.5'), {
      providerOptions: { openai: { store: false, reasoningEffort: 'low', reasoningSummary: 'auto' } },
    }),
    gemini: aiModel(gemini(google.fetch, 'gemini-3-pro'), {
      providerOptions: { google: { thinkingConfig: { includeThoughts: true } } },
    }),
  };
  const charge = tool({
    name: 'charge',
    description: 'Charges.',
    input: z.object({ step: z.number() }),
    effect: 'once',
    run: ({ step }) => {
      runs.push(step);
      return `charged ${step}`;
    },
  });
  let aheadMs = 0;
  const clock: Clock = {
    now: () => systemClock.now() + aheadMs,
    monotonic: () => systemClock.monotonic() + aheadMs,
    setTimer: (run, delayMs) => systemClock.setTimer(run, delayMs),
    clearTimer: (timer) => systemClock.clearTimer(timer),
  };
  let directory = join(await kit.directory(), 'store');
  let runtime: Runtime | undefined;
  return {
    bodies,
    /** The time after which a session returns to its first model passes. */
    pass(): void {
      aheadMs += RETURN_MS;
    },
    charge,
    runs,
    refusals: () => [...claude.violations, ...gpt.refusals, ...google.refusals],
    /** Opens the store. A call leaves once all before it is durable, so that a copy made during a call has it. */
    async open(each: Agent): Promise<Session> {
      const settings = { llm: { retry: { attempts: 1 } } };
      runtime = await kit.open({ directory, providers, clock, settings, durability: 'strict', agents: [each] });
      return runtime.session('s');
    },
    /** Ends the runtime in order, and opens the store again. */
    async reopen(each: Agent): Promise<Session> {
      await runtime?.close();
      return this.open(each);
    },
    /** Kills the runtime while this vendor holds a call. */
    async kill(vendor: Vendor): Promise<void> {
      expect(await holds.take()).toBe(vendor);
      directory = await kit.crashed(directory);
      await runtime?.close({ deadlineMs: 0 });
    },
  };
}

function changes(events: readonly SessionEvent[]): readonly object[] {
  return events.flatMap((event) =>
    event.type === 'model.changed' ? [{ model: event.model, reason: event.reason }] : [],
  );
}

/** The parts of a body that its vendor alone may read: thoughts and signed parts, in order. */
function ownParts(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(ownParts);
  if (!isRecord(value)) return [];
  const { type, thought, thoughtSignature: signature } = value;
  const isSigned = signature !== undefined && signature !== FOREIGN_CALL;
  if (type === 'thinking' || type === 'reasoning' || thought === true || isSigned) return [JSON.stringify(value)];
  return Object.values(value).flatMap(ownParts);
}

/** The thoughts, signatures and ids of items that occur in the bodies of a vendor. */
function marksOf(bodies: readonly object[]): readonly string[] {
  const text = JSON.stringify(bodies);
  const values = [...text.matchAll(/"(?:thoughtSignature|signature|encrypted_content)":"([^"]+)"/gu)].map(
    ([, value = '']) => value,
  );
  const thoughts = text.match(/A thought of \w+/gu) ?? [];
  const items = text.match(/"(?:rs|msg|fc)_[\w-]+"/gu) ?? [];
  return [...new Set([...values, ...thoughts, ...items])].filter((mark) => mark !== FOREIGN_CALL);
}

/** Fields and ids of the other vendors, and those of the log. */
const FOREIGN_FIELDS: Readonly<Record<Vendor, RegExp>> = {
  claude: /"(?:origin|metadata|thoughtSignature|encrypted_content|(?:rs|msg|fc)_[\w-]+)"/u,
  gpt: /"(?:origin|metadata|thoughtSignature|signature)"/u,
  gemini: /"(?:origin|metadata|signature|encrypted_content|(?:rs|msg|fc)_[\w-]+)"/u,
};

/** No vendor has refused a request, and none has received anything that only another one may read. */
function expectApart(all: World): void {
  expect(all.refusals()).toEqual([]);
  for (const vendor of VENDORS) {
    const marks = marksOf(all.bodies[vendor]);
    // Its own thoughts and metadata come back to it.
    expect(marks.length, vendor).toBeGreaterThanOrEqual(3);
    expect(marks).toContain(`A thought of ${vendor}`);
    for (const other of VENDORS) {
      const text = JSON.stringify(all.bodies[other]);
      const found = other === vendor ? [] : marks.filter((mark) => text.includes(mark));
      expect(found, `of ${vendor} at ${other}`).toEqual([]);
    }
    const text = JSON.stringify(all.bodies[vendor]);
    expect(text.match(FOREIGN_FIELDS[vendor]), vendor).toBeNull();
  }
}

/** Each request to the vendor has, unchanged, all that the vendor alone may read in the one before. */
function expectKept(bodies: readonly object[]): void {
  let before: readonly string[] = [];
  for (const body of bodies) {
    const own = ownParts(body);
    expect(own.slice(0, before.length)).toEqual(before);
    before = own;
  }
}

/** The number of parts in each body that its vendor alone may read. */
const counts = (bodies: readonly object[]): readonly number[] => bodies.map((body) => ownParts(body).length);

describe('by durable fallback', () => {
  test.each(CLAUDE_MODELS)('%s → GPT → Gemini → Claude', async (first, binds) => {
    const all = await world({
      claude: [
        called('claude', 1, 2),
        said('claude', 'one'),
        called('claude', 3),
        OVERLOADED,
        // The last model of the list, in the half-step in which Gemini refused.
        called('claude', 8),
        said('claude', 'four'),
        // The first model again.
        'hold',
        called('claude', 9),
        said('claude', 'five'),
      ],
      gpt: ['hold', called('gpt', 4, 5), said('gpt', 'two'), called('gpt', 6), REFUSED_KEY],
      gemini: ['hold', called('gemini', 7), said('gemini', 'three'), REFUSAL],
    });
    const last = 'claude/claude-sonnet-5-5';
    const helper = agent({
      name: 'helper',
      model: [`claude/${first}`, GPT, GEMINI, last],
      returnAfterMs: RETURN_MS,
      thinking: { type: 'adaptive' },
      tools: [all.charge],
    });
    let session = await all.open(helper);
    expect(await session.ask('One')).toBe('one');
    // Claude is overloaded when it gets the result of its call, and GPT continues the turn.
    const two = await session.send('Two');
    await all.kill('gpt');
    session = await all.open(helper);
    expect(await (await session.receipt(two.id)).answer()).toBe('two');
    // GPT refuses the key in the middle of its turn.
    const three = await session.send('Three');
    await all.kill('gemini');
    session = await all.open(helper);
    expect(await (await session.receipt(three.id)).answer()).toBe('three');
    // Gemini refuses the request.
    expect(await session.ask('Four')).toBe('four');
    all.pass();
    const five = await session.send('Five');
    await all.kill('claude');
    session = await all.open(helper);
    expect(await (await session.receipt(five.id)).answer()).toBe('five');

    expectApart(all);
    expect(all.runs).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const { claude, gpt, gemini: google } = all.bodies;
    expect([claude.length, gpt.length, google.length]).toEqual([9, 5, 4]);
    // A call that a crash interrupted is made again with the same bytes.
    for (const [held, again] of [gpt.slice(0, 2), google.slice(0, 2), claude.slice(6, 8)]) {
      expect(JSON.stringify(again)).toBe(JSON.stringify(held));
    }
    for (const bodies of [gpt, google, claude.slice(0, 4), claude.slice(4, 6), claude.slice(7)]) expectKept(bodies);
    // Within its run each model gets all its thoughts back. A Claude model that binds thoughts gets none from before the
    // switch; another one gets all of Claude.
    expect(counts(claude)).toEqual([0, 1, 2, 3, 0, 1, ...(binds ? [0, 0, 1] : [5, 5, 6])]);
    expect([counts(gpt), counts(google)]).toEqual([
      [0, 0, 1, 2, 3],
      [0, 0, 2, 4],
    ]);
    expect(claude.map((body) => Reflect.get(body, 'model'))).toEqual([
      ...Array.from({ length: 4 }, () => first),
      ...Array.from({ length: 2 }, () => 'claude-sonnet-5-5'),
      ...Array.from({ length: 3 }, () => first),
    ]);
    expect(changes(await history(session))).toEqual([
      { model: GPT, reason: 'model_overloaded' },
      { model: GEMINI, reason: 'model_authentication' },
      { model: last, reason: 'refusal' },
      { model: `claude/${first}`, reason: 'return' },
    ]);
    const models = Object.keys((await session.state()).usage.models ?? {});
    expect(models.toSorted()).toEqual([`claude/${first}`, GPT, GEMINI, last].toSorted());
  });
});

describe('by a changed agent', () => {
  test.each(CLAUDE_MODELS)('%s → GPT → Gemini → Claude → GPT → Gemini', async (name, binds) => {
    const all = await world({
      claude: [called('claude', 1, 2), 'hold', called('claude', 6), said('claude', 'three'), said('claude', 'four')],
      gpt: [called('gpt', 3), said('gpt', 'one'), called('gpt', 4), 'hold', called('gpt', 7, 8), said('gpt', 'five')],
      gemini: [called('gemini', 5), said('gemini', 'two'), 'hold', called('gemini', 9), said('gemini', 'six')],
    });
    const tools = [all.charge];
    const claude = agent({ name: 'helper', model: `claude/${name}`, thinking: { type: 'adaptive' }, tools });
    const gpt = agent({ name: 'helper', model: GPT, tools });
    const google = agent({ name: 'helper', model: GEMINI, tools });
    let session = await all.open(claude);
    const one = await session.send('One');
    await all.kill('claude');
    session = await all.open(gpt);
    expect(await (await session.receipt(one.id)).answer()).toBe('one');
    const two = await session.send('Two');
    await all.kill('gpt');
    session = await all.open(google);
    expect(await (await session.receipt(two.id)).answer()).toBe('two');
    const three = await session.send('Three');
    await all.kill('gemini');
    session = await all.open(claude);
    expect(await (await session.receipt(three.id)).answer()).toBe('three');
    expect(await session.ask('Four')).toBe('four');
    session = await all.reopen(gpt);
    expect(await session.ask('Five')).toBe('five');
    session = await all.reopen(google);
    expect(await session.ask('Six')).toBe('six');

    expectApart(all);
    expect(all.runs).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expectKept(all.bodies.gpt);
    expectKept(all.bodies.gemini);
    // After the return to GPT and Gemini, their own thoughts of before it come back.
    const { claude: toClaude, gpt: toGpt, gemini: toGemini } = all.bodies;
    expect(counts(toClaude)).toEqual(binds ? [0, 1, 0, 1, 2] : [0, 1, 1, 2, 3]);
    expect([counts(toGpt), counts(toGemini)]).toEqual([
      [0, 1, 2, 3, 3, 4],
      [0, 2, 4, 4, 6],
    ]);
  });
});
