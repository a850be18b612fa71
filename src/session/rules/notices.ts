/**
 * Notices, the contents of webhooks: a call of a session waits for a person, or a turn ended. They are made while the
 * log is folded, so a live session and a replay of its log make the same notices. Pure.
 */
import { NOTICE_BYTES_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { isOfTenant } from '../../base/ids.ts';
import { type Json, wellFormed } from '../../base/json.ts';
import type { Usage } from '../../base/messages.ts';
import type { EventBody } from '../../events/event.ts';
import type { RunningTurn, SessionState } from '../state/state.ts';
import { type QueuedCall, queuedCalls, rootIdOf } from './queued-calls.ts';

/** A tool call waits for a person. */
export interface WaitingNotice extends Omit<QueuedCall, 'input'> {
  /** Missing if `inputOmitted` is true. */
  readonly input?: unknown;
  /** True if the input is too large for a notice; the queue of waiting calls has it. */
  readonly inputOmitted?: true;
}

/** A turn of a session ended. */
export interface TurnNotice {
  readonly session: string;
  /** The session at the top of the tree, if this is a sub-agent. */
  readonly root?: string;
  readonly agent: string;
  /** The turn's name, as events have it. */
  readonly turn: string;
  readonly end: 'finished' | 'failed' | 'interrupted' | 'suspended';
  /** The model's stop reason, or why the runtime ended the turn; the error's code if the turn failed. */
  readonly reason: string;
  readonly usage: Usage;
  /** The text of the turn's last answer, or its structured answer as JSON; `''` if there is neither. */
  readonly text: string;
  /** True if `text` is only the beginning of the text. */
  readonly textCut?: true;
  /** The structured answer; missing if there is none, or if it is too large for a notice. */
  readonly output?: Json;
  readonly error?: { readonly code: string; readonly message: string };
}

/** A notice, with the position of its event in the session. */
export type Notice = {
  readonly session: string;
  /** Seq of the event. */
  readonly seq: number;
  /** Epoch ms of the event. */
  readonly at: number;
  readonly isOfChild: boolean;
} & (
  | { readonly type: 'waiting'; readonly data: WaitingNotice }
  | { readonly type: 'turn.ended'; readonly data: TurnNotice }
);

/** The notices that a receiver wants. */
export interface NoticeWish {
  readonly events: readonly Notice['type'][];
  /** True if the ends of sub-agents' turns are wanted too. Waiting calls of every session are wanted. */
  readonly children: boolean;
  /** The tenant whose sessions' notices are wanted; missing: those of all sessions. */
  readonly tenant?: string;
}

/** The notice of an event; undefined if its call does not wait for a person. `expiresMs`: how long calls may wait. */
export function noticeOf(
  state: SessionState,
  announced: {
    readonly event: EventBody;
    readonly seq: number;
    readonly at: number;
    readonly turn?: RunningTurn | undefined;
  },
  expiresMs: number | null,
): Notice | undefined {
  const { event, seq, at, turn } = announced;
  const place = { session: state.id, seq, at, isOfChild: state.parent !== undefined };
  if (event.type === 'turn.finished' || event.type === 'turn.failed') {
    return { ...place, type: 'turn.ended', data: turnNotice(state, event, turn) };
  }
  if (!('toolUseId' in event)) return undefined;
  const found = queuedCalls(state, expiresMs).find(({ call }) => call.callId === event.toolUseId);
  return found === undefined ? undefined : { ...place, type: 'waiting', data: waitingNotice(found.call) };
}

/** True if the receiver wants this notice. */
export function isWanted({ session, type, isOfChild }: Notice, { events, children, tenant }: NoticeWish): boolean {
  if (!isOfTenant(tenant, session)) return false;
  return events.includes(type) && (children || !isOfChild || type === 'waiting');
}

function waitingNotice(call: QueuedCall): WaitingNotice {
  const { input, ...rest } = call;
  return utf8Bytes(JSON.stringify(input) ?? '') > NOTICE_BYTES_MAX ? { ...rest, inputOmitted: true } : call;
}

function turnNotice(
  state: SessionState,
  event: Extract<EventBody, { type: 'turn.finished' | 'turn.failed' }>,
  turn: RunningTurn | undefined,
): TurnNotice {
  const root = rootIdOf(state);
  const output = event.type === 'turn.finished' ? event.output : undefined;
  const whole = output === undefined ? (turn?.text ?? '') : JSON.stringify(output);
  const text = cutText(whole);
  const isCut = text.length < whole.length;
  return {
    session: state.id,
    ...defined({ root }),
    agent: state.agent ?? '',
    turn: event.turn,
    end: endOf(state, event),
    reason: event.type === 'turn.finished' ? event.reason : event.error.code,
    usage: turn?.usage ?? state.usage,
    text,
    ...(isCut ? { textCut: true } : defined({ output })),
    ...(event.type === 'turn.failed'
      ? { error: { code: event.error.code, message: cutText(event.error.message) } }
      : {}),
  };
}

function endOf(
  state: SessionState,
  event: Extract<EventBody, { type: 'turn.finished' | 'turn.failed' }>,
): TurnNotice['end'] {
  if (event.type === 'turn.failed') return 'failed';
  if (state.suspended !== undefined) return 'suspended';
  return event.outcome === 'interrupted' ? 'interrupted' : 'finished';
}

/** The longest beginning of at most `NOTICE_BYTES_MAX` bytes, without half a character at its end. */
function cutText(text: string): string {
  if (utf8Bytes(text) <= NOTICE_BYTES_MAX) return text;
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    bytes += utf8Bytes(character);
    if (bytes > NOTICE_BYTES_MAX) break;
    end += character.length;
  }
  return wellFormed(text.slice(0, end));
}

function utf8Bytes(text: string): number {
  return Buffer.byteLength(text);
}
