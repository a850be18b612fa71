/**
 * I6: parents and children. Each child is known to an existing parent. The parent was notified of the child's end as
 * often as the child ended. The parent received exactly the child's texts. A deleted session is gone with all its
 * descendants.
 */
import type { Ledger } from './ledger.ts';
import type { SessionFacts } from './session-facts.ts';
import { lineageOf } from './session-stories.ts';

type Sessions = ReadonlyMap<string, SessionFacts>;

/** Checks the links of a changed session from both sides. Findings go to the ledger. */
export function checkFamily(facts: SessionFacts, sessions: Sessions, ledger: Ledger): void {
  for (const child of facts.spawned.keys()) checkLink(facts, child, sessions, ledger);
  const { parent } = facts.state;
  if (parent !== undefined) checkLink(sessions.get(parent), facts.id, sessions, ledger);
  const keys = [...facts.spawned.values()].map(({ key }) => key).filter((key) => key !== undefined);
  if (new Set(keys).size < keys.length) ledger.violate('duplicated', `a spawn key of ${facts.id} has two children`);
}

/**
 * Finds every session that should be gone but is stored, and every session that should be stored but is gone. `seen`:
 * sessions found in earlier readings.
 */
export function checkPresence(sessions: Sessions, seen: ReadonlySet<string>, ledger: Ledger): void {
  for (const { id, state } of sessions.values()) {
    if (ledger.sessions.isGone(id)) {
      const how = ledger.sessions.absent.has(id) ? 'its deletion did not find it' : 'it was deleted';
      ledger.violate('resurrected', `${id} is there, although ${how}`);
    }
    if (state.parent !== undefined && !sessions.has(state.parent))
      ledger.violate('orphan', `${id} is there, its parent ${state.parent} is not`);
  }
  for (const id of seen) {
    if (!sessions.has(id) && !ledger.sessions.mayBeGone(id)) ledger.violate('lost', `${id} was there and is not`);
  }
}

/** Finds acknowledged deletions without an entry in the audit log, and deletions with several. */
export function checkAudit(deletions: ReadonlyMap<string, number>, sessions: Sessions, ledger: Ledger): void {
  for (const [id, count] of deletions) {
    if (count > 1) ledger.violate('duplicated', `the deletion of ${id} has ${count} entries in the audit log`);
    // `checkPresence` finds those whose deletion was acknowledged.
    if (sessions.has(id) && !ledger.sessions.isGone(id))
      ledger.violate('resurrected', `${id} is there, although the audit log says it was deleted`);
  }
  for (const [id, isTold] of ledger.sessions.deletions) {
    if (isTold && !ledger.sessions.absent.has(id) && !deletions.has(id))
      ledger.violate('lost', `the deletion of ${id} has no entry in the audit log`);
  }
}

function checkLink(parent: SessionFacts | undefined, id: string, sessions: Sessions, ledger: Ledger): void {
  const child = sessions.get(id);
  const link = parent?.spawned.get(id);
  if (child === undefined) {
    // A deletion removes a whole subtree, so the deletion of an ancestor that is there is no excuse.
    const isExcused = lineageOf(id).some((each) => ledger.sessions.isRequested(each) && !sessions.has(each));
    if (!isExcused) ledger.violate('unbalanced', `${id} is known to its parent and does not exist`);
    else if (parent?.childExits.get(id) !== 1 + (parent?.childRevivals.get(id) ?? 0))
      ledger.violate(
        'unbalanced',
        `${id} was deleted, its parent was notified ${parent?.childExits.get(id) ?? 0} times`,
      );
    return;
  }
  // A missing parent is found by `checkPresence`.
  if (parent === undefined) return;
  if (link === undefined || child.state.parent !== parent.id) {
    ledger.violate('orphan', `${id} is a child of ${child.state.parent ?? 'nobody'} that ${parent.id} does not know`);
    return;
  }
  const [exits, notified] = [child.exits.length, parent.childExits.get(id) ?? 0];
  if (exits > 1 + (parent.childRevivals.get(id) ?? 0) || notified !== exits)
    ledger.violate('unbalanced', `${id} ended ${exits} times, and its parent was notified ${notified} times`);
  const wanted = link.replies === 'mailbox' ? child.said : [];
  const heard = parent.heard.get(link.name) ?? [];
  if (wanted.length !== heard.length || wanted.some((text, index) => text !== heard[index])) {
    const kind = heard.length > wanted.length ? 'duplicated' : 'lost';
    ledger.violate(kind, `${id} said ${JSON.stringify(wanted)}, its parent heard ${JSON.stringify(heard)}`);
  }
}
