/**
 * Removes the oldest messages from the window for good. Changes the given state in place, as `apply` does; otherwise
 * pure. Keeps S1 and S6 of `state.ts`.
 */

import { trimStarts } from '../history/tasks.ts';
import { windowStart, withDeparture } from '../rules/eviction.ts';
import { rememberPins } from '../rules/goals.ts';
import type { RecordOf } from '../state/records.ts';
import { publishActive } from './activation.ts';
import { hideChildren } from './children.ts';
import type { Fold } from './fold.ts';

/** Messages left the window. A state that is folded only to read all messages keeps them. */
export function applyEvicted(fold: Fold, record: RecordOf<'evicted'>): void {
  if (!fold.state.keepsAll) evict(fold, record.below, record.pinTokens);
}

/** Removes all messages before the message with the seq `below` from the window, and opens an epoch. */
export function evict(fold: Fold, below: number, pinTokens?: number): void {
  const { state } = fold;
  if (pinTokens !== undefined) rememberPins(state, pinTokens);
  const start = windowStart(state.messages, below);
  const gone = state.messages.slice(0, start);
  for (const message of gone) {
    // A system message is part of the prompt and stays.
    if (message.prompt === true) continue;
    state.tokens -= message.tokens;
    if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.delete(message.toolUseId);
  }
  const kept = state.messages.slice(start);
  state.messages = state.promptCount === 0 ? kept : [...gone.filter((message) => message.prompt === true), ...kept];
  state.floor = Math.max(state.floor, below);
  state.departures = withDeparture(state.departures, fold.at);
  trimStarts(state.tasks, [state.messages, state.hidden]);
  fold.openEpoch();
  if (fold.counts()) fold.publish({ type: 'eviction', below });
  hideChildren(fold);
  if (state.active !== undefined) publishActive(fold);
}
