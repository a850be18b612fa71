/** Contents of waiting entries that only the log has, and the bounds of a mailbox in bytes. */
import { describe, expect, it } from 'vitest';
import type { ErrorShape } from '../../../src/base/errors.ts';
import { contentOf, isStored, storeContents } from '../../../src/session/rules/waiting-content.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState } from '../../../src/session/state/state.ts';
import { contentBytes } from '../../../src/session/state/tokens.ts';
import { Machine, makeWorld, type WorldOptions } from '../../support/session-kit.ts';

const LONG = 'long '.repeat(100);

/** A paused idle session, in which sent messages wait. */
function paused(options: WorldOptions = {}): Machine {
  const machine = new Machine(makeWorld(options));
  machine.input({ type: 'create', agent: 'main' });
  machine.input({ type: 'pause' });
  return machine;
}

function refusalOf(result: number | ErrorShape): ErrorShape {
  if (typeof result === 'number') throw new Error('the message was accepted');
  return result;
}

describe('contents kept only in the log', () => {
  it('a large content leaves the state when its record has a position, and a small one stays', () => {
    const machine = paused({ storedContentBytes: 100 });
    machine.send('short');
    machine.send(LONG);
    expect(machine.state.mailbox.map(({ content }) => isStored(content))).toEqual([false, true]);
    expect(machine.state.mailbox.map(({ bytes }) => bytes)).toEqual([5, LONG.length]);
    expect(JSON.stringify(machine.state)).not.toContain(LONG);
  });

  it('the content is read back when the entry is claimed, and the message has it', () => {
    const machine = paused({ storedContentBytes: 0 });
    const blocks = [{ type: 'text', text: LONG }] as const;
    machine.send(LONG);
    machine.send(blocks);
    machine.input({ type: 'resume' });
    machine.answer('one');
    expect(machine.state.messages.map(({ content }) => content)).toEqual([LONG, 'one', blocks]);
    expect(machine.state.mailboxBytes).toBe(0);
  });

  it('merged entries are joined whole, and a bounced entry returns whole', () => {
    const machine = paused({ storedContentBytes: 0 });
    machine.send('a', { deliver: 'merge' });
    machine.send('b', { deliver: 'merge' });
    machine.input({ type: 'resume' });
    expect(machine.log).toEqual(['user_message a\n\nb']);
    const other = paused({ storedContentBytes: 0 });
    other.send(LONG, { bounceBack: true });
    other.input({ type: 'resume' });
    const error = { name: 'ModelError', code: 'model_protocol', message: 'no' } as const;
    other.fail(error);
    expect(other.events('bounce_back')).toMatchObject([{ content: LONG }]);
  });

  it('a snapshot holds only the reference, and is read as it was written', () => {
    const machine = paused({ storedContentBytes: 0 });
    machine.send(LONG);
    const text = snapshotState(machine.state);
    expect(text).not.toContain(LONG);
    const restored = restoreState(text);
    expect(restored).toEqual(machine.state);
    const [entry] = restored.mailbox;
    if (entry === undefined) throw new Error('nothing waits');
    expect(contentOf(entry, machine.readContent)).toBe(LONG);
  });

  it('a snapshot from before bytes were counted is measured when it is read', () => {
    const machine = paused();
    machine.send('12345');
    const { mailboxBytes: _, ...old } = JSON.parse(snapshotState(machine.state));
    old.mailbox = old.mailbox.map(({ bytes: _bytes, ...entry }: { bytes: number }) => entry);
    expect(restoreState(JSON.stringify(old))).toEqual(machine.state);
  });

  it('the content of an entry that is claimed by the accepting transition is not looked up', () => {
    const state = emptyState('s');
    storeContents(state, [{ type: 'accepted', id: 1, entry: { type: 'user_message', content: 'x' } }], 1, 0);
    expect(state.mailbox).toEqual([]);
  });

  it('without a log a missing content is a fault, and not a blank message', () => {
    const machine = paused({ storedContentBytes: 0 });
    machine.send(LONG);
    const [entry] = machine.state.mailbox;
    if (entry === undefined) throw new Error('nothing waits');
    expect(() => contentOf(entry, undefined)).toThrow('reads the content of entry');
  });
});

describe('bounds in bytes', () => {
  it('limits.mailboxBytes: a message that does not fit beside waiting ones is refused, and a leaving one makes room', () => {
    const machine = paused({ limits: { mailboxBytes: 1_000 } });
    const first = machine.send(LONG);
    machine.send(LONG);
    const refusal = refusalOf(machine.send('x'));
    expect(refusal).toMatchObject({ code: 'mailbox_full', retryable: true, data: { limit: 'mailboxBytes', value: 1 } });
    expect(refusal.message).toContain('limits.mailboxBytes: 1000');
    machine.input({ type: 'recall', pendingId: Number(first) });
    expect(machine.send('x')).toBeTypeOf('number');
  });

  it('limits.waitingBytes: counts the waiting contents of all sessions', () => {
    const machine = paused({ limits: { waitingBytes: 1_000 } });
    machine.world.waitingBytes = 990;
    machine.send('12345');
    machine.world.waitingBytes = 995;
    expect(refusalOf(machine.send('123456'))).toMatchObject({ data: { limit: 'waitingBytes', value: 6 } });
    expect(machine.send('12345')).toBeTypeOf('number');
  });

  it('an empty mailbox accepts any message, whatever other sessions hold', () => {
    const machine = paused({ limits: { mailboxBytes: 10, waitingBytes: 10 } });
    machine.world.waitingBytes = 10_000;
    expect(machine.send(LONG)).toBeTypeOf('number');
    expect(refusalOf(machine.send('x'))).toMatchObject({ code: 'mailbox_full' });
  });

  it('results of calls are always accepted, and count toward the bounds', () => {
    const machine = new Machine(makeWorld({ limits: { mailboxBytes: 10 } }));
    machine.input({ type: 'create', agent: 'main' });
    machine.send('go');
    machine.answer([
      { type: 'tool_use', id: 'a', name: 'bash', input: {} },
      { type: 'tool_use', id: 'b', name: 'bash', input: {} },
    ]);
    machine.finish('a', LONG);
    expect(machine.state.mailboxBytes).toBe(LONG.length);
    expect(refusalOf(machine.send('x'))).toMatchObject({ data: { limit: 'mailboxBytes' } });
    machine.finish('b', 'done');
    expect(machine.state.state).toBe('awaiting');
    expect(machine.state.mailboxBytes).toBe(0);
  });

  it('bytes are those of UTF-8', () => {
    expect(contentBytes('é')).toBe(2);
    expect(contentBytes([{ type: 'text', text: 'é' }])).toBe(Buffer.byteLength('[{"type":"text","text":"é"}]'));
  });
});
