/**
 * Writes the audit log of a shard. An entry and the act that it reports are in one append, so a crash leaves both or
 * neither (A1 of `src/journal/stored-audit.ts`). `src/session/audited.ts` decides which steps of a session are acts,
 * and which facts an entry has. Deletions and takeovers are not steps of a session: this file makes their entries.
 */
import type { SessionActor } from '../../../../actors/session-actor.ts';
import type { ActorEffect } from '../../../../actors/supervision/tree-transition.ts';
import { auditText } from '../../../base/audit/audit-entry.ts';
import { defined } from '../../../base/defined.ts';
import type { Journal } from '../../../journal/journal.ts';

/** The author of a deletion, or its cause if the runtime deletes. */
export interface DeletionReason {
  readonly by?: string;
  readonly cause?: 'retention';
}

/** Writes the acts of a transition. Call this right before the transition is appended. `at`: epoch ms. */
export function writeActs({ audit }: Journal, at: number, effects: readonly ActorEffect[]): void {
  for (const { effect } of effects) if (effect.type === 'audited') audit.add(at, auditText(at, effect.act));
}

/**
 * Writes the entry about another process that takes over the store from this one. The entry is durable with the next
 * commit, at the latest with the close that follows. `pid`: the process that takes over.
 */
export function writeTakeover(
  { audit }: Journal,
  at: number,
  details: { readonly shard: number; readonly pid: number },
): void {
  audit.add(at, auditText(at, { action: 'store.taken_over', details }));
}

/**
 * Writes the deletion of a session and its descendants: an entry for each of them. The first session of `deleted` is
 * the session that the deletion named. Call this right after the removal from the journal.
 */
export function writeDeletions(
  { audit }: Journal,
  at: number,
  deleted: readonly SessionActor[],
  { by, cause }: DeletionReason,
): void {
  const named = deleted[0]?.id;
  for (const { id, key } of deleted) {
    const details = { incarnation: key, ...defined({ with: id === named ? undefined : named, cause }) };
    audit.add(at, auditText(at, { action: 'session.deleted', session: id, ...defined({ by }), details }));
  }
}
