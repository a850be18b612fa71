/**
 * Goal: the messages that leave for a summary are the oldest, whole, and bounded. The rest begins with a user or agent
 * message.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { firstBoundary, memoryZone } from '../../../src/session/rules/memory-zone.ts';
import type { LoggedMessage } from '../../../src/session/state/messages.ts';

type Kind = LoggedMessage['type'];

function said(seq: number, tokens = 1_000, type: Kind = 'user_message'): LoggedMessage {
  return { seq, type, content: 'x', at: 0, tokens };
}

function tool(seq: number, type: 'tool_call' | 'tool_response', id: string, toolName = 'bash'): LoggedMessage {
  return { ...said(seq, 1_000, type), toolUseId: id, toolName };
}

describe('the boundary', () => {
  it('F092: the first user or agent message sets the boundary; tools alone set none', () => {
    expect(firstBoundary([tool(1, 'tool_call', 'a'), tool(2, 'tool_response', 'a')])).toBeUndefined();
    expect(firstBoundary([tool(1, 'tool_call', 'a'), tool(2, 'tool_response', 'a'), said(3)])).toBe(3);
    expect(firstBoundary([tool(1, 'tool_call', 'a', 'think'), said(2)])).toBe(1);
  });
});

describe('the zone', () => {
  it('F094: the oldest messages leave, up to a third of the budget; the newest stay', () => {
    const messages = Array.from({ length: 12 }, (_, index) => said(index + 1));
    expect(memoryZone(messages, 1, Math.floor(9_000 * 0.33))).toEqual({ from: 1, to: 2, boundary: 3 });
    expect(memoryZone(messages, 4, 3_000)).toEqual({ from: 4, to: 6, boundary: 7 });
  });

  it('F095: the window begins with the next user or agent message, and everything before it is in the zone', () => {
    const messages = [
      said(1),
      said(2, 1_000, 'agent_message'),
      tool(3, 'tool_call', 'a'),
      tool(4, 'tool_response', 'a'),
      said(5),
    ];
    expect(memoryZone(messages, 1, 1_000)).toEqual({ from: 1, to: 1, boundary: 2 });
    expect(memoryZone(messages, 2, 1_000)).toEqual({ from: 2, to: 4, boundary: 5 });
  });

  it('goes by the order of the messages: an edit that put a new message first leaves the others in the zone', () => {
    const edited = [said(9), said(1), said(2), said(3), said(4)];
    expect(memoryZone(edited, 9, 3_000)).toEqual({ from: 1, to: 9, boundary: 3 });
    expect(memoryZone(edited, 2, 1_000)).toEqual({ from: 2, to: 2, boundary: 3 });
  });

  it('Δ24: an open round stays, with all its messages', () => {
    const open = [said(1), tool(2, 'tool_call', 'a'), tool(3, 'tool_call', 'b'), tool(4, 'tool_response', 'a')];
    expect(memoryZone(open, 1, 10_000)).toBeUndefined();
    expect(memoryZone([...open, tool(5, 'tool_response', 'b'), said(6)], 1, 4_000)).toEqual({
      from: 1,
      to: 5,
      boundary: 6,
    });
  });

  it('Δ24, R14: a call before the boundary whose response is about to follow keeps what comes after it', () => {
    // An embedder added the said message behind the call.
    const added = [tool(1, 'tool_call', 'a'), said(2, 1_000, 'agent_message')];
    expect(memoryZone(added, 2, 10_000, 3)).toBeUndefined();
    const closed = [...added, tool(3, 'tool_response', 'a')];
    expect(memoryZone(closed, 2, 10_000, 4)).toEqual({ from: 2, to: 3, boundary: 4 });
  });

  it('all messages leave if a new message is about to follow', () => {
    const all = [said(1), said(2)];
    expect(memoryZone(all, 1, 9_000, 7)).toEqual({ from: 1, to: 2, boundary: 7 });
    expect(memoryZone([said(1)], 1, 10, 2)).toEqual({ from: 1, to: 1, boundary: 2 });
    expect(memoryZone([said(1), tool(2, 'tool_call', 'a')], 1, 9_000, 3)).toBeUndefined();
  });

  it('a message larger than the budget leaves alone; the newest message never leaves', () => {
    expect(memoryZone([said(1, 99_000), said(2)], 1, 10)).toEqual({ from: 1, to: 1, boundary: 2 });
    expect(memoryZone([said(1, 99_000)], 1, 10)).toBeUndefined();
  });

  it('the zone separates no call from its response, and the rest begins with a user or agent message (property)', () => {
    const piece = fc.oneof(
      fc.record({ do: fc.constant('said' as const), tokens: fc.nat(500) }),
      fc.record({ do: fc.constant('round' as const), calls: fc.integer({ min: 1, max: 3 }) }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), fc.nat(4_000), (pieces, budget) => {
        const messages: LoggedMessage[] = [];
        for (const each of pieces) {
          if (each.do === 'said') {
            messages.push(said(messages.length + 1, each.tokens));
            continue;
          }
          const ids = Array.from({ length: each.calls }, (_, index) => `${messages.length}-${index}`);
          for (const id of ids) messages.push(tool(messages.length + 1, 'tool_call', id));
          for (const id of ids) messages.push(tool(messages.length + 1, 'tool_response', id));
        }
        const zone = memoryZone(messages, 1, budget);
        if (zone === undefined) return;
        const kept = messages.filter((message) => message.seq >= zone.boundary);
        const gone = messages.filter((message) => message.seq <= zone.to);
        expect(kept.length + gone.length).toBe(messages.length);
        expect(kept[0]?.type).toBe('user_message');
        const ids = new Set(gone.map((message) => message.toolUseId).filter((id) => id !== undefined));
        expect(kept.some((message) => message.toolUseId !== undefined && ids.has(message.toolUseId))).toBe(false);
      }),
    );
  });
});
