/**
 * The index card: an injected message before a user's turn that lists the archived chunks. There is at most one. It is
 * replaced only when the number of chunks has changed, so that requests stay prefixes of each other in between. Pure.
 */

import type { Selection } from '../rules/mailbox.ts';
import type { CompressionFacts } from '../state/inputs.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { mayRewrite } from './compression-plan.ts';

/** The record that updates the card before a turn of a user's message, or `undefined` if the card is up to date. */
export function chunkCard(
  state: SessionState,
  selection: Selection,
  facts: CompressionFacts,
  now: number,
): Extract<SessionRecord, { type: 'edited' }> | undefined {
  const count = state.compression?.chunk ?? 0;
  if (count === 0 || state.turn !== undefined) return undefined;
  const isUserTurn = [...selection.riders, ...selection.steers].some((entry) => entry.type === 'user_message');
  if (!isUserTurn) return undefined;
  const cards = state.messages.filter(isCard);
  if (lastCount(cards) === count) return undefined;
  // The model's later thoughts follow the old card, so removing the card changes the history to which those thoughts
  // are bound.
  if (cards.length > 0 && !mayRewrite(state, facts)) return undefined;
  return {
    type: 'edited',
    operation: 'chunkIndex',
    ...(cards.length === 0 ? {} : { removed: cards.map((card) => card.seq) }),
    added: [
      {
        message: {
          id: '',
          createdAt: now,
          role: 'user',
          content: cardText(state, count),
          systemInjected: true,
          chunkIndex: true,
          chunkCount: count,
        },
      },
    ],
  };
}

function isCard({ history }: LoggedMessage): boolean {
  return history?.chunkIndex === true;
}

/** The number of chunks on the newest card; 0 without one. */
function lastCount(cards: readonly LoggedMessage[]): number {
  return cards.at(-1)?.history?.chunkCount ?? 0;
}

/** One line per chunk. Chunks whose topics are unknown or no longer in memory are listed by name only. */
function cardText(state: SessionState, count: number): string {
  const notes = state.compression?.notes ?? [];
  const lines = ['[Archived parts of this conversation; the summary above covers them.]'];
  const first = notes[0]?.number ?? count + 1;
  if (first === 2) lines.push(chunkName(1));
  else if (first > 2) lines.push(`${chunkName(1)} to ${chunkName(first - 1)}`);
  for (const { number, messageCount, topics } of notes) {
    const about = topics === undefined ? '' : `: ${topics}`;
    lines.push(`${chunkName(number)} (${messageCount} ${messageCount === 1 ? 'message' : 'messages'})${about}`);
  }
  return lines.join('\n');
}

/** The name of a chunk in summaries and on the index card. */
export function chunkName(number: number): string {
  return `CHUNK-${number}`;
}
