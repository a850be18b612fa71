/**
 * Goal: a decision that names its author is in the log with that author, and `approval.decided` publishes it. A decision
 * without an author publishes what it did before, so the events of older logs keep their numbers.
 */
import { expect, test } from 'vitest';
import { agent, type Runtime, type SessionEvent, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { askHuman } from '../../../src/tools/built-in/index.ts';
import { serverKit } from '../../server/support.ts';
import { eventually, failure, history } from '../../support/runtime-kit.ts';

const kit = serverKit();
const pay = tool({ name: 'pay', description: 'Pays.', effect: 'keyed', input: { type: 'object' }, run: () => 'paid' });
const agents = [agent({ name: 'clerk', tools: [pay, askHuman()], approve: ['pay'] })];
/** Calls `pay` for a message with `pay`, `ask_human` for one with `ask`, once for each turn. */
const provider = scripted(({ messages }) => {
  const last = JSON.stringify(messages.at(-1));
  if (last.includes('please pay')) return { toolUse: { name: 'pay', input: { euros: 5 } } };
  return last.includes('please ask') ? { toolUse: { name: 'ask_human', input: { question: 'Why?' } } } : 'done';
});

/** Sends a message, and returns the id of the call that then waits. */
async function callOf(runtime: Runtime, text: string): Promise<string> {
  await runtime.session('s').send(text);
  await eventually(async () => (await runtime.waiting()).items.length === 1);
  return (await runtime.waiting()).items[0]?.callId ?? '';
}

async function decisions(runtime: Runtime): Promise<readonly unknown[]> {
  await runtime.drain();
  const isDecision = (event: SessionEvent): boolean => event.type === 'approval.decided';
  return (await history(runtime.session('s'))).filter(isDecision).map((event) => {
    const { at: _at, seq: _seq, session: _session, toolUseId: _id, ...rest } = event as Record<string, unknown>;
    return rest;
  });
}

test('approvals, denials, answers and refusals name their author, also after a restart', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ provider, agents, directory });
  const session = runtime.session('s');
  expect(await session.approve(await callOf(runtime, 'please pay'), { allow: true, by: 'ada' })).toBe(true);
  await runtime.drain();
  expect(await session.approve(await callOf(runtime, 'please pay'), { allow: false, by: 'bob' })).toBe(true);
  await runtime.drain();
  expect(await session.answer(await callOf(runtime, 'please ask'), 'Because.', { by: 'cyd' })).toBe(true);
  await runtime.drain();
  expect(await session.decline(await callOf(runtime, 'please ask'), 'no time', { by: 'dan' })).toBe(true);
  const known = [
    { type: 'approval.decided', toolName: 'pay', allow: true, by: 'ada' },
    { type: 'approval.decided', toolName: 'pay', allow: false, by: 'bob' },
    { type: 'approval.decided', toolName: 'ask_human', allow: true, by: 'cyd' },
    { type: 'approval.decided', toolName: 'ask_human', allow: false, by: 'dan' },
  ];
  expect(await decisions(runtime)).toEqual(known);
  await runtime.close();
  const again = await kit.open({ provider, agents, directory });
  expect(await decisions(again)).toEqual(known);
});

test('a decision without an author publishes no further event, and a repeated one is not published again', async () => {
  const runtime = await kit.open({ provider, agents });
  const session = runtime.session('s');
  await session.approve(await callOf(runtime, 'please pay'), { allow: true });
  expect(await decisions(runtime)).toEqual([]);
  const callId = await callOf(runtime, 'please pay');
  await session.approve(callId, { allow: true, by: 'ada' });
  expect(await session.approve(callId, { allow: true, by: 'bob' })).toBe(true);
  expect(await decisions(runtime)).toMatchObject([{ by: 'ada' }]);
  for (const by of ['', 'x'.repeat(257), 1]) {
    expect(await failure(session.approve('c', { allow: true, by: by as string }))).toMatchObject({ code: 'config' });
    expect(await failure(session.answer('c', 'x', { by: by as string }))).toMatchObject({ code: 'config' });
    expect(await failure(session.decline('c', 'x', { by: by as string }))).toMatchObject({ code: 'config' });
  }
});

test('over HTTP the author is the name of the token', async () => {
  const tokens = [{ token: 'secret', name: 'ada at the desk', role: 'approver' as const }];
  const { runtime, url } = await kit.serve({ provider, agents }, { tokens });
  const callId = await callOf(runtime, 'please pay');
  const response = await fetch(`${url}/sessions/s/approve`, {
    method: 'POST',
    headers: { authorization: 'Bearer secret', 'content-type': 'application/json' },
    body: JSON.stringify({ callId, allow: true }),
  });
  expect(await response.json()).toMatchObject({ decided: true });
  expect(await decisions(runtime)).toMatchObject([{ allow: true, by: 'ada at the desk' }]);
});
