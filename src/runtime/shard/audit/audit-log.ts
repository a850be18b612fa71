/**
 * Writes the audit log of a shard. An entry is in the append of the act of which it speaks, so a crash leaves both or
 * neither (A1 of `src/journal/stored-audit.ts`). What is an act, and what an entry has of it, is decided in
 * `src/session/audited.ts`.
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

/** Writes the acts of a transition. Call it right before the transition is appended. `at`: epoch ms. */
export function writeActs({ audit }: Journal, at: number, effects: readonly ActorEffect[]): void {
  for (const { effect } of effects) if (effect.type === 'audited') audit.add(at, auditText(at, effect.act));
}

/**
 * Writes the deletion of a session and its descendants: an entry for each of them. The first one is the session that
 * was named. Call it right after the removal from the journal.
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
