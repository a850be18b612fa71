/**
 * Goal: the time line shows for each half-step, tool and child when it waited and when it worked, from the events
 * alone.
 * Method: events by hand with known intervals, then the events of a real runtime, repeated and split.
 */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { agent, type SessionEvent, tool } from '../../src/index.ts';
import { TimeLine } from '../../src/observer/model/time-line.ts';
import { timeRows } from '../../src/observer/model/time-line-rows.ts';
import { durationText, timeScale } from '../../src/observer/model/time-scale.ts';
import type { ObservedEvent } from '../../src/observer/wire.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { history, runtimeKit, uniqueName } from '../support/runtime-kit.ts';

const kit = runtimeKit();

/** Events of a session, numbered. */
function told(...bodies: readonly Record<string, unknown>[]): readonly ObservedEvent[] {
  return bodies.map((body, index) => ({ session: 's', seq: index + 1, ...body }) as unknown as ObservedEvent);
}

const entry = (id: number, at: number, change: Record<string, unknown> = {}): Record<string, unknown> => ({
  type: 'pending.created',
  at,
  pending: { id, type: 'user_message', kind: 'active', content: 'hi', at, source: { type: 'user' }, ...change },
});
const taken = (pendingId: number, at: number): Record<string, unknown> => ({
  type: 'pending.removed',
  at,
  pendingId,
  reason: 'promoted',
});
const state = (name: string, at: number): Record<string, unknown> => ({ type: 'session.state', at, state: name });
const usage = { input_tokens: 10, output_tokens: 5 };

const ROUND = told(
  entry(1, 100),
  state('awaiting', 150),
  taken(1, 150),
  state('executing', 250),
  { type: 'tool.started', at: 250, toolUseId: 't1', toolName: 'read' },
  { type: 'tool.started', at: 250, toolUseId: 't2', toolName: 'bash' },
  entry(2, 300, { type: 'tool_response', toolUseId: 't1', source: { type: 'tool', name: 'read' } }),
  { type: 'tool.finished', at: 300, toolUseId: 't1', toolName: 'read', success: true, ms: 30 },
  entry(3, 400, { type: 'tool_response', toolUseId: 't2', source: { type: 'tool', name: 'bash' } }),
  { type: 'tool.finished', at: 400, toolUseId: 't2', toolName: 'bash', success: false, ms: 150 },
  state('awaiting', 420),
  taken(2, 420),
  taken(3, 420),
  state('idle', 500),
  { type: 'turn.finished', at: 500, turn: 'turn-1', reason: 'end_turn', usage },
);

function lineOf(events: readonly ObservedEvent[]): TimeLine {
  const line = new TimeLine();
  for (const event of events) line.apply(event);
  return line;
}

const texts = (line: TimeLine): readonly string[] =>
  line.spans.map(
    ({ label, stretches, outcome }) =>
      `${label} ${stretches.map(({ kind, from, to }) => `${kind} ${from}-${to ?? ''}`).join(', ')} ${outcome}`,
  );

test('L4: a half-step waits from the message, its tools from the answer, the next half-step from the last result', () => {
  const line = lineOf(ROUND);
  expect(texts(line)).toEqual([
    'half-step 1 wait 100-150, work 150-250 done',
    'read wait 250-270, work 270-300 done',
    'bash work 250-400 failed',
    'half-step 2 wait 400-420, work 420-500 done',
  ]);
  expect(line.turns).toEqual([{ number: 1, from: 150, to: 500, outcome: 'done', reason: 'end_turn', tokens: 15 }]);
  expect([line.isMoving, line.waiting(), line.newestAt]).toEqual([false, [], 500]);
});

test('L4: between attempts a half-step waits, and a failure is marked on it', () => {
  const line = lineOf(
    told(
      entry(1, 100),
      state('awaiting', 100),
      taken(1, 100),
      { type: 'llm.retry', at: 200, attempt: 1, waitMs: 50, code: 'model_overloaded', status: 529 },
      { type: 'session.state', at: 200, state: 'awaiting', phase: 'retrying' },
      state('idle', 400),
      { type: 'turn.failed', at: 400, turn: 'turn-1', error: { name: 'E', code: 'internal', message: 'no model' } },
    ),
  );
  expect(texts(line)).toEqual(['half-step 1 work 100-200, wait 200-250, work 250-400 failed']);
  expect(line.spans[0]?.note).toBe('attempt 1 failed (model_overloaded, 529)');
  expect([line.turns[0]?.outcome, line.turns[0]?.reason]).toEqual(['failed', 'no model']);
});

test('an interrupt during the wait before an attempt ends the wait, and that attempt is not shown', () => {
  const line = lineOf(
    told(state('awaiting', 100), { type: 'llm.retry', at: 200, attempt: 1, waitMs: 5_000 }, state('idle', 300), {
      type: 'turn.finished',
      at: 300,
      turn: 'turn-1',
      reason: 'cancelled',
      usage,
    }),
  );
  expect(texts(line)).toEqual(['half-step 1 work 100-200, wait 200-300 cancelled']);
});

test('a child waits and works by its states; for the past, the log shows only that it existed', () => {
  const line = lineOf(
    told(
      { type: 'child.spawned', at: 100, child: 's:1', name: 'ann' },
      { type: 'child.spawned', at: 100, child: 's:2' },
    ),
  );
  line.childEntered('s:1', 'awaiting', 120);
  line.childEntered('s:1', 'idle', 200);
  line.apply({ type: 'child.state', session: 's', at: 210, child: 's:1', state: 'idle' });
  line.apply({ type: 'child.exited', session: 's', at: 300, seq: 3, child: 's:1', reason: 'completed' });
  line.apply({ type: 'child.exited', session: 's', at: 310, seq: 4, child: 's:2', reason: 'failed' });
  expect(texts(line)).toEqual(['ann unseen 100-120, work 120-200, wait 200-300 done', 's:2 unseen 100-310 failed']);
});

test('a child created while the page is open waits until it works; for an older child, its own log shows that', () => {
  const line = new TimeLine();
  line.setLiveAfter(1);
  for (const event of told(
    { type: 'child.spawned', at: 100, child: 's:1' },
    { type: 'child.spawned', at: 100, child: 's:2' },
  )) {
    line.apply(event);
  }
  line.childEntered('s:2', 'awaiting', 140);
  line.setChildHistory('s:1', [
    { at: 100, isWorking: true },
    { at: 130, isWorking: true },
    { at: 150, isWorking: false },
  ]);
  expect(texts(line)).toEqual(['s:1 work 100-150, wait 150- open', 's:2 wait 100-140, work 140- open']);
  line.apply({ type: 'child.exited', session: 's', at: 200, seq: 3, child: 's:1', reason: 'completed' });
  line.setChildHistory('s:1', [{ at: 120, isWorking: true }]);
  expect(texts(line)[0]).toBe('s:1 wait 100-120, work 120-200 done');
});

test('a question is a call that waits from the moment it is asked', () => {
  const line = lineOf(
    told(state('executing', 100), {
      type: 'question.asked',
      at: 100,
      toolUseId: 'q',
      toolName: 'ask',
      asked: 'parent',
      question: 'Why?',
    }),
  );
  expect([texts(line), line.isMoving]).toEqual([['ask wait 100- open'], true]);
  const finished = { type: 'tool.finished', toolUseId: 'q', toolName: 'ask', success: true } as const;
  line.apply({ ...finished, session: 's', at: 900, seq: 9 });
  expect(texts(line)).toEqual(['ask wait 100-900 done']);
});

test('a call is shown as waiting for a person until it is answered', () => {
  const line = lineOf(
    told(
      state('executing', 100),
      { type: 'tool.started', at: 100, toolUseId: 't1', toolName: 'bash' },
      { type: 'approval.required', at: 100, toolUseId: 't1', toolName: 'bash', input: {} },
    ),
  );
  expect([texts(line), line.isMoving]).toEqual([['bash wait 100- open'], true]);
  line.apply({
    type: 'tool.finished',
    session: 's',
    at: 900,
    seq: 9,
    toolUseId: 't1',
    toolName: 'bash',
    success: true,
    ms: 100,
  });
  expect(texts(line)).toEqual(['bash wait 100-800, work 800-900 done']);
});

test('L2: repeated durable events are folded once', () => {
  expect(texts(lineOf([...ROUND, ...ROUND]))).toEqual(texts(lineOf(ROUND)));
});

test('L3: beyond the bound of spans the oldest are removed with their turns', () => {
  const line = new TimeLine(10);
  for (let turn = 1; turn <= 50; turn += 1) {
    const at = turn * 100;
    const events = [
      { type: 'session.state', state: 'awaiting', at },
      { type: 'session.state', state: 'idle', at: at + 10 },
      { type: 'turn.finished', turn: `turn-${turn}`, reason: 'end_turn', usage, at: at + 10 },
    ];
    for (const event of events) line.apply({ session: 's', ...event } as ObservedEvent);
  }
  expect(line.spans.length).toBeLessThanOrEqual(10);
  expect(line.left + line.spans.length).toBe(50);
  expect(line.turns[0]?.number).toBe(line.spans[0]?.turn);
});

test('L1: the events of a real session make whole spans, replayed or live', async () => {
  const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
  const provider = scripted([{ text: 'Let me see.', toolUse: { name: 'look', input: {} } }, 'Done.', 'Again.']);
  const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [look] })] });
  const session = runtime.session(uniqueName());
  await session.ask('one');
  await session.ask('two');
  const events: readonly SessionEvent[] = await history(session);
  const line = lineOf(events);
  expect(line.spans.map(({ kind, label, turn, outcome }) => `${turn} ${kind} ${label} ${outcome}`)).toEqual([
    '1 half-step half-step 1 done',
    '1 tool look done',
    '1 half-step half-step 2 done',
    '2 half-step half-step 3 done',
  ]);
  for (const { stretches } of line.spans) {
    for (const [index, { from, to }] of stretches.entries()) {
      expect(to).toBeGreaterThanOrEqual(from);
      expect(from).toBe(stretches[index - 1]?.to ?? from);
    }
  }
  expect(texts(lineOf([...events.slice(0, 5), ...events]))).toEqual(texts(line));
});

test('the rows of the last turn exclude earlier turns, and count waiting and working time', () => {
  const line = lineOf(ROUND);
  const { rows, waitMs, workMs } = timeRows(line, 'turn', 1_000);
  expect(rows.map((row) => row.key)).toEqual(['turn 1', 'step 1', 'tool t1', 'tool t2', 'step 2']);
  expect([waitMs, workMs]).toEqual([50 + 20 + 20, 100 + 30 + 150 + 80]);
  line.apply({ ...told(state('awaiting', 700))[0], seq: 99 } as ObservedEvent);
  expect(timeRows(line, 'turn', 1_000).rows.map((row) => row.key)).toEqual(['turn 2', 'step 3']);
  expect(timeRows(line, 'all', 1_000).rows).toHaveLength(7);
});

test('each entry now waiting in the mailbox has a row, up to the bound', () => {
  const line = new TimeLine();
  for (let id = 1; id <= 80; id += 1) line.apply(told({ ...entry(id, 100 + id), seq: id })[0] as ObservedEvent);
  expect(timeRows(line, 'all', 500).rows).toHaveLength(50);
});

test('the scale keeps the order of times, and shortens long idle stretches', () => {
  const clock = (at: number): string => String(at);
  const busy = [
    { from: 0, to: 1_000 },
    { from: 900, to: 2_000 },
    { from: 10_000_000, to: 10_001_000 },
  ];
  const { place, ticks } = timeScale(busy, clock);
  const places = [0, 500, 1_000, 2_000, 5_000_000, 10_000_000, 10_000_500, 10_001_000].map(place);
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect([places[0], places.at(-1)]).toEqual([0, 1]);
  expect((places[5] ?? 0) - (places[3] ?? 0)).toBeLessThan(0.02);
  expect(ticks.filter((tick) => tick.isBreak).map((tick) => tick.label)).toEqual(['10000000']);
  expect(timeScale([], clock).ticks).toEqual([]);
  expect(timeScale([{ from: 5, to: 5 }], clock).place(5)).toBe(0);
  const many = Array.from({ length: 500 }, (_, index) => ({ from: index * 100_000, to: index * 100_000 + 10 }));
  const far = timeScale(many, clock);
  expect(far.place(499 * 100_000 + 10)).toBeCloseTo(1);
});

test.each([
  [0.2, '0 ms'],
  [12.4, '12 ms'],
  [1_500, '1.5 s'],
  [59_900, '59.9 s'],
  [61_000, '1 min 1 s'],
  [7_260_000, '2 h 1 min'],
])('%s ms is shown as %s', (ms, words) => {
  expect(durationText(ms)).toBe(words);
});
