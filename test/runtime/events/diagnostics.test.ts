/**
 * Goal: the messages of the diagnostics channels. Method: real runtimes with a scripted model and a listener on every
 * channel. Holes and pauses that a scripted model does not produce are events given to the tracker by hand.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, describe, expect, test } from 'vitest';
import { DIAGNOSTICS_CHANNELS, type DiagnosticsMessages, type DiagnosticsName } from '../../../src/base/diagnostics.ts';
import type { Message } from '../../../src/base/messages.ts';
import { agent, type EventBody, type Runtime, type SessionEvent } from '../../../src/index.ts';
import { DiagnosticsTracker } from '../../../src/runtime/events/diagnostics-tracker.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { add } from '../../support/pure-tools.ts';
import { eventually, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

type Heard = {
  [N in DiagnosticsName]: { readonly channel: N; readonly message: DiagnosticsMessages[N] };
}[DiagnosticsName];

const kit = runtimeKit();
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** Everything published from now on, in order. */
function listen(names: readonly DiagnosticsName[] = Object.keys(DIAGNOSTICS_CHANNELS) as DiagnosticsName[]): Heard[] {
  const heard: Heard[] = [];
  for (const name of names) {
    const listener = (message: unknown): void => void heard.push({ channel: name, message } as Heard);
    subscribe(DIAGNOSTICS_CHANNELS[name], listener);
    stops.push(() => unsubscribe(DIAGNOSTICS_CHANNELS[name], listener));
  }
  return heard;
}

function of<N extends DiagnosticsName>(heard: readonly Heard[], name: N): readonly DiagnosticsMessages[N][] {
  return heard.flatMap((each) => (each.channel === name ? [each.message as DiagnosticsMessages[N]] : []));
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('a turn publishes its parts, each with one begin and one end, and the facts of its session', async () => {
    const heard = listen();
    const runtime = await kit.open({
      threads,
      provider: scripted([{ toolUse: { name: 'add', input: { a: 1, b: 2 } } }, 'three']),
      agents: [agent({ name: 'calculator', model: 'claude-haiku-4-5', tools: [add] })],
    });
    expect(await runtime.session('sum').ask('How much is 1 + 2?')).toBe('three');
    await eventually(() => of(heard, 'turn').length === 2);
    const facts = { session: 'sum', agent: 'calculator', model: 'claude-haiku-4-5', provider: 'scripted', runtime };
    for (const { channel, message } of heard) if (channel !== 'commit') expect(message).toMatchObject(facts);
    expect(of(heard, 'turn')).toMatchObject([
      { phase: 'start' },
      { phase: 'end', turn: 'turn-1', reason: 'end_turn', modelCalls: 2, toolCalls: 1 },
    ]);
    const calls = of(heard, 'modelCall');
    expect(calls.map((call) => [call.phase, call.attempt])).toEqual([
      ['start', 1],
      ['end', 1],
      ['start', 1],
      ['end', 1],
    ]);
    expect(calls[1]).toMatchObject({ stop: 'tool_use', answer: [{ toolName: 'add' }] });
    expect(calls[3]).toMatchObject({ stop: 'end_turn', answer: [{ content: 'three' }] });
    for (const call of calls) if (call.phase === 'end') expect(call.usage?.output_tokens).toBeGreaterThan(0);
    expect(of(heard, 'tool')).toMatchObject([
      { phase: 'start', toolName: 'add', input: { a: 1, b: 2 } },
      { phase: 'end', toolName: 'add', success: true, result: '3' },
    ]);
    const waits = of(heard, 'mailbox').map((each) => `${each.type} ${each.phase}`);
    expect(waits).toEqual(['user_message start', 'user_message end', 'tool_response start', 'tool_response end']);
    const commits = of(heard, 'commit');
    expect(commits.length).toBeGreaterThan(0);
    for (const commit of commits) expect(commit.flushes).toBeGreaterThan(0);
  });

  test('a child is published by its parent before it publishes itself', async () => {
    const heard = listen();
    const runtime = await kit.open({ threads, provider: scripted(() => 'done') as never });
    const child = await runtime.session('root').spawn({ task: 'look', name: 'scout' });
    await child.reply();
    await runtime.drain();
    await eventually(() => of(heard, 'spawn').length === 2);
    expect(of(heard, 'spawn')).toMatchObject([
      { phase: 'start', session: 'root', child: 'root:1', name: 'scout' },
      { phase: 'end', session: 'root', child: 'root:1', name: 'scout' },
    ]);
    const born = heard.findIndex((each) => each.channel === 'spawn');
    const began = heard.findIndex((each) => each.channel === 'turn' && each.message.session === 'root:1');
    expect(born).toBeGreaterThanOrEqual(0);
    expect(began).toBeGreaterThan(born);
    expect(heard[began]?.message).toMatchObject({ parent: 'root', phase: 'start' });
  });
});

test('each attempt of a retried call is published with its own start', async () => {
  const clock = manualClock();
  const heard = listen(['modelCall', 'turn']);
  const overloaded = { error: { status: 529 } };
  const runtime = await kit.open({ clock, random: () => 0.5, provider: scripted([overloaded, 'ok'], { clock }) });
  const receipt = await runtime.session('s').send('hi');
  const answer = receipt.answer();
  await eventually(() => of(heard, 'modelCall').length === 2);
  await clock.advance(120_000);
  expect(await answer).toBe('ok');
  await eventually(() => of(heard, 'turn').length === 2);
  const [first, failed, second, done] = of(heard, 'modelCall');
  expect(first).toMatchObject({ phase: 'start', attempt: 1 });
  expect(failed).toMatchObject({ phase: 'end', attempt: 1, status: 529, answer: [] });
  const waited = failed?.phase === 'end' ? (failed.retryAfterMs ?? 0) : 0;
  expect(waited).toBeGreaterThan(0);
  expect(second).toMatchObject({ phase: 'start', attempt: 2, at: (failed?.at ?? 0) + waited });
  expect(done).toMatchObject({ phase: 'end', attempt: 2, stop: 'end_turn' });
  expect(of(heard, 'turn')[1]).toMatchObject({ modelCalls: 2 });
});

test('a failed turn ends its last attempt with the error, and then the turn itself', async () => {
  const heard = listen(['modelCall', 'turn']);
  const runtime = await kit.open({ provider: scripted([{ error: { status: 400, message: 'no' } }]) });
  const receipt = await runtime.session('s').send('hi');
  await expect(receipt.answer()).rejects.toMatchObject({ code: 'turn_failed' });
  await eventually(() => of(heard, 'turn').length === 2);
  expect(of(heard, 'modelCall')[1]).toMatchObject({ phase: 'end', error: { code: 'model_invalid_request' } });
  expect(of(heard, 'turn')[1]).toMatchObject({ reason: 'failed', error: { code: 'model_invalid_request' } });
});

test('without a subscriber nothing is watched; later the session that comes first is looked up and published', async () => {
  const runtime = await kit.open({ provider: scripted(() => 'ok') as never });
  await runtime.session('before').ask('hi');
  const heard = listen(['turn']);
  await runtime.session('after').ask('hi');
  await eventually(() => heard.length === 2);
  expect(of(heard, 'turn').map(({ session }) => session)).toEqual(['after', 'after']);
  stops.splice(0).forEach((stop) => {
    stop();
  });
  await runtime.session('later').ask('hi');
  expect(heard).toHaveLength(2);
});

test('open operations end as unseen when the runtime closes', async () => {
  const heard = listen(['turn', 'modelCall', 'mailbox']);
  const runtime: Runtime = await kit.open({ provider: scripted(() => new Promise<never>(() => undefined)) as never });
  await runtime.session('s').send('hi');
  await eventually(() => of(heard, 'modelCall').length === 1);
  await runtime.close({ deadlineMs: 0 });
  await eventually(() => of(heard, 'turn').length === 2);
  expect(of(heard, 'turn')[1]).toMatchObject({ phase: 'end', reason: 'unseen' });
  expect(of(heard, 'modelCall')[1]).toMatchObject({ phase: 'end', stop: 'unseen' });
});

test('a thousand sessions that begin at once are all published, and each turn begins and ends', async () => {
  const heard = listen(['turn', 'tool']);
  const ask = { toolUse: { name: 'add', input: { a: 1, b: 2 } } };
  const runtime = await kit.open({
    provider: scripted((request) => (request.messages.length === 1 ? ask : 'three')),
    agents: [agent({ name: 'calculator', tools: [add] })],
  });
  const ids = Array.from({ length: 1_000 }, (_, index) => `s${index}`);
  await Promise.all(ids.map((id) => runtime.session(id).ask('How much is 1 + 2?')));
  await eventually(() => of(heard, 'turn').length >= 2 * ids.length);
  const ended = of(heard, 'turn').filter(({ phase }) => phase === 'end');
  expect(new Set(ended.map(({ session }) => session)).size).toBe(ids.length);
  for (const turn of ended) expect(turn).toMatchObject({ reason: 'end_turn', agent: 'calculator', toolCalls: 1 });
  expect(of(heard, 'tool')).toHaveLength(2 * ids.length);
});

describe('the tracker', () => {
  const facts = { session: 's', provider: 'test', agent: 'a' };
  const usage = { input_tokens: 1, output_tokens: 1 };

  function track(): {
    readonly heard: Heard[];
    readonly tracker: DiagnosticsTracker;
    tell(...bodies: EventBody[]): void;
  } {
    const heard = listen();
    const tracker = new DiagnosticsTracker({}, () => undefined);
    let seq = 0;
    const tell = (...bodies: EventBody[]): void => {
      for (const body of bodies) {
        seq += 1;
        tracker.take({ session: 's', at: seq * 10, seq, ...body } as SessionEvent, facts);
      }
    };
    return { heard, tracker, tell };
  }

  function answer(seq: number, content: string): EventBody {
    const message: Message = { seq, type: 'agent_message', content, at: 0, tokens: 1, usage };
    return { type: 'message.created', message };
  }

  const awaiting: EventBody = { type: 'session.state', state: 'awaiting' };
  const finished: EventBody = { type: 'turn.finished', turn: 'turn-1', reason: 'end_turn', usage };

  test('two answers without a change of state are two calls, the first of them paused', () => {
    const { heard, tell, tracker } = track();
    tell(awaiting, answer(1, 'one'), answer(2, 'two'), { type: 'session.state', state: 'idle' }, finished);
    const ends = of(heard, 'modelCall').flatMap((each) => (each.phase === 'end' ? [each] : []));
    expect(ends.map(({ stop, ms, at }) => [stop, ms, at])).toEqual([
      ['pause_turn', 10, 20],
      ['end_turn', 10, 30],
    ]);
    expect(of(heard, 'turn')[1]).toMatchObject({ modelCalls: 2, ms: 40 });
    expect(tracker.size).toBe(0);
  });

  test('a gap in the numbers ends open operations; a repeated event counts once', () => {
    const { heard, tell, tracker } = track();
    tell(awaiting, { type: 'tool.started', toolUseId: 'a', toolName: 'add' });
    tracker.take({ session: 's', at: 20, seq: 1, ...awaiting } as SessionEvent, facts);
    expect(of(heard, 'turn')).toHaveLength(1);
    tracker.take({ session: 's', at: 90, seq: 9, type: 'eviction', below: 3 }, facts);
    expect(of(heard, 'turn')[1]).toMatchObject({ reason: 'unseen', at: 90 });
    expect(of(heard, 'tool')[1]).toMatchObject({ phase: 'end', success: false });
    expect(tracker.size).toBe(0);
  });

  test('sessions with alternating events stay separate, even if one starts again or is lost', () => {
    const { heard, tracker } = track();
    const take = (session: string, seq: number, body: EventBody): void =>
      tracker.take({ session, at: seq, seq, ...body } as SessionEvent, { session, provider: 'test', agent: 'a' });
    take('s', 1, awaiting);
    take('r', 1, awaiting);
    take('s', 2, finished);
    take('s', 3, awaiting);
    tracker.cutOff('s', 3);
    take('s', 4, finished);
    take('s', 5, awaiting);
    take('r', 2, finished);
    expect(tracker.size).toBe(1);
    tracker.end(9);
    take('s', 6, awaiting);
    expect(tracker.size).toBe(1);
    const turns = of(heard, 'turn').map((turn) => [turn.session, turn.phase === 'end' ? turn.reason : turn.phase]);
    expect(turns).toEqual([
      ['s', 'start'],
      ['r', 'start'],
      ['s', 'end_turn'],
      ['s', 'start'],
      ['s', 'unseen'],
      ['s', 'start'],
      ['r', 'end_turn'],
      ['s', 'unseen'],
      ['s', 'start'],
    ]);
  });

  test('entries leave in any order, and calls end in any order, each with its own start', () => {
    const { heard, tell, tracker } = track();
    const source = { type: 'user' } as const;
    const entry = (id: number, toolUseId?: string): EventBody => ({
      type: 'pending.created',
      pending:
        toolUseId === undefined
          ? { id, type: 'user_message', kind: 'active', content: `text ${id}`, at: 0, source }
          : { id, type: 'tool_response', kind: 'active', content: `result of ${toolUseId}`, at: 0, source, toolUseId },
    });
    const left = (pendingId: number): EventBody => ({ type: 'pending.removed', pendingId, reason: 'recalled' });
    const began = (toolUseId: string): EventBody => ({ type: 'tool.started', toolUseId, toolName: 'add' });
    const ended = (toolUseId: string): EventBody => ({
      type: 'tool.finished',
      toolUseId,
      toolName: 'add',
      success: true,
    });
    tell(entry(1), entry(2), entry(3), left(2), left(2), left(3), left(1));
    expect(tracker.size).toBe(0);
    const waits = of(heard, 'mailbox').map(({ phase, pendingId }) => `${phase} ${pendingId}`);
    expect(waits).toEqual(['start 1', 'start 2', 'start 3', 'end 2', 'end 3', 'end 1']);
    tell(
      awaiting,
      began('a'),
      began('b'),
      began('c'),
      entry(4, 'b'),
      ended('b'),
      entry(5, 'a'),
      ended('a'),
      ended('a'),
    );
    tell(entry(6, 'c'), ended('c'), finished);
    const results = of(heard, 'tool').flatMap((each) => (each.phase === 'end' ? [[each.toolUseId, each.result]] : []));
    expect(results).toEqual([
      ['b', 'result of b'],
      ['a', 'result of a'],
      ['c', 'result of c'],
    ]);
  });

  test('lost events end open operations too, and a waiting entry is dropped', () => {
    const { heard, tell, tracker } = track();
    const source = { type: 'user' } as const;
    tell({
      type: 'pending.created',
      pending: { id: 1, type: 'user_message', kind: 'active', content: 'x', at: 10, source },
    });
    expect(tracker.size).toBe(1);
    tracker.cutOff('s', 50);
    tracker.cutOff('never heard of', 50);
    expect(of(heard, 'mailbox')[1]).toMatchObject({ phase: 'end', reason: 'unseen', waitMs: 40 });
    expect(tracker.size).toBe(0);
  });
});
