/**
 * Goal: C1 to C3 of the story of a turn, on events made by hand: text from deltas, and text only from durable messages.
 */
import { describe, expect, test } from 'vitest';
import { type Piece, TurnStory } from '../../src/adapters/turn-story.ts';
import type { EventBody, Message, SessionEvent } from '../../src/index.ts';

const promoted: EventBody = { type: 'pending.removed', pendingId: 1, reason: 'promoted' };
const awaiting: EventBody = { type: 'session.state', state: 'awaiting' };
const usage = { input_tokens: 1, output_tokens: 1 };
const finished: EventBody = { type: 'turn.finished', turn: 'turn-1', reason: 'end_turn', usage };

function delta(text: string): EventBody {
  return { type: 'text.delta', text, turn: 'turn-1' };
}

function message(fields: Partial<Message> & Pick<Message, 'type' | 'content'>): EventBody {
  return { type: 'message.created', message: { seq: 1, at: 0, tokens: 1, ...fields } };
}

function story(...bodies: readonly EventBody[]): readonly Piece[] {
  const told = new TurnStory(1);
  const pieces = bodies.flatMap((body) => told.take({ session: 's', at: 0, ...body } as SessionEvent));
  return [...pieces, ...told.finish()].filter(({ type }) => type !== 'break');
}

/** The texts, one for each part. */
function texts(...bodies: readonly EventBody[]): readonly string[] {
  const told = new TurnStory(1);
  const parts: string[] = [''];
  for (const body of bodies) {
    for (const piece of told.take({ session: 's', at: 0, ...body } as SessionEvent)) {
      if (piece.type === 'text') parts[parts.length - 1] += piece.delta;
      else if (parts.at(-1) !== '') parts.push('');
    }
  }
  return parts.filter((text) => text !== '');
}

test('C1: messages of another turn before the promotion are not reported', () => {
  const pieces = story(
    delta('of another'),
    message({ type: 'agent_message', content: 'of another' }),
    promoted,
    finished,
  );
  expect(pieces.map(({ type }) => type)).toEqual(['step', 'end']);
});

describe('C2: the parts of the text add up to the whole text', () => {
  const whole = message({ type: 'agent_message', content: 'one two three' });
  test.each([
    ['with all deltas', [delta('one '), delta('two three'), whole], ['one two three']],
    ['without deltas', [whole], ['one two three']],
    ['when the last deltas are missing', [delta('one '), whole], ['one two three']],
  ])('%s', (_name, events, expected) => {
    expect(texts(promoted, awaiting, ...events, finished)).toEqual(expected);
  });

  test('if a delta in the middle is missing, the whole text follows as a separate part', () => {
    expect(texts(promoted, awaiting, delta('one '), delta('three'), whole)).toEqual(['one three', 'one two three']);
  });

  test('the text of a failed attempt is not taken for the start of the next answer', () => {
    const retry: EventBody = { type: 'llm.retry', attempt: 1, waitMs: 5, status: 529 };
    expect(texts(promoted, awaiting, delta('on'), retry, delta('one two three'), whole)).toEqual([
      'on',
      'one two three',
    ]);
  });
});

describe('C3', () => {
  const call = message({ type: 'tool_call', content: 'add', toolUseId: 'a', toolName: 'add', input: { a: 1 } });
  const source = { type: 'tool', name: 'add' } as const;
  const response: EventBody = {
    type: 'pending.created',
    pending: {
      id: 2,
      type: 'tool_response',
      kind: 'active',
      content: '3',
      at: 0,
      source,
      toolUseId: 'a',
      success: true,
    },
  };
  const logged = message({ type: 'tool_response', content: '3', toolUseId: 'a', toolName: 'add', source });

  test('a call and then its result are reported, each once', () => {
    expect(story(promoted, call, response, logged, finished)).toEqual([
      { type: 'step' },
      { type: 'call', id: 'a', name: 'add', input: { a: 1 } },
      { type: 'result', id: 'a', name: 'add', text: '3', success: true },
      { type: 'end', how: 'finished', turn: 'turn-1', reason: 'end_turn', usage },
    ]);
  });

  test('a result that was never pending comes with its message; the result of an unknown call is dropped', () => {
    const types = (events: readonly Piece[]): readonly string[] => events.map(({ type }) => type);
    expect(types(story(promoted, call, logged, finished))).toEqual(['step', 'call', 'result', 'end']);
    expect(types(story(promoted, logged, finished))).toEqual(['step', 'end']);
  });

  test('a message of a child is a note, not a call', () => {
    const of = { type: 'subagent', name: 'scout' } as const;
    const pieces = story(
      promoted,
      message({ type: 'tool_call', content: 'from_scout', toolUseId: 'p', toolName: 'from_scout', source: of }),
      message({ type: 'tool_response', content: 'found', toolUseId: 'p', toolName: 'from_scout', source: of }),
      finished,
    );
    expect(pieces[1]).toEqual({
      type: 'note',
      name: 'delivery',
      data: { from: 'subagent', name: 'scout', text: 'found' },
    });
    expect(pieces).toHaveLength(3);
  });

  test.each([
    ['a cancelled turn', { ...finished, reason: 'cancelled' } as EventBody, { how: 'cancelled', reason: 'cancelled' }],
    [
      'a failed turn',
      { type: 'turn.failed', turn: 'turn-1', error: { name: 'E', code: 'internal', message: 'no' } } as EventBody,
      { how: 'failed', reason: 'internal' },
    ],
  ])('%s ends the story once', (_name, event, expected) => {
    const pieces = story(promoted, event, finished, delta('late'));
    expect(pieces.at(-1)).toMatchObject({ type: 'end', ...expected });
    expect(pieces.filter(({ type }) => type === 'end')).toHaveLength(1);
  });

  test('a withdrawn message and a deleted session also end the story', () => {
    expect(story({ type: 'pending.removed', pendingId: 1, reason: 'recalled' })).toEqual([
      { type: 'end', how: 'cancelled', reason: 'recalled' },
    ]);
    expect(story(promoted).at(-1)).toEqual({ type: 'end', how: 'cancelled', reason: 'closed' });
  });
});
