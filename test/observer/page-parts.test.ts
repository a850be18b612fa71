/**
 * Goal: the parts of the page work without a browser: batches, windows, streams cut anywhere, the parser of answers,
 * the rates. Method: examples at the limits of each part, and random texts in random pieces for the stream parser.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type StreamEvent, StreamParser, StreamTooLongError } from '../../src/client/stream-parser.ts';
import { draftValue, firstDraft } from '../../src/observer/model/answer-draft.ts';
import { frameBatch } from '../../src/observer/model/frame-batch.ts';
import { MetricsHistory } from '../../src/observer/model/metrics-history.ts';
import { scrollTo, virtualWindow } from '../../src/observer/model/virtual-window.ts';
import { ageText, countText, markOf, rateText } from '../../src/observer/model/wording.ts';
import {
  readDetail,
  readEvent,
  readMessages,
  readMetrics,
  readRequest,
  readSessions,
  readViewedEvent,
  readWaiting,
  WireError,
} from '../../src/observer/wire.ts';

describe('a batch', () => {
  function batchOf(itemsMax: number): { add(item: number): void; frame(): void; readonly taken: unknown[] } {
    const frames: (() => void)[] = [];
    const taken: unknown[] = [];
    const batch = frameBatch<number>({
      itemsMax,
      schedule: (run) => frames.push(run),
      take: (items, lost) => taken.push([...items, ...(lost > 0 ? [`lost ${lost}`] : [])]),
    });
    const frame = (): void => {
      for (const run of frames.splice(0)) run();
    };
    return { add: (item) => batch.add(item), frame, taken };
  }

  test('B1: hands over all events of a frame at once, in order, and nothing in a frame without events', () => {
    const { add, frame, taken } = batchOf(10);
    for (const item of [1, 2, 3]) add(item);
    frame();
    frame();
    add(4);
    frame();
    expect(taken).toEqual([[1, 2, 3], [4]]);
  });

  test('B2: drops the oldest beyond the bound, and reports the number', () => {
    const { add, frame, taken } = batchOf(4);
    for (let item = 1; item <= 5; item += 1) add(item);
    frame();
    expect(taken).toEqual([[3, 4, 5, 'lost 2']]);
  });
});

describe('a window', () => {
  test('of ten thousand rows holds the visible ones and a few more', () => {
    const { first, end, heightPx } = virtualWindow({ count: 10_000, rowPx: 30, topPx: 150_000, framePx: 600 });
    expect([first, end, heightPx]).toEqual([4_992, 5_028, 300_000]);
  });

  test('shows the end of a list that has become shorter', () => {
    expect(virtualWindow({ count: 5, rowPx: 30, topPx: 9_000, framePx: 600 })).toEqual({
      first: 0,
      end: 5,
      heightPx: 150,
    });
    expect(virtualWindow({ count: 0, rowPx: 30, topPx: 0, framePx: 600 })).toEqual({ first: 0, end: 0, heightPx: 0 });
  });

  test('scrolls only as far as needed to show a row', () => {
    const list = { rowPx: 30, topPx: 300, framePx: 300 };
    expect([scrollTo(9, list), scrollTo(10, list), scrollTo(19, list), scrollTo(20, list)]).toEqual([
      ...[270, undefined, undefined, 330],
    ]);
  });
});

describe('a stream', () => {
  const parse = (pieces: readonly string[]): readonly StreamEvent[] => {
    const events: StreamEvent[] = [];
    const parser = new StreamParser((event) => events.push(event));
    for (const piece of pieces) parser.push(piece);
    return events;
  };

  test('P1, P2: types, ids and data of several lines are read; comments and unknown fields are skipped', () => {
    const text = '\uFEFF: hello\n\nevent: a\nid: 7\ndata: one\ndata:two\nretry: 5\n\ndata: three\n\nevent: b\n\n';
    expect(parse([text])).toEqual([
      { type: 'a', id: '7', data: 'one\ntwo' },
      { type: 'message', id: '7', data: 'three' },
    ]);
  });

  test('P1: gives the same events wherever it is cut, with any line ends', () => {
    const line = fc.string({ unit: fc.constantFrom('a', 'ü', ' ', ':', '😀'), maxLength: 8 });
    fc.assert(
      fc.property(
        fc.array(fc.array(line, { minLength: 1, maxLength: 3 }), { maxLength: 6 }),
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.array(fc.nat(200), { maxLength: 8 }),
        (events, end, cuts) => {
          const text = events.map((lines) => lines.map((each) => `data: ${each}${end}`).join('') + end).join('');
          // A lone return at the very end may be half of a pair, so another byte follows it.
          const whole = `${text}: end${end}x`;
          const places = [0, ...cuts.map((cut) => cut % whole.length).sort((a, b) => a - b), whole.length];
          const pieces = places.slice(1).map((place, index) => whole.slice(places[index], place));
          expect(parse(pieces).map((event) => event.data)).toEqual(events.map((lines) => lines.join('\n')));
        },
      ),
    );
  });

  test('a line without an end is refused, not buffered', () => {
    const parser = new StreamParser(() => undefined);
    const piece = 'x'.repeat(1024 * 1024);
    expect(() => {
      for (let count = 0; count < 20; count += 1) parser.push(piece);
    }).toThrow(StreamTooLongError);
  });
});

describe('the parser of answers', () => {
  const session = { id: 's', agent: 'a', state: 'idle', mailbox: 2, updatedAt: 5, more: true };

  test('takes the known members and drops all others', () => {
    expect(readSessions({ sessions: [session], next: 's' })).toEqual({
      sessions: [{ id: 's', agent: 'a', state: 'idle', mailbox: 2, updatedAt: 5 }],
      next: 's',
    });
    expect(readSessions({ sessions: [{ ...session, version: '2' }] }).sessions).toMatchObject([{ agent: 'a@2' }]);
    expect(readDetail({ ...session, phase: 'paused', blocked: { message: 'no key' }, seq: 4 })).toMatchObject({
      phase: 'paused',
      blocked: 'no key',
      seq: 4,
    });
  });

  test.each([
    ['no list', {}],
    ['no object', 'sessions'],
    ['a session without an id', { sessions: [{ ...session, id: undefined }] }],
    ['a state nobody knows', { sessions: [{ ...session, state: 'asleep' }] }],
  ])('refuses %s', (_name, body) => {
    expect(() => readSessions(body)).toThrow(WireError);
  });

  test('refuses invalid messages', () => {
    expect(() => readMessages({ messages: [{ seq: 1, type: 'user_message' }] })).toThrow(WireError);
  });

  test('events of unknown types, or with invalid members, are dropped', () => {
    const event = { type: 'session.state', session: 's', at: 1, state: 'idle' };
    expect(readEvent(JSON.stringify(event))).toEqual(event);
    const bad = [
      ...['{', '3', 'null', '{}'],
      ...[
        { ...event, state: 'asleep' },
        { ...event, type: 'toString' },
        { ...event, at: 'now' },
      ].map((each) => JSON.stringify(each)),
      ...[
        { ...event, type: 'message.created' },
        { ...event, type: 'pending.created', pending: {} },
      ].map((each) => JSON.stringify(each)),
    ];
    expect(bad.map(readEvent)).toEqual(bad.map(() => undefined));
  });

  test('F021: an event without content updates the tree alone; the conversation reads whole events', () => {
    const message = { seq: 1, type: 'user_message', at: 1 };
    const entry = { id: 1, type: 'user_message', at: 1 };
    const error = { name: 'E', code: 'internal', message: 'm' };
    const viewed = [
      { type: 'message.created', message },
      { type: 'pending.created', pending: entry },
      { type: 'history.changed', operation: 'o', removed: [], created: [message], updated: [] },
      { type: 'text.delta', turn: 't' },
      { type: 'bounce_back', error },
    ].map((body) => ({ session: 's', at: 1, ...body }));
    for (const event of viewed) {
      expect(readViewedEvent(JSON.stringify(event))).toEqual(event);
      expect(readEvent(JSON.stringify(event))).toBeUndefined();
    }
    const whole = [
      { type: 'message.created', message: { ...message, content: 'hi' } },
      { type: 'bounce_back', error, content: 'hi' },
    ].map((body) => ({ session: 's', at: 1, ...body }));
    for (const event of whole) expect(readEvent(JSON.stringify(event))).toEqual(event);
    expect(readViewedEvent(JSON.stringify({ ...viewed[0], message: { ...message, seq: '1' } }))).toBeUndefined();
  });

  test('a request arrives alone or in a report, with or without its violations', () => {
    const violation = { rule: 'R01', path: 'messages.0', message: 'no', fatal: true };
    expect(readRequest({ model: 'm', violations: [violation] })).toEqual({
      request: { model: 'm' },
      violations: [violation],
    });
    expect(readRequest({ request: { model: 'm' } })).toEqual({ request: { model: 'm' } });
  });
});

describe('the counters', () => {
  const look = (at: number, halfSteps: number, flushes: number): { at: number; counters: Record<string, number> } => ({
    at,
    counters: { halfSteps, flushes, journalTurns: flushes * 8 },
  });

  test('M1: rates are computed over the time between two samples', () => {
    const metrics = new MetricsHistory();
    expect(metrics.figures().halfStepRate).toBeUndefined();
    metrics.add(look(1_000, 100, 10));
    metrics.add(look(3_000, 500, 20));
    expect(metrics.figures()).toMatchObject({ halfStepRate: 200, commitTurns: 8, flushRate: 5, history: [200] });
  });

  test('providers have figures if there are several, with the reason why calls of one are stopped', () => {
    const metrics = new MetricsHistory();
    const figuresOf = (providers: object): unknown => {
      metrics.clear();
      metrics.add({ at: 1_000, ...readMetrics({ halfSteps: 1, providers }) });
      return metrics.figures().providers;
    };
    const figures = { modelCallsRunning: 2, modelCallsWaiting: 1, circuitsOpen: 0, credentialsRefused: 0 };
    expect(figuresOf({ '': figures })).toEqual([]);
    const down = { ...figures, circuitsOpen: 1 };
    const refused = { ...figures, credentialsRefused: 1 };
    expect(figuresOf({ one: figures, two: down, three: refused })).toEqual([
      { name: 'one', running: 2, waiting: 1, trouble: undefined },
      { name: 'two', running: 2, waiting: 1, trouble: 'does not answer' },
      { name: 'three', running: 2, waiting: 1, trouble: 'refused the credentials' },
    ]);
  });

  test('M1: a restarted server begins a new history', () => {
    const metrics = new MetricsHistory();
    metrics.add(look(1_000, 100, 10));
    metrics.add(look(2_000, 3, 1));
    expect(metrics.figures()).toMatchObject({ halfStepRate: undefined, history: [] });
    metrics.add(look(3_000, 13, 1));
    expect(metrics.figures()).toMatchObject({ halfStepRate: 10, commitTurns: undefined });
  });
});

test('figures are shown in few characters', () => {
  expect([0, 950, 1_234, 9_990, 34_400, 999_999, 5_600_000].map(countText)).toEqual([
    ...['0', '950', '1.2k', '10k', '34k', '1.0M', '5.6M'],
  ]);
  expect([0.04, 3.25, 12.6, 21_345].map(rateText)).toEqual(['0', '3.3', '13', '21,345']);
  expect([-5, 900, 61_000, 7_200_000, 200_000_000].map(ageText)).toEqual(['0s', '0s', '1m', '2h', '2d']);
});

test('the action required of a person is shown first, then the work of the session, then how it ended', () => {
  const node = { state: 'executing', phase: undefined, trouble: undefined, ended: undefined, isQueued: false } as const;
  expect(markOf({ ...node, phase: 'approval' })).toBe('approval');
  expect(markOf({ ...node, phase: 'question' })).toBe('question');
  expect(markOf(node)).toBe('tools');
  expect(markOf({ ...node, state: 'awaiting', phase: 'retrying' })).toBe('retrying');
  expect(markOf({ ...node, state: 'idle', trouble: 'no', ended: 'completed' })).toBe('stopped');
  expect(markOf({ ...node, state: 'idle', ended: 'failed' })).toBe('failed');
  expect(markOf({ ...node, state: 'idle', ended: 'completed' })).toBe('ended');
  expect(markOf({ ...node, state: 'idle' })).toBe('idle');
  expect(markOf({ ...node, state: 'idle', isQueued: true })).toBe('queued');
});

describe('an answer to a question', () => {
  const schema = {
    type: 'object',
    properties: {
      row: { type: 'integer', minimum: 1 },
      seat: { $ref: '#/$defs/seat' },
      meals: { type: 'array', items: { type: 'string' } },
      class: { enum: ['second', 'first'] },
      note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      quiet: { type: ['null', 'boolean'] },
      late: { type: 'boolean', default: true },
      left: { type: 'string' },
    },
    required: ['row', 'seat', 'meals', 'class', 'note', 'quiet', 'late'],
    $defs: { seat: { type: 'object', properties: { window: { type: 'boolean' } } } },
  };

  test('begins with the properties that its schema requires, or with all if it requires none', () => {
    expect(JSON.parse(firstDraft(schema))).toEqual({
      row: 1,
      seat: { window: false },
      meals: [],
      class: 'second',
      note: '',
      quiet: false,
      late: true,
    });
    expect(firstDraft({ type: 'number' })).toBe('0');
    expect(firstDraft(undefined)).toBe('');
    // A schema that has itself ends at a level.
    const endless = {
      $ref: '#/$defs/a',
      $defs: { a: { type: 'object', properties: { next: { $ref: '#/$defs/a' } } } },
    };
    expect(JSON.parse(firstDraft(endless))).toEqual({ next: { next: null } });
    expect(firstDraft({ $ref: '#/toString/x' })).toBe('null');
  });

  test('is the text itself, or the JSON that a schema asks for', () => {
    expect(draftValue('7', undefined)).toEqual({ value: '7' });
    expect(draftValue(' ', undefined)).toEqual({ problem: 'The answer is empty.' });
    expect(draftValue('{"row":7}', schema)).toEqual({ value: { row: 7 } });
    expect(draftValue('row 7', schema)).toEqual({ problem: expect.stringContaining('This is not JSON: ') });
  });

  test('a question of the queue keeps its members, and those of a wrong form are left out', () => {
    const call = { session: 's', callId: 'q', toolName: 'ask', kind: 'question', input: {}, at: 1 };
    const asked = { ...call, question: 'Why?', choices: ['a', 'b'], schema: { type: 'string' }, server: 'files' };
    expect(readWaiting({ waiting: [asked] }).calls).toEqual([asked]);
    const wrong = { ...call, question: 7, choices: 'a', schema: [], server: {} };
    expect(readWaiting({ waiting: [wrong] }).calls).toEqual([call]);
    const event = { type: 'question.asked', session: 's', at: 1, toolUseId: 'q', toolName: 'ask', asked: 'human' };
    expect(readViewedEvent(JSON.stringify(event))).toEqual(event);
    expect(readEvent(JSON.stringify(event))).toBeUndefined();
    expect(readEvent(JSON.stringify({ ...event, question: 'Why?' }))).toEqual({ ...event, question: 'Why?' });
  });
});
