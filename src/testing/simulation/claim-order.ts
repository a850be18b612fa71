/** Checks the order in which a half-step takes the entries of its session's mailbox (I1, R52). */
import { awaitedAtEnd } from '../../session/rules/server-uses.ts';
import type { Entry } from '../../session/state/records.ts';
import type { SessionState } from '../../session/state/state.ts';

/**
 * True if the next request asks the provider to run a tool that the provider itself has. Then the last answer of the
 * epoch has a call of such a tool without a result, and only results follow that answer.
 */
export function waitsForProvider({ state, messages, thoughtFloor }: SessionState): boolean {
  if (state !== 'executing') return false;
  const answer = messages.findLast(({ blocks }) => blocks !== undefined);
  return answer !== undefined && answer.seq >= thoughtFloor && awaitedAtEnd(messages) !== undefined;
}

/** A broken rule. */
interface ClaimFault {
  readonly kind: 'illegal' | 'reordered';
  readonly what: string;
}

/** A claim. `chosen`: the ids of the entries that it takes. `accepted`: all entries of the session, by id. */
interface Claim {
  readonly chosen: readonly number[];
  readonly accepted: ReadonlyMap<number, readonly Entry[]>;
  /**
   * True if the half-step opened an epoch although the provider was to run a call next (`waitsForProvider`). The new
   * epoch leaves that call out. The entries of the half-step were chosen before the epoch opened.
   */
  readonly leavesUses: boolean;
}

/**
 * The faults of a claim that is made in `state`. Results come first. Then come entries that are neither messages nor
 * replies of sub-agents, then messages with `deliver: 'steer'` (steers), then all other messages and replies. A steer
 * with a `seed` counts as one of the other messages. A claim must take every steer of the mailbox, with three
 * exceptions: the claim takes an interrupt, a call of the provider runs next, or `leavesUses` is true.
 */
export function claimFaults(
  id: string,
  state: SessionState,
  { chosen, accepted, leavesUses }: Claim,
): readonly ClaimFault[] {
  const faults: ClaimFault[] = [];
  const entries = chosen.flatMap((pendingId) => accepted.get(pendingId)?.[0] ?? []);
  const ranks = entries.map(rankOf);
  if (ranks.some((rank, index) => rank < (ranks[index - 1] ?? 0))) {
    faults.push({ kind: 'reordered', what: `a half-step of ${id} promotes ${chosen.join(', ')} in this order` });
  }
  if (waitsForProvider(state)) {
    if (entries.every(({ type }) => type === 'tool_response')) return faults;
    const what = `a half-step of ${id} promotes ${chosen.join(', ')} while a call of the provider waits (R52)`;
    faults.push({ kind: 'illegal', what });
  }
  if (leavesUses || entries.some(({ deliver }) => deliver === 'interrupt')) return faults;
  const left = state.mailbox.find((entry) => entry.deliver === 'steer' && !chosen.includes(entry.id));
  if (left !== undefined) faults.push({ kind: 'reordered', what: `${id}/${left.id}, a steer, is left behind` });
  return faults;
}

function rankOf({ type, deliver, seed }: Entry): number {
  if (type === 'tool_response') return 0;
  if (type !== 'user_message') return type === 'subagent' ? 3 : 1;
  return deliver === 'steer' && seed === undefined ? 2 : 3;
}
