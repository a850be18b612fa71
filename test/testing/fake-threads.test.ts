/** R62: the strict fake keeps message threads as the API does, and refuses what the API refuses, in its words. */
import { afterEach, expect, it } from 'vitest';
import type { ContentBlock } from '../../src/base/messages.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { type StrictFake, type StrictFakeOptions, strictFake } from '../../src/testing/strict-fake.ts';

interface Answer {
  readonly status: number;
  readonly body: {
    readonly id: string;
    readonly content: readonly ContentBlock[];
    readonly error?: {
      readonly type: string;
      readonly message: string;
      readonly details?: { readonly error_code?: string; readonly unsupported?: readonly string[] };
    };
  };
}

const TOOLS = [{ name: 'add', description: 'Adds.', input_schema: { type: 'object' } }];
const HELLO = { role: 'user', content: 'Hello' } as const;
const MORE = { role: 'user', content: 'More' } as const;
const FIRST = { model: 'claude-opus-5-5', max_tokens: 9, system: 'Be brief.', tools: TOOLS, messages: [HELLO] };

let fake: StrictFake | undefined;
/** The requests that the script received. */
let seen: ModelRequest[] = [];

afterEach(async () => {
  await fake?.close();
  fake = undefined;
  seen = [];
});

async function start(options: Partial<StrictFakeOptions> = {}): Promise<void> {
  const script = (request: ModelRequest): string => {
    seen.push(request);
    return `answer ${seen.length}`;
  };
  fake = await strictFake({ script, ...options });
}

async function post(body: object, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const response = await fetch(`${fake?.url}/v1/messages`, {
    method: 'POST',
    headers: {
      ...{ 'x-api-key': 'k', 'anthropic-version': '2026-10-21', 'content-type': 'application/json' },
      'anthropic-beta': 'message-threads-2026-08-12',
      ...headers,
    },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Answer['body'] };
}

async function create(changes: object = {}): Promise<string> {
  const { status, body } = await post({ ...FIRST, thread: { type: 'create' }, ...changes });
  expect(status).toBe(200);
  return body.id;
}

function goOn(id: string, changes: object = {}, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const thread = { type: 'continue', previous_message_id: id };
  return post({ model: FIRST.model, max_tokens: 9, thread, messages: [MORE], ...changes }, headers);
}

function refusalOf({ status, body }: Answer): readonly unknown[] {
  return [status, body.error?.details?.error_code, body.error?.message];
}

it('R62, W9: the script receives the whole conversation of a request that sends its new messages alone', async () => {
  await start();
  const first = await create();
  const second = await goOn(first);
  expect(second.status).toBe(200);
  expect((await goOn(second.body.id)).status).toBe(200);
  expect(seen[2]).toEqual({
    ...FIRST,
    messages: [
      HELLO,
      { role: 'assistant', content: [{ type: 'text', text: 'answer 1' }] },
      MORE,
      { role: 'assistant', content: [{ type: 'text', text: 'answer 2' }] },
      MORE,
    ],
  });
  expect(fake?.violations).toEqual([]);
});

it('R62, K1: an answer is continued once, and not by two requests at a time', async () => {
  const clock: ManualClock = manualClock();
  await start({ clock, script: ['one', { text: 'two', delayMs: 50 }, 'three'] });
  const first = await create();
  const slow = goOn(first);
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
  expect(refusalOf(await goOn(first)).slice(0, 2)).toEqual([400, 'thread_continue_in_flight']);
  await clock.advance(50);
  expect((await slow).status).toBe(200);
  expect(refusalOf(await goOn(first)).slice(0, 2)).toEqual([400, 'thread_already_continued']);
});

it('R62, K2: a thread is kept for five minutes after its last answer, for its account', async () => {
  const clock = manualClock();
  await start({ clock });
  let id = await create();
  for (let turn = 0; turn < 3; turn += 1) {
    await clock.advance(200_000);
    id = (await goOn(id)).body.id;
  }
  expect(refusalOf(await goOn(id, {}, { 'x-api-key': 'another' })).slice(0, 2)).toEqual([404, 'thread_not_found']);
  await clock.advance(300_001);
  expect(refusalOf(await goOn(id))).toEqual([
    404,
    'thread_not_found',
    'No thread state was found for the requested `previous_message_id`. Replay the full conversation with thread: {"type": "create"} to start a new Thread.',
  ]);
});

it.each([
  ['model', { model: 'claude-sonnet-5-5' }],
  ['thinking', { thinking: { type: 'adaptive' } }],
  ['output_config', { output_config: { effort: 'low' } }],
  ['container', { container: 'c' }],
  ['service_tier', { service_tier: 'auto' }],
])('R62, K3: another %s does not match the thread', async (field, changes) => {
  await start();
  const [status, code, message] = refusalOf(await goOn(await create(), changes));
  expect([status, code]).toEqual([400, 'thread_fingerprint_mismatch']);
  expect(message).toContain(`differing field(s): ${field}`);
});

it('R62, K3: other betas do not match the thread, other fields of each request do', async () => {
  await start();
  const first = await create();
  const betas = { 'anthropic-beta': 'message-threads-2026-08-12,other-2026-01-01' };
  expect(refusalOf(await goOn(first, {}, betas)).slice(0, 2)).toEqual([400, 'thread_fingerprint_mismatch']);
  expect((await goOn(first, { max_tokens: 8, metadata: { user_id: 'u' } })).status).toBe(200);
});

it('R62: the rules judge the conversation that the model receives', async () => {
  await start({ script: [{ toolUse: { id: 'toolu_1', name: 'add' } }, 'three', 'four'] });
  const first = await create();
  const result = (id: string): object => ({
    role: 'user',
    content: [{ type: 'tool_result', tool_use_id: id, content: '3' }],
  });
  const wrong = await goOn(first, { messages: [result('toolu_2')] });
  expect(wrong.status).toBe(400);
  expect(fake?.violations.map(({ rule }) => rule)).toEqual(['R01', 'R04']);
  // K4: the refused request has not gone on from the answer.
  expect((await goOn(first, { messages: [result('toolu_1')] })).status).toBe(200);
});

it('R38, R62: a paused answer is continued without a message, another one is not', async () => {
  await start({ script: [{ content: [{ type: 'text', text: 'So' }], stop_reason: 'pause_turn' }, 'far.', 'no'] });
  const second = await goOn(await create(), { messages: [] });
  expect(second.status).toBe(200);
  expect((await goOn(second.body.id, { messages: [] })).status).toBe(400);
});

it('R62: models without threads are named, and the request is legal without one', async () => {
  await start({ unthreadedModels: ['claude-opus-5-5'] });
  const answer = await post({ ...FIRST, thread: { type: 'create' } });
  expect(refusalOf(answer).slice(0, 2)).toEqual([400, 'thread_unsupported_request']);
  expect(answer.body.error?.details?.unsupported).toEqual(['inference_hooks']);
  expect((await post(FIRST)).status).toBe(200);
});

it('R62, K1, K4: a refused call leaves the thread as it was, a broken stream has continued it', async () => {
  await start({ faults: { at: { 1: 'overloaded', 2: 'disconnect' } } });
  const first = await create();
  expect((await goOn(first)).status).toBe(529);
  await expect(goOn(first)).rejects.toThrow();
  expect(refusalOf(await goOn(first)).slice(0, 2)).toEqual([400, 'thread_already_continued']);
});
