/** Reopens the session of a test after its process died, from the text of its log up to any transition. */

import { applyAll } from '../../src/session/apply/apply.ts';
import { decodeTransition, encodeTransition, type TransitionRecords } from '../../src/session/state/records.ts';
import { restoreState, snapshotState } from '../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../src/session/state/state.ts';
import { Machine } from './session-kit.ts';

/** The session after a crash that came after its first `turns` transitions (default: all), about to recover. */
export function reopened(machine: Machine, turns: number = machine.turns.length): Machine {
  const again = refolded(machine, turns);
  again.input({ type: 'recover' });
  return again;
}

/** The same without recovery. */
export function refolded(machine: Machine, turns: number = machine.turns.length): Machine {
  const read: readonly TransitionRecords[] = machine.turns
    .slice(0, turns)
    .map((turn) => decodeTransition(encodeTransition(turn)));
  return Machine.replayed(machine.world, machine.state.id, read);
}

/** The state as a snapshot holds it, in the head of the journal. */
export function throughSnapshot(machine: Machine): Machine['state'] {
  return restoreState(snapshotState(machine.state));
}

/**
 * The fold of the session's log from its text. After the transition that `place` chooses, the state is written to a
 * snapshot and read back.
 */
export function foldedAcrossSnapshot({ turns, state }: Machine, place: number): SessionState {
  const cut = place % (turns.length + 1);
  let folded = emptyState(state.id);
  for (const [index, written] of turns.entries()) {
    if (index === cut) folded = restoreState(snapshotState(folded));
    const turn = decodeTransition(encodeTransition(written));
    folded = applyAll(folded, turn.records, turn.at);
  }
  return folded;
}
