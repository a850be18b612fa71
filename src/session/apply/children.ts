/**
 * The facts that a session keeps about its children: their spawning, names, token use and end, and whether its list of
 * children shows them. Changes the given state in place, as `apply` does; otherwise pure.
 */

import { CHILDREN_LISTED_MAX } from '../../base/bounds.ts';
import { deliveryNameOf } from '../../base/ids.ts';
import { type ChildLink, isOpenChild } from '../state/child-link.ts';
import type { RecordOf } from '../state/records.ts';
import type { Fold } from './fold.ts';

export function applySpawned(fold: Fold, record: RecordOf<'spawned'>): void {
  const { state } = fold;
  state.children.set(record.child, {
    id: record.child,
    name: record.name,
    replies: record.replies,
    ...(record.spawnCallId === undefined ? {} : { spawnCallId: record.spawnCallId }),
    ...(record.specialist === undefined ? {} : { specialist: record.specialist }),
    ...(record.queued === undefined ? {} : { queued: record.queued }),
  });
  if (record.queued === true) state.childQueue.add(record.child);
  else state.childrenAtWork += 1;
  state.nextChild = Number(record.child.slice(record.child.lastIndexOf(':') + 1)) + 1;
  state.childNames.add(record.name);
  if (record.key !== undefined) {
    state.childKeys.set(record.key, { child: record.child, fingerprint: record.fingerprint ?? '' });
  }
  if (fold.counts()) fold.publish({ type: 'child.spawned', child: record.child, name: record.name });
}

/** Gives a child the name that was chosen for it. */
export function applyChildNamed(fold: Fold, { child, name }: RecordOf<'childNamed'>): void {
  const { state } = fold;
  const link = state.children.get(child);
  if (link === undefined) throw new Error(`unknown child ${child}`);
  state.childNames.delete(link.name);
  state.childNames.add(name);
  if (state.hiddenChildren.delete(link.name)) state.hiddenChildren.add(name);
  state.children.set(child, { ...link, name });
  publishChildren(fold);
}

/** A descendant used tokens that count for this session's budget. */
export function applyBudgetUsed({ state }: Fold, record: RecordOf<'budgetUsed'>): void {
  if (state.budget !== undefined) state.budget.below += record.tokens;
}

/**
 * The session's own budget changes, or its use now counts for its parent's budget. Tokens of descendants that were
 * counted stay counted.
 */
export function applyBudget({ state }: Fold, record: RecordOf<'budgetSet' | 'budgetShared'>): void {
  const { tokens, isShared, below = 0 } = state.budget ?? {};
  const isJoined = record.type === 'budgetShared' || isShared === true;
  const limit = record.type === 'budgetSet' ? record.tokens : tokens;
  state.budget = { ...(limit === undefined ? {} : { tokens: limit }), ...(isJoined ? { isShared: true } : {}), below };
}

/** A queued child of this session may start. */
export function applyChildStarted({ state }: Fold, record: RecordOf<'childStarted'>): void {
  const child = state.children.get(record.child);
  if (child === undefined) throw new Error(`unknown child ${record.child}`);
  delete child.queued;
  state.childQueue.delete(child.id);
  state.childrenAtWork += 1;
}

/** A child that has ended works again, or waits behind the other queued children. */
export function applyChildRevived({ state }: Fold, record: RecordOf<'childRevived'>): void {
  const child = state.children.get(record.child);
  if (child === undefined) throw new Error(`unknown child ${record.child}`);
  child.revived = true;
  if (record.queued === true) {
    child.queued = true;
    state.childQueue.add(child.id);
  } else {
    state.childrenAtWork += 1;
  }
}

export function applyChildExited(fold: Fold, record: RecordOf<'childExited'>): void {
  const { state } = fold;
  const child = state.children.get(record.child);
  if (child === undefined) throw new Error(`unknown child ${record.child}`);
  if (!state.childQueue.delete(child.id)) state.childrenAtWork -= 1;
  delete child.queued;
  delete child.revived;
  // A completed child stays `completed`, whatever its later work did.
  if (child.exited === 'completed') return;
  child.exited = record.reason;
  if (fold.counts())
    fold.publish({ type: 'child.exited', child: record.child, name: child.name, reason: record.reason });
  child.exitedSeq = fold.state.eventSeq;
}

/** Removes from the list the children whose spawn call and texts have all left the window (§7.7). */
export function hideChildren(fold: Fold): void {
  const { state } = fold;
  if (state.children.size === 0) return;
  const heard = new Set<string | undefined>();
  for (const message of state.messages) if (message.phantom === true) heard.add(message.toolName);
  // `callIds` also has the ids of hidden calls, which the model does not see.
  const unseen = new Set(state.hidden.map((message) => message.toolUseId));
  for (const child of state.children.values()) {
    const { spawnCallId } = child;
    const isSpawnSeen = spawnCallId !== undefined && state.callIds.has(spawnCallId) && !unseen.has(spawnCallId);
    const hasTrace = isSpawnSeen || heard.has(deliveryNameOf(child.name));
    if (hasTrace || state.hiddenChildren.has(child.name)) continue;
    state.hiddenChildren.add(child.name);
    if (fold.counts()) fold.publish({ type: 'subagent.evicted', child: child.id });
  }
}

/** Lists a hidden child again, because a message from that child arrived. */
export function showChild(fold: Fold, name: string | undefined): void {
  if (name === undefined || !fold.state.hiddenChildren.delete(name)) return;
  publishChildren(fold);
}

function publishChildren(fold: Fold): void {
  const { children, hiddenChildren } = fold.state;
  if (fold.counts()) {
    fold.publish({
      type: 'children.updated',
      children: [...children.values()]
        .filter((each) => !hiddenChildren.has(each.name))
        .slice(-CHILDREN_LISTED_MAX)
        .map((each) => ({
          id: each.id,
          name: each.name,
          state: childState(each),
        })),
    });
  }
}

function childState(child: ChildLink): string {
  if (isOpenChild(child)) return child.queued === true ? 'waiting' : 'working';
  return child.exited ?? '';
}
