/**
 * Goal: a name for a message of one session never reaches another session, nor a new session with the id of a deleted
 * one. Method: the public API, in memory and on disk.
 */
import { describe, expect, test } from 'vitest';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const provider = scripted({ rules: [], otherwise: 'to {{text}}' });

describe.each(MATRIX)('handles and receipts, sessions: $sessions, models: $models', (threads) => {
  test('a handle of another session is refused by every method that takes one, and changes nothing', async () => {
    const runtime = await kit.open({ threads, provider });
    const [mine, other] = [runtime.session('mine').history, runtime.session('other').history];
    await mine.append({ role: 'user', content: 'first' });
    await mine.append({ role: 'user', content: 'second' });
    const handle = await other.append({ role: 'user', content: 'elsewhere' });
    expect(handle).toMatchObject({ id: 'm1', seq: 1, session: 'other' });
    const before = await mine.messages();
    for (const refused of [mine.rollbackBefore(handle), mine.remove(handle), mine.update(handle, { content: 'x' })]) {
      const error = await failure(refused);
      expect(error).toMatchObject({ name: 'InvalidArgumentError', code: 'invalid_argument' });
      expect(error.message).toContain('"other"');
      expect(error.message).toContain('"mine"');
    }
    expect(await mine.messages()).toEqual(before);
    await other.rollbackBefore(handle);
    expect(await other.isEmpty()).toBe(true);
  });

  test('a handle without a session is refused, because an id alone could name a message of any session', async () => {
    const { history } = (await kit.open({ threads, provider })).session('s');
    await history.append({ role: 'user', content: 'first' });
    const [message] = await history.messages();
    const bare = { id: message?.id } as unknown as Parameters<typeof history.rollbackBefore>[0];
    expect(await failure(history.rollbackBefore(bare))).toMatchObject({ name: 'InvalidArgumentError' });
    expect(await history.size()).toBe(1);
  });

  test('a handle of a deleted session does not reach a new session with the same id', async () => {
    const runtime = await kit.open({ threads, provider });
    const { history } = runtime.session('s');
    const old = await history.append({ role: 'user', content: 'old' });
    await runtime.sessions.delete('s');
    const error = await failure(history.rollbackBefore(old));
    expect(error).toMatchObject({ name: 'InvalidArgumentError', data: { session: 's' } });
    const fresh = await history.append({ role: 'user', content: 'new' });
    expect(fresh.incarnation).not.toBe(old.incarnation);
    expect(await failure(history.rollbackBefore(old))).toMatchObject({ name: 'InvalidArgumentError' });
    expect(await failure(history.remove(old))).toMatchObject({ name: 'InvalidArgumentError' });
    expect(await history.size()).toBe(1);
  });

  test('a receipt of a deleted session never refers to a new session with the same id', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, threads, provider });
    const session = runtime.session('s');
    const old = await session.send('old', { key: 'k' });
    expect(await old.answer()).toBe('to old');
    await session.delete();
    const unknown = { code: 'unknown_session' };
    await expect(old.status()).rejects.toMatchObject(unknown);
    const fresh = await session.send('new', { key: 'k' });
    expect(await fresh.answer()).toBe('to new');
    expect(fresh.pendingId).toBe(old.pendingId);
    expect(fresh.id).not.toBe(old.id);
    await expect(old.status()).rejects.toMatchObject(unknown);
    await expect(old.answer()).rejects.toMatchObject(unknown);
    await expect(old.promoted()).rejects.toMatchObject(unknown);
    await expect(session.receipt(old.id)).rejects.toMatchObject(unknown);
    expect(await (await session.receipt(fresh.id)).answer()).toBe('to new');
    await runtime.close();
    const again = (await kit.open({ directory, threads, provider })).session('s');
    expect(await (await again.receipt(fresh.id)).answer()).toBe('to new');
    await expect(again.receipt(old.id)).rejects.toMatchObject(unknown);
    // This id names the current session; ids of earlier versions have this form.
    expect((await again.receipt(`s/${fresh.pendingId}`)).id).toBe(fresh.id);
  });
});
