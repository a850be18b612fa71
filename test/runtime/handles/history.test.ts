/** Goal: the history of a session fulfils its rows, over the public API alone, on one thread and on several. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  type HistoryMessage,
  InvalidArgumentError,
  KeyReusedError,
  open as openRuntime,
  type Runtime,
  type Session,
  tool,
} from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { ask, brief, result, said, user } from '../../support/history-kit.ts';
import { deferred, gatedModel, MATRIX, queue, runtimeKit, THROUGH_MEMBER } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const script = (): ReturnType<typeof scripted> => scripted({ rules: [], otherwise: 'to {{text}}' });
const seqOf = async (session: Session): Promise<number> => (await session.state()).seq;
const shown = async (session: Session): Promise<readonly string[]> => brief(await session.history.messages());

/** Rejects with an `InvalidArgumentError` of this code. */
async function refused(promise: Promise<unknown>, code: string): Promise<void> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(InvalidArgumentError);
  expect((error as InvalidArgumentError).code).toBe(code);
}

describe.each(MATRIX)('the history of a session, sessions: $sessions, models: $models', (threads) => {
  let shared: Promise<Runtime> | undefined;
  let count = 0;
  /** A new session of one runtime that all tests share: starting threads costs more than most tests. */
  const open = async (): Promise<Session> => {
    shared ??= openRuntime(':memory:', { provider: script(), threads: { ...threads, tools: 1 } });
    count += 1;
    return (await shared).session(`s${count}`);
  };
  afterAll(async () => (await shared)?.close({ deadlineMs: 0 }));

  test('H1: a new history is empty, a seeded one has its initial messages', async () => {
    const session = await open();
    expect(await session.history.messages()).toEqual([]);
    expect(await session.history.isEmpty()).toBe(true);
    await session.history.unset();
    expect(await session.history.remove({ id: 'x' })).toBeNull();
    expect(await session.state()).toMatchObject({ seq: 0 });
    await session.history.seed([user('u1')]);
    expect(await session.history.messages()).toEqual([user('u1')]);
    expect(await session.history.size()).toBe(1);
  });

  test('H2: onMessage without a function throws at once, and registers nothing', async () => {
    const session = await open();
    const wrong = (): unknown => session.onMessage(undefined as unknown as () => void);
    expect(wrong).toThrow(InvalidArgumentError);
    expect(wrong).toThrow(expect.objectContaining({ code: 'callback_required' }));
    expect(() => session.history.onMessage('x' as unknown as () => void)).toThrow(InvalidArgumentError);
    await session.history.add(user('u1'));
    expect(await shown(session)).toEqual(['user u1']);
  });

  test('H3, H4, H5, H6: callbacks receive added messages unless silent, in the order of registration', async () => {
    const session = await open();
    const heard: string[] = [];
    const first = (message: HistoryMessage): unknown => heard.push(`first ${message.id}`);
    session.onMessage(first).onMessage((message) => heard.push(`second ${message.id}`));
    await session.history.add(user('u1'));
    expect(heard.splice(0)).toEqual(['first u1', 'second u1']);
    await session.history.add(user('u2'), { silent: true });
    await session.history.update({ id: 'u1' }, { content: 'other' });
    await session.history.remove({ id: 'u2' });
    await session.history.set([user('u3')]);
    await session.history.seed([ask('a1', 'x')]);
    await session.history.discardPendingToolCalls();
    await session.history.unset();
    expect(heard).toEqual([]);
    session.onMessage(first);
    await session.history.add(user('u4'));
    expect(heard).toEqual(['first u4', 'second u4', 'first u4']);
  });

  test('H3: after a callback throws the others are still called, and messages it added are delivered afterwards', async () => {
    const session = await open();
    const heard: string[] = [];
    const added = deferred();
    session.onMessage((message) => {
      if (message.id === 'u1') void session.history.add(user('u2')).then(() => added.resolve());
      throw new Error('a broken callback');
    });
    session.onMessage((message) => heard.push(message.id));
    await session.history.add(user('u1'));
    await added.promise;
    expect(heard).toEqual(['u1', 'u2']);
  });

  test('H3: callbacks receive answers and results of a turn, each once, and no user messages', async () => {
    const note = tool({ name: 'note', description: 'Notes.', input: z.object({}), run: () => 'noted' });
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', tools: [note] })],
      provider: scripted([{ text: 'Noting.', toolUse: { name: 'note', id: 'c1' } }, 'Done.']),
    });
    const session = runtime.session('s');
    const heard: HistoryMessage[] = [];
    session.onMessage((message) => heard.push(message));
    await session.ask('Hi');
    expect(heard).toMatchObject([
      { role: 'assistant', content: 'Noting.', toolCalls: [{ callId: 'c1', name: 'note', arguments: '{}' }] },
      { role: 'tool', content: 'noted', toolCallId: 'c1', name: 'note' },
      { role: 'assistant', content: 'Done.' },
    ]);
    const kept = await session.history.messages();
    expect(kept.slice(1)).toEqual(heard);
    expect(kept[0]).toMatchObject({ role: 'user', content: 'Hi' });
  });

  test('H8, H11: remove returns the removed message, and null if it does not exist', async () => {
    const session = await open();
    await session.history.set([user('u1'), user('u2')]);
    expect(await session.history.remove({ id: 'u1' })).toEqual(user('u1'));
    expect(await shown(session)).toEqual(['user u2']);
    const seq = await seqOf(session);
    expect(await session.history.remove({ id: 'u1' })).toBeNull();
    expect(await seqOf(session)).toBe(seq);
    await refused(session.history.remove({ id: '' }), 'invalid_argument');
  });

  test('H9: an answer is removed with its results, wherever they are, in one event', async () => {
    const session = await open();
    await session.history.set([result('x'), user('u1'), ask('a1', 'x', 'y'), user('u2'), result('y')]);
    const seq = await seqOf(session);
    expect(await session.history.remove({ id: 'a1' })).toMatchObject({ id: 'a1', role: 'assistant' });
    expect(await shown(session)).toEqual(['user u1', 'user u2']);
    expect(await seqOf(session)).toBe(seq + 1);
  });

  test('H10: a result cannot be removed alone', async () => {
    const session = await open();
    await session.history.set([ask('a1', 'x'), result('x')]);
    const seq = await seqOf(session);
    await refused(session.history.remove({ id: 'r-x' }), 'tool_message_not_removable');
    expect(await seqOf(session)).toBe(seq);
  });

  test('H12: update finds a message by one key; the empty text is a valid text', async () => {
    const session = await open();
    await session.history.set([ask('a1', 'x'), result('x')]);
    await refused(session.history.update({}, { content: 'c' }), 'lookup_key_required');
    await refused(session.history.update({ id: null }, { content: 'c' }), 'lookup_key_required');
    await refused(session.history.update({ id: 'a1', toolCallId: 'x' }, { content: 'c' }), 'lookup_key_ambiguous');
    await refused(session.history.update({ id: '', toolCallId: 'x' }, { content: 'c' }), 'lookup_key_ambiguous');
    await refused(session.history.update({ id: '' }, { content: 'c' }), 'message_not_found');
    await refused(session.history.update({ toolCallId: 'a1' }, { content: 'c' }), 'message_not_found');
    expect(await session.history.update({ toolCallId: 'x' }, { content: 'c' })).toMatchObject({ content: 'c' });
    expect(await session.history.update({ id: 'r-x' }, { content: 'd' })).toMatchObject({ content: 'd' });
  });

  test('H13, H14: given members override, missing members stay, null sets null, and unknown members are ignored', async () => {
    const session = await open();
    const usage = { input_tokens: 3, output_tokens: 4 };
    await session.history.set([
      { ...user('u1'), files: [{ name: 'f' }] },
      { ...ask('a1', 'x'), tokenUsage: usage },
      { ...result('x'), error: 'bad', errorType: 'execution_error' },
    ]);
    await session.history.update({ id: 'a1' }, { content: 'new', id: 'other', role: 'user', nonsense: 1 });
    await session.history.update({ id: 'u1' }, { content: 'hello' });
    const [first, second] = await session.history.messages();
    expect(first).toEqual({ ...user('u1', 'hello'), files: [{ name: 'f' }] });
    expect(second).toEqual({ ...ask('a1', 'x'), content: 'new', tokenUsage: usage });
    const kept = await session.history.update({ toolCallId: 'x' }, { content: 'c', error: undefined });
    expect(kept).toMatchObject({ content: 'c', error: 'bad', errorType: 'execution_error' });
    const mended = await session.history.update({ toolCallId: 'x' }, { error: null, errorType: null });
    expect(mended).toMatchObject({ content: 'c', error: null, errorType: null });
    const seq = await seqOf(session);
    await session.history.update({ toolCallId: 'x' }, { nonsense: 1 });
    await session.history.update({ toolCallId: 'x' }, { content: 'c' });
    expect(await seqOf(session)).toBe(seq);
  });

  test('H15: a dropped call takes its own result with it, and no other', async () => {
    const session = await open();
    await session.history.set([ask('a1', 'a', 'b'), result('a'), result('b')]);
    const seq = await seqOf(session);
    const calls = [
      { callId: 'new', name: 'bash', arguments: '{}' },
      { callId: 'a', name: 'bash', arguments: '{}' },
    ];
    await session.history.update({ id: 'a1' }, { toolCalls: calls });
    expect(await shown(session)).toEqual(['assistant a1', 'tool a']);
    expect(await seqOf(session)).toBe(seq + 1);
    expect(await session.history.orphanedToolCallIds()).toEqual(['new']);
  });

  test('H19: no value that was given or returned shares data with the history', async () => {
    const session = await open();
    const given = [{ ...user('u1') }, { ...said('a1') }] as { content: unknown }[];
    await session.history.set(given);
    if (given[0] !== undefined) given[0].content = 'changed';
    given.push({ content: 'more' });
    const read = (await session.history.messages()) as unknown as { content: string }[];
    if (read[1] !== undefined) read[1].content = 'changed';
    read.length = 0;
    const last = await session.history.popLast();
    if (last !== null) Reflect.set(last, 'content', 'changed');
    expect(await session.history.messages()).toEqual([user('u1')]);
  });

  test('H26: pending calls are discarded once, and no callback is called', async () => {
    const session = await open();
    const heard: string[] = [];
    session.onMessage((message) => heard.push(message.id));
    await session.history.set([ask('a1', 'x', 'y'), result('y'), user('u1')]);
    expect(await session.history.discardPendingToolCalls()).toEqual(['x']);
    expect(await shown(session)).toEqual(['assistant a1', 'tool x', 'tool y', 'user u1']);
    expect(await session.history.orphanedToolCallIds()).toEqual([]);
    const seq = await seqOf(session);
    expect(await session.history.discardPendingToolCalls()).toEqual([]);
    expect(await seqOf(session)).toBe(seq);
    expect(heard).toEqual([]);
  });

  test('H33, H34: a user message takes the position of calls without an answer, in one event', async () => {
    const session = await open();
    await session.history.set([user('u1'), ask('a1', 'x')]);
    const seq = await seqOf(session);
    const handle = await session.history.append(user('u2'));
    expect(handle).toEqual({ id: 'u2', seq: expect.any(Number), session: session.id, incarnation: expect.any(Number) });
    expect(await shown(session)).toEqual(['user u1', 'user u2']);
    expect(await seqOf(session)).toBe(seq + 1);
    await session.history.set([ask('a0', 'w'), ask('a1', 'x', 'y'), result('x')]);
    await session.history.append({ ...user('u3'), systemInjected: true });
    expect(await shown(session)).toEqual(['assistant a0', 'assistant a1', 'tool x', 'user u3']);
    await session.history.set([user('u1'), ask('a1', 'x')]);
    await session.history.append({ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x', content: 'ok' }] });
    expect(await session.history.messages()).toMatchObject([
      { id: 'u1' },
      { id: 'a1' },
      { role: 'tool', toolCallId: 'x', name: 'bash', content: 'ok' },
    ]);
    await session.history.set([ask('a1', 'x')]);
    await session.history.add(user('u2'));
    expect(await shown(session)).toEqual(['assistant a1', 'user u2']);
  });

  test('H35: the system prompt is replaced where it is, or inserted first; there are never two', async () => {
    const session = await open();
    await session.history.set([user('u1')]);
    await session.history.replaceSystemPrompt('one', { sessionContext: true });
    await session.history.replaceSystemPrompt('two\uD83D');
    const messages = await session.history.messages();
    expect(messages.map(({ role, content }) => [role, content])).toEqual([
      ['system', 'two\uFFFD'],
      ['user', 'u1'],
    ]);
    expect(messages[0]?.sessionContext).toBeUndefined();
    expect(await session.history.hasSystemPrompt()).toBe(true);
    await session.send('go');
    expect((await session.request()).system).toBe('two\uFFFD');
  });

  test('H35: a content among the extra fields of a system prompt replaces the text, and must be a text', async () => {
    const session = await open();
    await refused(session.history.replaceSystemPrompt('one', { content: 5 }), 'invalid_argument');
    await session.history.replaceSystemPrompt('one', { content: 'two', role: 'user' });
    await refused(session.history.replaceSystemPrompt('three', { content: 5 }), 'invalid_argument');
    expect(await session.history.messages()).toMatchObject([{ role: 'system', content: 'two' }]);
  });

  test('H36: rollback finds a message by its handle, never by value, and works on the cleaned history', async () => {
    const session = await open();
    await session.history.append({ role: 'user', content: 'same' });
    const handle = await session.history.append({ role: 'user', content: 'same' });
    await session.history.append({ role: 'user', content: 'bad \uD83D' });
    await session.history.rollbackBefore(handle);
    expect(await session.history.size()).toBe(1);
    const seq = await seqOf(session);
    await session.history.rollbackBefore(handle);
    await session.history.rollbackBefore({ ...handle, id: 'never' });
    expect(await seqOf(session)).toBe(seq);
    const dirty = await session.history.append({ role: 'user', content: 'bad \uD83D' });
    await session.history.rollbackBefore(dirty);
    expect(await session.history.size()).toBe(1);
  });

  test('H37: truncation keeps the messages before an index', async () => {
    const session = await open();
    await session.history.set([user('u1'), said('a1'), user('u2')]);
    const seq = await seqOf(session);
    await session.history.truncateFrom(3);
    await session.history.truncateFrom(99);
    await refused(session.history.truncateFrom(-1), 'invalid_index');
    await refused(session.history.truncateFrom(1.5), 'invalid_index');
    expect(await seqOf(session)).toBe(seq);
    await session.history.truncateFrom(2);
    expect(await shown(session)).toEqual(['user u1', 'assistant a1']);
    await session.history.truncateFrom(0);
    expect(await session.history.isEmpty()).toBe(true);
    await session.history.set([user('u1'), { ...user('u2'), createdAt: '2026-01-01' }, said('a1')]);
    await session.history.truncateFromCreatedAt('2027-01-01');
    await session.history.truncateFromCreatedAt('2026-01-01');
    expect(await shown(session)).toEqual(['user u1']);
  });

  test('predicates delete or change the matching messages, and only their results are kept', async () => {
    const session = await open();
    await session.history.set([user('u1'), { ...user('u2'), memoryUpdate: true }, said('a1')]);
    await session.history.deleteWhere((message) => message.memoryUpdate === true);
    expect(await shown(session)).toEqual(['user u1', 'assistant a1']);
    await session.history.mutateLastMatching(
      (message) => message.role === 'user',
      (draft) => {
        draft['content'] = 'changed \uD83D';
        draft['subagentResult'] = true;
      },
    );
    expect((await session.history.messages())[0]).toEqual({ ...user('u1', 'changed \uFFFD'), subagentResult: true });
    const seq = await seqOf(session);
    let isCalled = false;
    await session.history.mutateLastMatching(
      (message) => message.role === 'tool',
      () => {
        isCalled = true;
      },
    );
    await session.history.deleteWhere(() => false);
    expect(isCalled).toBe(false);
    expect(await seqOf(session)).toBe(seq);
  });

  test('metadata is kept with its message, is never sent, and does not change the request', async () => {
    const session = await open();
    expect(await session.history.addExtensionEvent({ count: -1 })).toBe(false);
    await session.history.set([user('u1'), ask('a1', 'x'), result('x')]);
    const before = JSON.stringify((await session.request()).messages);
    await session.history.attachToToolResult('x', 'trail', ['step']);
    await session.history.attachToToolResult('never', 'trail', 1);
    for (let count = 0; count < 52; count += 1) await session.history.addExtensionEvent({ count });
    expect(await session.history.addExtensionEvent('x'.repeat(9_000))).toBe(false);
    const last = await session.history.popLast();
    expect(last).toMatchObject({ trail: ['step'] });
    expect(last?.['extEvents']).toEqual(Array.from({ length: 50 }, (_, index) => ({ count: index + 2 })));
    await session.history.add(last ?? {});
    expect(JSON.stringify((await session.request()).messages)).toBe(before);
    await refused(session.history.attachToToolResult('x', 'content', 1), 'invalid_argument');
  });

  test('settleInterrupted answers the open calls of the last answer, with their known results', async () => {
    const session = await open();
    await session.history.set([ask('a1', 'x', 'y')]);
    expect(await session.history.hasPendingToolCalls()).toBe(true);
    await session.history.settleInterrupted({ y: { steps: 2 } });
    const messages = await session.history.messages();
    expect(brief(messages)).toEqual(['assistant a1', 'tool x', 'tool y']);
    expect(messages[2]).toMatchObject({ content: expect.stringContaining('interrupted'), trail: { steps: 2 } });
    expect(await session.history.hasPendingToolCalls()).toBe(false);
    const seq = await seqOf(session);
    await session.history.settleInterrupted();
    expect(await seqOf(session)).toBe(seq);
  });

  test('H40, H43: the request of a seeded history is legal and has only fields of the API', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const session = runtime.session('s');
    await session.history.set([
      { ...user('u1'), systemInjected: true, unheardOf: 'leak' },
      { ...ask('a1', 'x', 'y'), taskId: 4, chunkPath: 'leak' },
      { ...result('y'), latency: 'leak' },
    ]);
    void session.send('go on');
    const { request, answer } = await model.next();
    expect(JSON.stringify(request)).not.toContain('leak');
    expect(JSON.stringify(request)).not.toContain('createdAt');
    answer('fine');
  });

  test('H46: a lone surrogate is stored, reloaded and sent as U+FFFD', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ threads, directory, provider: script() });
    const session = runtime.session('s');
    await session.history.add({ role: 'user', content: 'a\uD83Db', 'k\uDE00': { deep: ['\uD83D'] } });
    const live = await session.history.toArray();
    expect(live[0]).toMatchObject({ content: 'a\uFFFDb', 'k\uFFFD': { deep: ['\uFFFD'] } });
    const sent = JSON.stringify((await session.request()).messages);
    expect(sent).toContain('a\uFFFDb');
    await runtime.close();
    const again = (await kit.open({ threads, directory, provider: script() })).session('s');
    expect(await again.history.toArray()).toEqual(live);
    expect(JSON.stringify((await again.request()).messages)).toBe(sent);
  });

  test('H63: a key runs an operation once and returns its outcome again', async () => {
    const session = await open();
    const first = await session.history.add(user('u1'), { key: 'k' });
    const seq = await seqOf(session);
    expect(await session.history.add(user('u1'), { key: 'k' })).toEqual(first);
    expect(await session.history.size()).toBe(1);
    expect(await seqOf(session)).toBe(seq);
    await expect(session.history.add(user('u2'), { key: 'k' })).rejects.toBeInstanceOf(KeyReusedError);
  });

  test('an invalid message is refused, and the error names the field', async () => {
    const session = await open();
    await session.history.add(user('u1'));
    const seq = await seqOf(session);
    const wrong: readonly object[] = [
      { role: 'robot', content: 'x' },
      { role: 'user', content: 7 },
      { role: 'assistant', content: 'x', reasoning: [{ type: 'secret' }] },
      { role: 'tool', content: 'x' },
      { role: 'user', content: 'x', id: '' },
      { role: 'user', content: 'x', id: 'u1' },
      { role: 'user', content: 'x', when: () => 0 },
      { role: 'assistant', content: 'x', transient: true },
    ];
    for (const message of wrong) await refused(session.history.add(message), 'invalid_argument');
    const misplaced = { role: 'user', content: [{ type: 'tool_use', id: 'x', name: 'y', input: {} }] };
    await expect(session.history.add(misplaced)).rejects.toMatchObject({
      code: 'content',
      message: expect.stringMatching(/^message\.content\[0\]\.type must be one of text, .*; got string "tool_use"$/),
    });
    expect(await seqOf(session)).toBe(seq);
  });

  test('a seeded history is pruned unless the setting is off', async () => {
    const broken = [ask('a1', 'x'), user('u1')];
    const session = await open();
    await session.history.seed(broken);
    expect(await shown(session)).toEqual(['user u1']);
    const runtime = await kit.open({ threads, provider: script(), settings: { repair: { onSeed: false } } });
    const kept = runtime.session('s');
    await kept.history.seed(broken);
    expect(await shown(kept)).toEqual(['assistant a1', 'user u1']);
  });

  test('exported lines give the same history when imported elsewhere', async () => {
    const note = tool({ name: 'note', description: 'Notes.', input: z.object({}), run: () => ({ error: 'no' }) });
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', tools: [note] })],
      provider: scripted([{ text: 'Noting.', toolUse: { name: 'note', id: 'c1' } }, 'Done.']),
    });
    const from = runtime.session('from');
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
    await from.history.add({
      role: 'user',
      content: [{ type: 'text', text: 'see' }, image],
      taskId: 2,
      sessionContext: true,
    });
    await from.ask('Hi');
    const lines: string[] = [];
    for await (const line of from.history.export()) lines.push(line);
    const to = runtime.session('to');
    await to.history.import(lines);
    expect(await to.history.toArray()).toEqual(await from.history.toArray());
    expect((await to.request()).messages).toEqual((await from.request()).messages);
    await refused(to.history.import(lines.slice(0, -1)), 'invalid_argument');
    await refused(to.history.import(['{}']), 'invalid_argument');
    await refused(to.history.import(['no']), 'invalid_argument');
  });

  test('an operation during a model call waits for the answer and comes before the next request', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const session = runtime.session('s');
    void session.send('one');
    const call = await model.next();
    await session.send('two');
    let isDone = false;
    const edited = session.history.add(user('note')).then(() => {
      isDone = true;
    });
    expect(await session.history.size()).toBe(1);
    expect(isDone).toBe(false);
    call.answer('first');
    await edited;
    const next = await model.next();
    expect(JSON.stringify(next.request.messages)).toMatch(/one.*first.*note.*two/);
    next.answer('second');
    await runtime.drain();
    expect((await session.history.messages()).map(({ content }) => content)).toEqual([
      ...['one', 'first', 'note', 'two', 'second'],
    ]);
  });

  test('removing an answer while its tools run cancels them and ends the turn', async () => {
    const runs = queue<AbortSignal>();
    const wait = tool({
      name: 'wait',
      description: 'Waits.',
      input: z.object({}),
      run: (_input, { signal }) => {
        runs.put(signal);
        return new Promise<string>((resolve) => signal.addEventListener('abort', () => resolve('late')));
      },
    });
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', tools: [wait] })],
      provider: scripted([{ toolUse: { name: 'wait', id: 'c1' } }, 'again']),
    });
    const session = runtime.session('s');
    const receipt = await session.send('go');
    const signal = await runs.take();
    const answer = await session.history.finalAssistantMessage();
    await session.history.remove({ id: answer?.id ?? '' });
    await expect(receipt.answer()).rejects.toMatchObject({ code: 'cancelled' });
    expect(signal.aborted).toBe(true);
    expect(await session.state()).toMatchObject({ state: 'idle' });
    expect(await session.ask('more')).toBe('again');
    expect(await session.history.messages()).toMatchObject([
      { content: 'go' },
      { content: 'more' },
      { content: 'again' },
    ]);
  });

  test('a running call can be answered by hand: its tool is cancelled, and the model gets the answer', async () => {
    const runs = queue<AbortSignal>();
    const wait = tool({
      name: 'wait',
      description: 'Waits.',
      input: z.object({}),
      run: (_input, { signal }) => {
        runs.put(signal);
        return new Promise<string>(() => undefined);
      },
    });
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', tools: [wait] })],
      provider: scripted([{ toolUse: { name: 'wait', id: 'c1' } }, 'thanks']),
    });
    const session = runtime.session('s');
    const receipt = await session.send('go');
    await runs.take();
    expect(await session.history.discardPendingToolCalls()).toEqual([]);
    await session.history.append(user('u1', 'hurry'));
    await session.history.add({ role: 'tool', toolCallId: 'c1', name: 'wait', content: 'by hand' });
    expect(await receipt.answer()).toBe('thanks');
    expect((await session.history.messages()).map(({ role }) => role)).toEqual([
      ...['user', 'assistant', 'user', 'tool', 'assistant'],
    ]);
  });
});

describe('some state survives a restart of the process, and the rest does not', () => {
  test.skipIf(THROUGH_MEMBER)('H7: a callback receives what another reader of the store sees', async () => {
    const directory = await kit.directory();
    const session = (await kit.open({ directory, provider: script() })).session('s');
    const heard = deferred<string>();
    session.onMessage(() => void kit.crashed(directory).then((copy) => heard.resolve(copy)));
    await session.history.add(user('u1'));
    const copy = await heard.promise;
    const other = (await kit.open({ directory: copy, provider: script() })).session('s');
    expect(await other.history.toArray()).toEqual([user('u1')]);
  });

  test.skipIf(THROUGH_MEMBER)(
    'H20, H21: after a crash the history has everything acknowledged, in whole exchanges',
    async () => {
      const directory = await kit.directory();
      const session = (await kit.open({ directory, provider: script() })).session('s');
      await session.ask('Hi');
      await session.history.add(ask('a1', 'x', 'y'));
      await session.history.add(result('x'));
      await session.history.replaceSystemPrompt('be kind');
      await session.history.discardPendingToolCalls();
      const live = await session.history.toArray();
      const before = await kit.crashed(directory);
      await session.history.remove({ id: 'a1' });
      const after = await kit.crashed(directory);
      const opened = async (path: string): Promise<readonly HistoryMessage[]> =>
        (await kit.open({ directory: path, provider: script() })).session('s').history.toArray();
      expect(await opened(before)).toEqual(live);
      expect(await opened(after)).toEqual(live.filter(({ id, role }) => id !== 'a1' && role !== 'tool'));
    },
  );

  test('H47: an emoji split over two deltas is stored whole', async () => {
    const provider = {
      name: 'halves',
      generate: async (_request: unknown, { onDelta }: { onDelta(delta: { type: 'text'; text: string }): void }) => {
        onDelta({ type: 'text', text: '\uD83D' });
        onDelta({ type: 'text', text: '\uDE00' });
        return {
          content: [{ type: 'text' as const, text: '\uD83D\uDE00' }],
          stop_reason: 'end_turn' as const,
          usage: { input_tokens: 1, output_tokens: 1 },
        };
      },
    };
    const session = (await kit.open({ provider: provider as never })).session('s');
    expect(await session.ask('Hi')).toBe('😀');
    expect((await session.history.finalAssistantMessage())?.content).toBe('😀');
  });

  test('H60: a transient message is sent and counted, and never stored', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const runtime = await kit.open({ directory, provider: model.provider });
    const session = runtime.session('s');
    await session.history.append(user('u1'));
    const estimate = await session.history.estimateTokens();
    const secret = 'the-secret-of-the-day';
    const handle = await session.history.append({ role: 'user', content: secret }, { transient: true });
    expect(handle.seq).toBe(0);
    expect(await session.history.size()).toBe(2);
    expect(await session.history.estimateTokens()).toBeGreaterThan(estimate);
    expect(await session.history.toArray()).toEqual([user('u1')]);
    expect(JSON.stringify(await session.history.toApi())).toContain(secret);
    const answered = session.ask('go');
    const first = await model.next();
    expect(JSON.stringify(first.request.messages)).toMatch(new RegExp(`u1.*${secret}.*go`));
    first.answer('fine');
    await answered;
    const again = session.ask('more');
    const second = await model.next();
    expect(JSON.stringify(second.request.messages)).toMatch(new RegExp(`u1.*${secret}.*go.*fine.*more`));
    second.answer('fine');
    await again;
    await session.history.append({ role: 'user', content: `${secret} again`, transient: true });
    await session.history.deleteWhere((message) => message.content === `${secret} again`);
    expect(await session.history.size()).toBe(6);
    await runtime.close();
    for (const name of await readdir(directory, { recursive: true, withFileTypes: true })) {
      if (!name.isFile()) continue;
      expect((await readFile(join(name.parentPath, name.name))).includes(secret)).toBe(false);
    }
    const reopened = (await kit.open({ directory, provider: script() })).session('s');
    expect(JSON.stringify(await reopened.request())).not.toContain(secret);
    expect(await reopened.history.size()).toBe(5);
  });
});
