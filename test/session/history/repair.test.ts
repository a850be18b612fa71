/** Goal: repairing a history changes only its broken parts. Method: examples, and random histories. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HistoryMessage } from '../../../src/base/history-message.ts';
import {
  finalAssistantMessage,
  orphanedToolCallIds,
  pendingToolCalls,
  steps,
} from '../../../src/session/history/queries.ts';
import { fillOrphans, INTERRUPTED_RESULT, pruneOrphans } from '../../../src/session/history/repair.ts';
import { ask, brief, result, said, user } from '../../support/history-kit.ts';

describe('repairing a history', () => {
  it('H22: an unanswered call is answered directly after its message, before the results of other calls', () => {
    const messages = [ask('a1', 'done', 'open'), result('done')];
    const [filled, ids] = fillOrphans(messages);
    expect(ids).toEqual(['open']);
    expect(brief(filled)).toEqual(['assistant a1', 'tool open', 'tool done']);
    expect(filled[1]).toMatchObject({
      role: 'tool',
      content: 'Tool call interrupted before completion.',
      error: INTERRUPTED_RESULT,
      errorType: 'interrupted',
      name: 'bash',
      toolCallId: 'open',
    });
    expect(messages).toHaveLength(2);
  });

  it('H22: an id that two messages leave open is filled twice', () => {
    const [filled, ids] = fillOrphans([ask('a1', 'x'), ask('a2', 'x')]);
    expect(ids).toEqual(['x', 'x']);
    expect(new Set(filled.map((message) => message.id)).size).toBe(4);
  });

  it('H23: an interrupted exchange is removed whole, with its answered siblings and results without a call', () => {
    const messages = [user('u1'), ask('a1', 'x', 'y'), result('x'), user('u2'), result('stray'), said('a2')];
    expect(brief(pruneOrphans(messages))).toEqual(['user u1', 'user u2', 'assistant a2']);
  });

  it('H24: the last answer keeps its open calls while only results follow it', () => {
    const messages = [user('u1'), ask('a1', 'x', 'y'), result('x')];
    expect(pruneOrphans(messages)).toBe(messages);
    expect(brief(pruneOrphans([...messages, result('stray')]))).toEqual(['user u1', 'assistant a1', 'tool x']);
    expect(brief(pruneOrphans([...messages, user('u2')]))).toEqual(['user u1', 'user u2']);
  });

  it('H25: if it is off, or nothing needs repair, both operations return the same list', () => {
    const broken = [ask('a1', 'x'), user('u1')];
    expect(fillOrphans(broken, { enabled: false })).toEqual([broken, []]);
    expect(fillOrphans(broken, { enabled: false })[0]).toBe(broken);
    expect(pruneOrphans(broken, { enabled: false })).toBe(broken);
    const whole = [user('u1'), ask('a1', 'x'), result('x'), said('a2')];
    expect(fillOrphans(whole)[0]).toBe(whole);
    expect(pruneOrphans(whole)).toBe(whole);
  });

  it('H22, H23: any filled history is whole, and pruning twice equals pruning once', () => {
    fc.assert(
      fc.property(histories(), (messages) => {
        const before = JSON.stringify(messages);
        expect(orphanedToolCallIds(fillOrphans(messages)[0])).toEqual([]);
        const pruned = pruneOrphans(messages);
        expect(pruneOrphans(pruned)).toBe(pruned);
        const boundary = pendingToolCalls(pruned)[1].map((call) => call.callId);
        expect(orphanedToolCallIds(pruned).every((id) => boundary.includes(id))).toBe(true);
        expect(pruned.filter(({ role }) => role === 'user')).toEqual(messages.filter(({ role }) => role === 'user'));
        expect(JSON.stringify(messages)).toBe(before);
      }),
      { numRuns: 300 },
    );
  });
});

describe('calls and results', () => {
  it('H16: a result before or after its call answers it; the order is that of the history', () => {
    expect(orphanedToolCallIds([])).toEqual([]);
    expect(orphanedToolCallIds([result('x'), ask('a1', 'z', 'x', 'y'), ask('a2', 'w'), result('y')])).toEqual([
      'z',
      'w',
    ]);
  });

  it('H17: pending calls are those of the last answer that no later result answers', () => {
    expect(pendingToolCalls([user('u1')])).toEqual([null, []]);
    const last = ask('a2', 'x', 'y');
    expect(pendingToolCalls([ask('a1', 'o'), result('x'), last, result('y'), user('u1')])).toEqual([
      last,
      [{ callId: 'x', name: 'bash', arguments: '{}' }],
    ]);
    expect(pendingToolCalls([said('a3')])).toEqual([said('a3'), []]);
  });

  it('H18: steps are assistant messages, the final one is the last of them', () => {
    const messages = [user('u1'), ask('a1', 'x'), result('x'), said('a2'), user('u2')];
    expect(steps(messages)).toBe(2);
    expect(finalAssistantMessage(messages)).toEqual(said('a2'));
    expect(finalAssistantMessage([])).toBeNull();
  });
});

type Kind = { readonly kind: string; readonly calls?: readonly string[] };

/** The index of the first message with this call. */
function owner(list: readonly Kind[], callId: string): number {
  return list.findIndex(({ calls }) => calls?.includes(callId) === true);
}

function histories(): fc.Arbitrary<readonly HistoryMessage[]> {
  const calls = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 2 });
  const message = fc.oneof(
    fc.record({ kind: fc.constant('user' as const) }),
    fc.record({ kind: fc.constant('ask' as const), calls }),
    fc.record({ kind: fc.constant('result' as const), call: fc.constantFrom('a', 'b', 'c', 'd', 'e') }),
  );
  return fc.array(message, { maxLength: 10 }).map((list) =>
    list.map((each, index) => {
      if (each.kind === 'user') return user(`u${index}`);
      // Providers give each call a unique id; the result for ids that messages share is not specified.
      if (each.kind === 'ask') return ask(`a${index}`, ...each.calls.filter((id) => owner(list, id) === index));
      return { ...result(each.call), id: `t${index}` };
    }),
  );
}
