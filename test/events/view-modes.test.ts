/**
 * Goal: each cell of the rendering table (contract §10.5), one by one, and the nesting of the modes. Method: one row,
 * five columns.
 */
import { describe, expect, test } from 'vitest';
import type { Message, MessageType, Pending, PendingType } from '../../src/base/messages.ts';
import type { SessionEvent } from '../../src/events/event.ts';
import { type Rendered, VIEW_MODES } from '../../src/events/rendered.ts';
import { compactText, cutMiddle, firstLines, MIDDLE_CHARACTERS_MAX } from '../../src/events/shortening.ts';
import { transcript } from '../../src/events/transcript.ts';
import { checkViewMode, renderMessage, renderPending } from '../../src/events/view-modes.ts';
import { type ViewedEvent, viewEvent } from '../../src/events/viewed-event.ts';
import { delta, durable, progress } from './packing/event-samples.ts';

const AT = 1_700_000_000_000;
const LONG = Array.from({ length: 200 }, (_, line) => `line ${line}`).join('\n');
const THREE = 'line 0\nline 1\nline 2\n...';
const MIDDLE = cutMiddle(LONG);

function message(type: MessageType, rest: Partial<Message> = {}): Message {
  return { seq: 7, type, content: LONG, at: AT, tokens: 42, ...rest };
}

function entry(type: PendingType, rest: Partial<Pending> = {}): Pending {
  return { id: 3, type, kind: 'active', content: LONG, at: AT, source: { type: 'user' }, ...rest };
}

interface Row {
  readonly kind: string;
  readonly of: Message | Pending;
  readonly basic: Rendered | null;
  readonly verbose: Rendered | null;
  readonly debug: Rendered | null;
  readonly melete: readonly string[];
  readonly mneme: readonly string[];
}

const spoken = (type: 'user_message' | 'agent_message', role: 'user' | 'assistant', name: string): Row => ({
  kind: type,
  of: message(type),
  basic: { role, content: LONG },
  verbose: { role, content: LONG, timestamp: AT },
  debug: { role, content: LONG, timestamp: AT, tokens: 42 },
  melete: [`${name}: ${MIDDLE}`],
  mneme: [`message 7 ${name}: ${LONG}`],
});

function call(kind: string, toolName: string, input: unknown, verbose: string, debug: string): Row {
  return {
    kind: `tool_call ${kind}`,
    of: message('tool_call', { toolName, input, toolUseId: 'c1' }),
    basic: null,
    verbose: { role: 'tool_call', tool: toolName, input: verbose, timestamp: AT },
    debug: { role: 'tool_call', tool: toolName, input: debug, tool_use_id: 'c1', timestamp: AT },
    melete: [`Tool call: ${toolName}(${JSON.stringify(input ?? {})})`],
    mneme: ['[1 tool called]'],
  };
}

function thought(kind: string, input: unknown, visibility: 'inner' | 'aloud', content: string): Row {
  const verbose = { role: 'think', content, visibility, timestamp: AT } as const;
  return {
    kind: `think ${kind}`,
    of: message('tool_call', { toolName: 'think', input, toolUseId: 'c1' }),
    basic: visibility === 'aloud' ? { role: 'think', content, visibility } : null,
    verbose,
    debug: { ...verbose, tool_use_id: 'c1' },
    melete: [`Think: ${content}`],
    mneme: [`message 7 Think: ${content}`],
  };
}

function response(kind: string, rest: Partial<Message>, success: boolean): Row {
  return {
    kind: `tool_response ${kind}`,
    of: message('tool_response', { toolName: 'bash', toolUseId: 'c1', ...rest }),
    basic: null,
    verbose: { role: 'tool_response', tool: 'bash', content: THREE, success, timestamp: AT },
    debug: {
      role: 'tool_response',
      tool: 'bash',
      content: LONG,
      success,
      timestamp: AT,
      tool_use_id: 'c1',
      tokens: 42,
    },
    melete: [success ? '✅' : '❌'],
    mneme: [],
  };
}

function waiting(of: Pending, shown: Omit<Rendered, 'content' | 'status'>, melete: string, mneme: string | null): Row {
  return {
    kind: `pending ${of.type}`,
    of,
    basic: null,
    verbose: { ...shown, content: THREE, status: 'pending' },
    debug: { ...shown, content: LONG, status: 'pending' },
    melete: [melete],
    mneme: mneme === null ? [] : [mneme],
  };
}

const fromUser: Rendered = { role: 'user', content: LONG, status: 'pending' };
const ROWS: readonly Row[] = [
  spoken('user_message', 'user', 'User'),
  spoken('agent_message', 'assistant', 'Assistant'),
  {
    kind: 'system_message',
    of: message('system_message'),
    basic: null,
    verbose: { role: 'system', content: LONG, timestamp: AT },
    debug: { role: 'system', content: LONG, timestamp: AT },
    melete: [],
    mneme: [`message 7 System: ${LONG}`],
  },
  call('bash', 'bash', { command: 'ls -l' }, '$ ls -l', 'command: ls -l'),
  call('bash without a command', 'bash', { commands: ['a', 'b'] }, '$ ', 'commands: [a, b]'),
  call('web_get', 'web_get', { url: 'https://a.example/' }, 'GET https://a.example/', 'url: https://a.example/'),
  call('read_file', 'read_file', { path: 'a.ts', limit: 2 }, 'a.ts', 'path: a.ts\nlimit: 2'),
  call('edit_file', 'edit_file', { path: 'a.ts', old_text: 'x' }, 'a.ts', 'path: a.ts\nold_text: x'),
  call('write_file', 'write_file', { path: 'a.ts', content: 'one\ntwo' }, 'a.ts', 'a.ts\none\ntwo'),
  call('write_file of nothing', 'write_file', { path: 'a.ts', content: '' }, 'a.ts', 'path: a.ts\ncontent: '),
  call('another', 'find', { a: 1, b: { c: [1, 2] }, d: 'x' }, 'a: 1\nb:\n...', 'a: 1\nb:\n  c: [1, 2]\nd: x'),
  call('without input', 'find', undefined, '', ''),
  thought('inner', { thoughts: 'Hm.', visibility: 'inner' }, 'inner', 'Hm.'),
  thought('without visibility', { thoughts: 'Hm.' }, 'inner', 'Hm.'),
  thought('aloud', { thoughts: 'Hm.', visibility: 'aloud' }, 'aloud', 'Hm.'),
  thought('of nonsense', ['Hm.'], 'inner', ''),
  response('that succeeded', {}, true),
  response('that says so', { success: true }, true),
  response('that failed', { success: false }, false),
  {
    kind: 'tool_response of think',
    of: message('tool_response', { toolName: 'think', toolUseId: 'c1', content: 'OK' }),
    basic: null,
    verbose: null,
    debug: {
      role: 'tool_response',
      tool: 'think',
      content: 'OK',
      success: true,
      timestamp: AT,
      tool_use_id: 'c1',
      tokens: 42,
    },
    melete: [],
    mneme: [],
  },
  {
    kind: 'pending user_message',
    of: entry('user_message'),
    basic: fromUser,
    verbose: fromUser,
    debug: fromUser,
    melete: [`User (pending): ${MIDDLE}`],
    mneme: [`User (pending): ${MIDDLE}`],
  },
  waiting(
    entry('tool_response', { toolUseId: 'c1', success: false, source: { type: 'tool', name: 'bash' } }),
    { role: 'tool_response', tool: 'bash', success: false, tool_use_id: 'c1' },
    `tool_response c1 (pending): ${MIDDLE}`,
    `tool_response c1 (pending): ${MIDDLE}`,
  ),
  waiting(
    entry('subagent', { source: { type: 'subagent', name: 'sleuth' } }),
    { role: 'pending_subagent', source: 'sleuth' },
    `Sub-agent sleuth (pending): ${MIDDLE}`,
    `Sub-agent sleuth (pending): ${MIDDLE}`,
  ),
  waiting(
    entry('from_mneme', { kind: 'background', source: { type: 'recall', name: '4' } }),
    { role: 'pending_mneme' },
    `Mneme recalled (pending): ${MIDDLE}`,
    null,
  ),
  waiting(
    entry('from_melete_skill', { kind: 'background', source: { type: 'skill', name: 'review' } }),
    { role: 'pending_melete', kind: 'skill', source: 'review' },
    'Melete activated skill: review',
    null,
  ),
  waiting(
    entry('from_melete_workflow', { kind: 'background', source: { type: 'workflow', name: 'ship' } }),
    { role: 'pending_melete', kind: 'workflow', source: 'ship' },
    'Melete activated workflow: ship',
    null,
  ),
  waiting(
    entry('from_melete_goal', { kind: 'background', source: { type: 'goal', name: '2' } }),
    { role: 'pending_melete', kind: 'goal', source: '2' },
    `Melete logged goal 2: ${MIDDLE}`,
    null,
  ),
];

const isMessage = (of: Message | Pending): of is Message => 'seq' in of;
const tells = (event: ViewedEvent): boolean => event.type === 'message.created' || event.type === 'pending.created';

const told = (of: Message | Pending): SessionEvent =>
  isMessage(of)
    ? { session: 's', at: AT, seq: 1, type: 'message.created', message: of }
    : { session: 's', at: AT, seq: 1, type: 'pending.created', pending: of };

describe.each(ROWS)('F140: $kind', ({ of, melete, mneme, ...row }) => {
  test.each(VIEW_MODES)('F140: the cells of %s', (mode) => {
    expect(isMessage(of) ? renderMessage(of, mode) : renderPending(of, mode)).toEqual(row[mode]);
    const seen = viewEvent(told(of), mode);
    expect(seen?.rendered ?? null).toEqual(row[mode]);
  });

  test('F140: the cells in the transcripts of Melete and Mneme', () => {
    const [messages, pending] = isMessage(of) ? [[of], []] : [[], [of]];
    expect(transcript(messages, pending, 'melete')).toEqual(melete);
    expect(transcript(messages, pending, 'mneme')).toEqual(mneme);
  });
});

test('F140: consecutive calls are one line for Mneme, whatever is answered in between; a thought ends the line', () => {
  const use = message('tool_call', { toolName: 'bash', input: {} });
  const result = message('tool_response', { toolName: 'bash' });
  const think = message('tool_call', { toolName: 'think', input: { thoughts: 'Hm.' } });
  const said = message('user_message', { content: 'Stop' });
  expect(transcript([use, result, use, result, use, think, use, result, said], [], 'mneme')).toEqual([
    '[3 tools called]',
    'message 7 Think: Hm.',
    '[1 tool called]',
    'message 7 User: Stop',
  ]);
});

test('F140: blocks other than text are replaced by a word for their kind', () => {
  const source = { type: 'url', url: 'https://a.example/' };
  const content = [
    { type: 'text', text: 'Look' },
    { type: 'image', source },
    { type: 'document', source },
  ] as const;
  expect(renderMessage(message('user_message', { content }), 'basic')).toEqual({
    role: 'user',
    content: 'Look\n[image]\n[document]',
  });
});

test('F140: a type without a row is an error, never silently empty', () => {
  const strange = 'from_nowhere' as PendingType;
  expect(() => renderPending(entry(strange), 'verbose')).toThrow('"from_nowhere"');
  expect(() => renderMessage(message('telepathy' as MessageType), 'basic')).toThrow('"telepathy"');
  expect(() => transcript([message('telepathy' as MessageType)], [], 'melete')).toThrow('"telepathy"');
  expect(() => transcript([], [entry(strange)], 'mneme')).toThrow('"from_nowhere"');
});

test('F137: the mode is one of three; any other value is refused and named', () => {
  for (const mode of VIEW_MODES) expect(checkViewMode(mode)).toBe(mode);
  for (const mode of ['', 'Basic', 'all', null, 1, undefined]) {
    expect(() => checkViewMode(mode)).toThrow(
      expect.objectContaining({ code: 'config', message: expect.stringContaining('"mode"') }),
    );
  }
});

test('F140: basic is a part of verbose, verbose of debug, and debug is everything', () => {
  const events: readonly SessionEvent[] = [
    ...ROWS.map(({ of }) => told(of)),
    delta('a'),
    durable(5),
    progress('half'),
    { session: 's', at: AT, type: 'thinking.delta', text: 'b', turn: 't' },
    { session: 's', at: AT, seq: 8, type: 'llm.retry', attempt: 1, waitMs: 1_000 },
    { session: 's', at: AT, seq: 9, type: 'llm.retry', attempt: 1, waitMs: 10_000 },
  ];
  const shown = VIEW_MODES.map((mode) => events.map((event) => viewEvent(event, mode)));
  const [basic = [], verbose = [], debug = []] = shown.map((each) =>
    each.flatMap((event, index) => (event !== undefined && (!tells(event) || 'rendered' in event) ? [index] : [])),
  );
  expect(debug).toEqual(events.map((_event, index) => index));
  expect(debug).toEqual(expect.arrayContaining([...verbose]));
  expect(verbose).toEqual(expect.arrayContaining([...basic]));
  expect(basic.length).toBeLessThan(verbose.length);
  expect(verbose.length).toBeLessThan(debug.length);
  // Every mode shows numbered events, because a reader would take a missing number for a loss.
  for (const each of shown)
    for (const [index, event] of events.entries()) if (event.seq !== undefined) expect(each[index]).toBeDefined();
});

describe('shortened texts', () => {
  test('first lines: a short text is kept whole, a longer one ends with dots', () => {
    expect(firstLines('a\nb', 3)).toBe('a\nb');
    expect(firstLines('a\nb\nc', 3)).toBe('a\nb\nc');
    expect(firstLines('a\nb\nc\nd', 3)).toBe('a\nb\nc\n...');
    expect(firstLines('', 3)).toBe('');
  });

  test('cut in the middle: both ends stay, and no character is split', () => {
    expect(cutMiddle('x'.repeat(MIDDLE_CHARACTERS_MAX))).toHaveLength(MIDDLE_CHARACTERS_MAX);
    for (const before of ['', 'a']) {
      const cut = cutMiddle(`${before}${'😀'.repeat(600)}`);
      expect(cut.length).toBeLessThanOrEqual(MIDDLE_CHARACTERS_MAX);
      expect(cut).toContain('\n[...truncated...]\n');
      expect(Buffer.from(cut).toString()).toBe(cut);
    }
    expect(MIDDLE.startsWith('line 0\n')).toBe(true);
    expect(MIDDLE.endsWith('line 199')).toBe(true);
  });

  test('values as text: nested, in lists, and empty', () => {
    expect(compactText({ a: [{ b: 1, c: null }, 2], d: {}, e: [] })).toBe(
      'a:\n  - b: 1\n    c: null\n  - 2\nd: {}\ne: []',
    );
    expect(compactText('text')).toBe('text');
    let deep: unknown = 1;
    for (let level = 0; level < 5_000; level += 1) deep = { deep };
    expect(compactText(deep).split('\n').length).toBeLessThan(50);
  });
});
