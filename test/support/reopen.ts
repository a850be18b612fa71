/** A session of a test after its process died: folded from the text of its log, at any turn of it. */

import { applyAll } from '../../src/session/apply/apply.ts';
import { decodeTransition, encodeTransition, type TransitionRecords } from '../../src/session/state/records.ts';
import { emptyState, restoreState, type SessionState, snapshotState } from '../../src/session/state/state.ts';
import { Machine } from './session-kit.ts';

/** The session as a crash behind its first `turns` turns leaves it, told to recover; default all of them. */
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

/** The state as a snapshot has it: what a head of the journal keeps. */
export function throughSnapshot(machine: Machine): Machine['state'] {
  return restoreState(snapshotState(machine.state));
}

/** The fold of the text of its log, with a snapshot taken and read again at one of its turns, which `place` chooses. */
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
