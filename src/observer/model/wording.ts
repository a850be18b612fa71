/** Formats figures, times and states. Pure. */

import type { LossReason } from '../../base/answer-draft.ts';
import type { SessionNode } from './session-tree.ts';
import { durationText } from './time-scale.ts';

/** The state of a session in one word. The word also selects how the session is drawn. */
export type Mark =
  | 'idle'
  | 'model'
  | 'tools'
  | 'retrying'
  | 'paused'
  | 'approval'
  | 'question'
  | 'preparing'
  | 'queued'
  | 'stopped'
  | 'ended'
  | 'failed';

/** The remark about the streamed part of a lost answer. No model receives this part. */
export const LOST_WORDS: Readonly<Record<LossReason, string>> = {
  restart: 'partial: cut off by a restart',
  cancelled: 'partial: interrupted',
  failed: 'partial: the call failed',
};

/** The word of each mark, and its meaning. */
export const MARK_WORDS: Readonly<Record<Mark, { readonly word: string; readonly meaning: string }>> = {
  idle: { word: 'idle', meaning: 'nothing to do' },
  model: { word: 'model', meaning: 'a model call is in flight' },
  tools: { word: 'tools', meaning: 'tools run' },
  retrying: { word: 'retry', meaning: 'a model call failed and is retried' },
  paused: { word: 'paused', meaning: 'starts nothing until it is resumed' },
  approval: { word: 'asks', meaning: 'a tool call waits for a person' },
  question: { word: 'question', meaning: 'a question of the model waits for an answer' },
  preparing: { word: 'prepares', meaning: 'its next half-step is being prepared' },
  queued: { word: 'queued', meaning: 'a child that starts when another child has ended' },
  stopped: { word: 'stopped', meaning: 'its last turn failed, or an error blocks it' },
  ended: { word: 'ended', meaning: 'has finished its task' },
  failed: { word: 'failed', meaning: 'the child ended with a failure' },
};

/**
 * The mark of a session. A state in which a person must act comes first, then the session's activity, then the way the
 * session ended.
 */
export function markOf(node: Pick<SessionNode, 'state' | 'phase' | 'trouble' | 'ended' | 'isQueued'>): Mark {
  const { state, phase, trouble, ended, isQueued } = node;
  if (phase === 'approval' || phase === 'question' || phase === 'paused') return phase;
  if (phase === 'retrying' && state === 'awaiting') return phase;
  if (state === 'awaiting') return 'model';
  if (state === 'executing') return 'tools';
  if (phase === 'preparing') return phase;
  if (ended === 'failed') return 'failed';
  if (trouble !== undefined) return 'stopped';
  if (ended !== undefined) return 'ended';
  return isQueued ? 'queued' : 'idle';
}

/** Formats counts in few characters: 950, 1.2k, 34k, 5.6M. */
export function countText(count: number): string {
  if (count < 1_000) return String(Math.round(count));
  if (count < 9_950) return `${(count / 1_000).toFixed(1)}k`;
  if (count < 999_500) return `${Math.round(count / 1_000)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** Formats a rate with a readable number of digits. */
export function rateText(rate: number): string {
  if (rate < 10) return rate.toFixed(1).replace(/\.0$/u, '');
  return Math.round(rate).toLocaleString('en');
}

/** Formats the time since an event in one unit: 3s, 12m, 5h, 8d. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** The local time of day of an instant. */
export function clockText(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

/** A count with its noun: `3 calls`, `1 call`. */
export function countOf(count: number, one: string, many: string = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

export { durationText };
