/**
 * Goal: a turn as an AG-UI run. Method: real runtimes with a scripted model. Each event is parsed by the schemas of
 * `@ag-ui/core`. Each step, message and call that an event opens must be closed before the run ends.
 */
import { EventSchema } from '@ag-ui/core/schemas';
import { describe, expect, test } from 'vitest';
import { type AgUiEvent, agUiEvents, agUiInput, agUiResponse } from '../../src/adapters/ag-ui.ts';
import { agent, type OpenOptions, type Runtime, type Session } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { add } from '../support/pure-tools.ts';
import { eventually, gatedModel, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const calculator = agent({ name: 'calculator', tools: [add] });

/** The events of one response, each as the protocol's schema reads it. */
async function eventsOf(response: Response): Promise<readonly AgUiEvent[]> {
  const lines = (await response.text()).split('\n\n').filter((text) => text !== '');
  return lines.map((text) => {
    expect(text.startsWith('data: ')).toBe(true);
    const sent = JSON.parse(text.slice('data: '.length)) as AgUiEvent;
    // Parsing must neither drop nor fill in members.
    expect(EventSchema.parse(sent)).toMatchObject(sent);
    return sent;
  });
}

async function runOf(
  options: OpenOptions,
  content: string,
): Promise<{ readonly runtime: Runtime; readonly events: readonly AgUiEvent[] }> {
  const runtime = await kit.open(options);
  return { runtime, events: await eventsOf(await agUiResponse(runtime.session('s'), content)) };
}

/** The protocol requires the run first and last, with steps, messages and calls closed inside it. */
function checkNesting(events: readonly AgUiEvent[]): void {
  const open = new Set<string>();
  const pairs = [
    'STEP_STARTED STEP_FINISHED stepName',
    'TEXT_MESSAGE_START TEXT_MESSAGE_END messageId',
    'REASONING_START REASONING_END messageId',
    'REASONING_MESSAGE_START REASONING_MESSAGE_END messageId',
    'TOOL_CALL_START TOOL_CALL_END toolCallId',
  ];
  for (const event of events) {
    for (const pair of pairs) {
      const [start = '', end = '', key = ''] = pair.split(' ');
      const name = `${start} ${String(event[key])}`;
      if (event.type === start) expect(open.has(name) ? name : undefined).toBeUndefined();
      if (event.type === start) open.add(name);
      if (event.type === end) expect(open.delete(name), name).toBe(true);
    }
  }
  expect([...open]).toEqual([]);
  expect(events[0]?.type).toBe('RUN_STARTED');
  const ends = events.filter(({ type }) => type === 'RUN_FINISHED' || type === 'RUN_ERROR');
  expect(ends).toEqual([events.at(-1)]);
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('text, thinking, a tool call and its result form one run', async () => {
    const { events } = await runOf(
      {
        threads,
        agents: [calculator],
        provider: scripted([
          { thinking: 'hm', text: 'I add.', toolUse: { name: 'add', input: { a: 1, b: 2 } } },
          'Three.',
        ]),
      },
      '1 + 2?',
    );
    checkNesting(events);
    const text = (type: string): string =>
      events
        .filter((event) => event.type === type)
        .map(({ delta }) => delta)
        .join('');
    expect(text('TEXT_MESSAGE_CONTENT')).toBe('I add.Three.');
    expect(text('REASONING_MESSAGE_CONTENT')).toBe('hm');
    expect(JSON.parse(text('TOOL_CALL_ARGS'))).toEqual({ a: 1, b: 2 });
    const call = events.find(({ type }) => type === 'TOOL_CALL_START');
    expect(call).toMatchObject({ toolCallName: 'add' });
    expect(events.find(({ type }) => type === 'TOOL_CALL_RESULT')).toMatchObject({
      toolCallId: call?.['toolCallId'],
      content: '3',
    });
    expect(events.filter(({ type }) => type === 'STEP_STARTED')).toHaveLength(2);
    expect(events[0]).toMatchObject({ threadId: 's' });
    expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', threadId: 's', runId: events[0]?.['runId'] });
  });
});

test('a failed turn is a RUN_ERROR with its code', async () => {
  const { events } = await runOf({ provider: scripted([{ error: { status: 400, message: 'bad request' } }]) }, 'hi');
  checkNesting(events);
  expect(events.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'model_invalid_request' });
});

test('a retried call is reported separately from the conversation', async () => {
  const provider = scripted([{ error: { status: 529, retryAfterMs: 1 } }, 'ok']);
  const { events } = await runOf({ provider }, 'hi');
  checkNesting(events);
  expect(events).toContainEqual(expect.objectContaining({ type: 'CUSTOM', name: 'troupe.retry' }));
});

test('an interrupted turn ends the run; a disconnecting client does not', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const session: Session = runtime.session('s');
  const response = await agUiResponse(session, 'hi', { threadId: 't', runId: 'r' });
  await model.next();
  await session.interrupt();
  const events = await eventsOf(response);
  checkNesting(events);
  expect(events[0]).toEqual({ type: 'RUN_STARTED', threadId: 't', runId: 'r' });
  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } });

  const left = await agUiResponse(session, 'again');
  const call = await model.next();
  await left.body?.cancel();
  call.answer('still here');
  await eventually(async () => (await session.messages()).at(-1)?.content === 'still here');
});

test('an error that prevents the send rejects before anything is streamed', async () => {
  const runtime = await kit.open({ provider: scripted(['ok']) });
  await expect(agUiEvents(runtime.session('s'), ' ')).rejects.toMatchObject({ code: 'content' });
});

test('the newest user message of a run request is its input', () => {
  const messages = [
    { id: 'a', role: 'user', content: 'first' },
    { id: 'b', role: 'assistant', content: 'yes' },
    { id: 'c', role: 'user', content: [{ type: 'text', text: 'second' }] },
  ];
  const body = { threadId: 't', runId: 'r', state: {}, messages, tools: [], context: [], forwardedProps: {} };
  expect(agUiInput(body)).toEqual({ threadId: 't', runId: 'r', content: 'second', key: 'c' });
  for (const bad of [undefined, { ...body, runId: '' }, { ...body, messages: messages.slice(0, 2) }]) {
    expect(() => agUiInput(bad)).toThrow(expect.objectContaining({ code: 'content' }));
  }
});
