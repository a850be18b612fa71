/** Planted bugs of conversations: branches, forks, compressions, suspended runs and approvals. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const historyBugs: readonly PlantedBug[] = [
  {
    name: 'compaction-forgets-what-it-archives',
    what: 'archived messages are not marked: they are shown beside their summary',
    file: 'src/session/apply/compression.ts',
    find: 'messages.push(leaves ? { ...message, archivedBy: [...(message.archivedBy ?? []), number] } : message);',
    replace: 'messages.push(message);',
  },
  {
    name: 'undo-hides-nothing',
    what: 'messages of undone tasks are still shown',
    file: 'src/session/history/branch.ts',
    find: 'if (task !== undefined && !chain.has(task)) return false;',
    replace: '',
  },
  {
    name: 'restored-compressions-forgotten',
    what: 'a session woken from a snapshot does not know its compressions',
    file: 'src/session/state/snapshot.ts',
    find: '    compactions: new Map(\n',
    replace: '    compactions: new Map<number, { task: number | undefined; at: number }>() ?? new Map(\n',
  },
  {
    name: 'fork-reads-past-its-marker',
    what: 'a fork begins from a snapshot of its parent that was taken after it',
    file: 'src/runtime/reading/fork-reader.ts',
    find: 'return state.nextFork <= fork ? { state, position: found.snapshot.position } : undefined;',
    replace: 'return { state, position: found.snapshot.position };',
  },
  {
    name: 'delete-uproots-the-forks',
    what: 'a deletion removes the log that forks begin with',
    file: 'src/runtime/shard/life.ts',
    find: 'if (state.forks.length === 0) continue;',
    replace: 'if (state.forks.length >= 0) continue;',
  },
  {
    name: 'suspended-calls-run-at-once',
    what: 'a run that stops at its step limit still starts its calls',
    file: 'src/session/decide/run-loop.ts',
    find: 'if (state.parent === undefined) return { records: stopped, effects: [WAKE] };',
    replace: `if (state.parent === undefined)
    return {
      records: stopped,
      effects: [{ type: 'again', input: { type: 'dispatch', refused: {} } }],
    };`,
  },
  {
    name: 'approval-before-flush',
    what: 'an allowed call starts before the decision is flushed',
    file: 'src/runtime/shard/session-work.ts',
    find: 'if (!this.#mayRunAhead(actor, effect)) return false;',
    replace: 'if (actor.state.approvals === undefined && !this.#mayRunAhead(actor, effect)) return false;',
  },
  {
    name: 'eviction-keeps-thoughts',
    what: 'thoughts from before messages left the window are still sent, though their context is not',
    file: 'src/session/apply/eviction.ts',
    find: '  fold.openEpoch();',
    replace: '  const { thoughtFloor } = state;\n  fold.openEpoch();\n  state.thoughtFloor = thoughtFloor;',
  },
  {
    name: 'other-agent-after-a-crash',
    what: 'a call lost in a crash is made again in its epoch, though the agent has changed',
    file: 'src/session/decide/recovery.ts',
    find: 'if (changed !== undefined) records.push({ ...changed, resends: true })',
    replace: "if (agent.fingerprint === '' && changed !== undefined) records.push({ ...changed, resends: true })",
  },
];
