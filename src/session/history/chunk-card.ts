/**
 * The index card: an injected message before a user's turn that lists the archives of the session (chunks). A session
 * has at most one index card. The card is replaced only when the number of archives has changed. Until then each
 * request begins with the previous request. Pure.
 */

import type { Selection } from '../rules/mailbox.ts';
import type { CompressionFacts } from '../state/inputs.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { mayRewrite } from './compression-plan.ts';

/** The record that updates the card before a turn of a user's message, or `undefined` if the card stays as it is. */
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
  // Thoughts that the model still needs may be bound to a history with the old card, so the card stays for now.
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

/** The number of archives on the newest card; 0 if there is no card. */
function lastCount(cards: readonly LoggedMessage[]): number {
  return cards.at(-1)?.history?.chunkCount ?? 0;
}

/**
 * The text of the card, with one line per archive. The oldest archives, no longer in memory, share one line of names.
 */
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

/** The name of an archive in summaries and on the index card. */
export function chunkName(number: number): string {
  return `CHUNK-${number}`;
}
