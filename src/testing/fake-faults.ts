/**
 * The faults of the fake server: which call meets which fault, and the form of a broken stream. A faulted call takes no
 * reply from the script, so a client that retries gets the original answer. The faults `slow_bytes` and `unknown_event`
 * are not failures, because the answer arrives whole. The fault `truncated_input` is no failure of the wire: the answer
 * has a tool call that cannot run.
 *
 * The fault of a call is a function of the seed and of its arrival number, not of time. A run with the same seed and
 * the same calls meets the same faults.
 */
import type { ModelResponse } from '../models/provider.ts';
import { eventText, streamTexts } from './fake-stream.ts';

/** The kinds of faults. */
export type FaultKind =
  /** Status 429 with `retry-after`. */
  | 'rate_limited'
  /** Status 529. */
  | 'overloaded'
  /** Status 500. */
  | 'server_error'
  /** The connection ends before any header. */
  | 'reset'
  /** An error event (overloaded) in a stream that began with 200. */
  | 'error_event'
  /** The connection ends in the middle of an event. */
  | 'disconnect'
  /** The stream ends properly, but before its last event. */
  | 'missing_stop'
  /** An event whose data is not JSON. */
  | 'bad_json'
  /** A tool call whose input is cut, although the token limit was not reached. */
  | 'truncated_input'
  /** A delta of a block that is not open. */
  | 'wrong_index'
  /** A delta before its block begins. */
  | 'out_of_order'
  /** The whole answer, written a few bytes at a time. */
  | 'slow_bytes'
  /** The whole answer, with unknown events and fields in between. */
  | 'unknown_event';

/** Every fault. */
export const FAULT_KINDS: readonly FaultKind[] = [
  ...(['rate_limited', 'overloaded', 'server_error', 'reset', 'error_event', 'disconnect'] as const),
  ...(['missing_stop', 'bad_json', 'truncated_input', 'wrong_index', 'out_of_order'] as const),
  ...(['slow_bytes', 'unknown_event'] as const),
];

/** Faults by arrival number, and by chance. */
export interface Faults {
  /** The fault of the n-th call, from 0. */
  readonly at?: Readonly<Record<number, FaultKind>>;
  /** The share of the calls not named in `at` that meet a fault, 0 to 1. Default 0. */
  readonly rate?: number;
  /** The kinds of the faults that meet calls by chance, drawn with equal probability. Default: every kind. */
  readonly kinds?: readonly FaultKind[];
  /** Milliseconds that a 429 sends as `retry-after-ms` and, rounded up to seconds, as `retry-after`. Default 1000. */
  readonly retryAfterMs?: number;
}

/** The HTTP status of a fault that has one. */
export const FAULT_STATUS: Readonly<Partial<Record<FaultKind, number>>> = {
  rate_limited: 429,
  overloaded: 529,
  server_error: 500,
};

/** The fault the n-th call meets, if any. */
export function faultOf(faults: Faults | undefined, seed: number, call: number): FaultKind | undefined {
  if (faults === undefined) return undefined;
  const named = faults.at?.[call];
  if (named !== undefined) return named;
  const random = randomOf(seed, call);
  if (random() >= (faults.rate ?? 0)) return undefined;
  const kinds = faults.kinds ?? FAULT_KINDS;
  return kinds[Math.floor(random() * kinds.length)];
}

/** Numbers in [0, 1) that depend on a seed and a call alone. Source: mulberry32, public domain. */
export function randomOf(seed: number, call: number): () => number {
  let state = (Math.imul(seed, 0x9e37_79b1) ^ Math.imul(call + 1, 0x85eb_ca6b)) >>> 0;
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The text of a broken stream. The text contains nothing of the script's answer. */
export function brokenStream(kind: FaultKind, model: string): string {
  const texts = [...streamTexts(placeholder(model))];
  const firstDelta = texts.findIndex((text) => text.includes('text_delta'));
  const wrongDelta = eventText({
    type: 'content_block_delta',
    index: 7,
    delta: { type: 'text_delta', text: 'stray' },
  });
  switch (kind) {
    case 'error_event': {
      const error = { type: 'overloaded_error', message: 'Overloaded' };
      return [...texts.slice(0, firstDelta + 1), eventText({ type: 'error', error })].join('');
    }
    case 'missing_stop':
      return texts.slice(0, -1).join('');
    case 'bad_json':
      texts.splice(firstDelta + 1, 0, 'event: content_block_delta\ndata: {"type":"content_bl\n\n');
      return texts.join('');
    case 'wrong_index':
      texts.splice(firstDelta + 1, 0, wrongDelta);
      return texts.join('');
    case 'out_of_order':
      texts.splice(1, 0, ...texts.splice(firstDelta, 1));
      return texts.join('');
    case 'truncated_input':
      return texts.filter((text) => !(text.includes('input_json_delta') && text.includes('}"'))).join('');
    default: {
      const whole = texts.join('');
      return whole.slice(0, Math.floor(whole.length / 2));
    }
  }
}

/** The events of an answer, with unknown events, pings and comments between them. */
export function withUnknownEvents(texts: readonly string[]): readonly string[] {
  const noise = [
    eventText({ type: 'ping' }),
    eventText({ type: 'weather_report', sky: 'clear' }),
    ': a comment\n\n',
    'id: 7\nretry: 10\n\n',
  ];
  return texts.flatMap((text, index) => [text, noise[index % noise.length] ?? '']);
}

function placeholder(model: string): ModelResponse {
  return {
    id: 'msg_fault',
    model,
    content: [
      { type: 'text', text: 'This answer is going to break off before anybody may believe it.' },
      { type: 'tool_use', id: 'toolu_fault', name: 'never', input: { run: 'this call', why: 'it is not whole' } },
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 1, output_tokens: 1 },
  };
}
