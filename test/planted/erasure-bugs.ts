/** Planted bugs of the erasure of deleted sessions (I30) and of the removal of old history (I33). */
import type { PlantedBug } from './planted-bug.ts';

const ERASURE = 'src/journal/log-erasure.ts';
const JOURNAL = 'src/journal/engine-journal.ts';

/** See the head of the file. */
export const erasureBugs: readonly PlantedBug[] = [
  {
    name: 'erasure-stops-at-first-row',
    what: 'only the newest row of a deleted session is erased',
    file: ERASURE,
    find: 'if (note !== undefined) this.#note(key, behind(note, previousRow), batch);',
    replace: 'if (note !== undefined && previousRow >= 0) this.#note(key, { ...note, row: 0 }, batch);',
  },
  {
    name: 'erasure-takes-neighbours',
    what: 'entries of other sessions leave a row together with those of a deleted session',
    file: ERASURE,
    find: 'const found = reduceRow(plain, row, (key) => keys.has(key));',
    replace: 'const found = reduceRow(plain, row, (key) => keys.has(key) || keys.has(key - 1));',
  },
  {
    name: 'erasure-not-noted',
    what: 'a deletion does not note the rows of the session, so that a crash forgets to erase them',
    file: JOURNAL,
    find: 'this.#erasure.begin(key, { ...note, ...this.starts.remove(key, batch) }, batch);',
    replace: '',
  },
  {
    name: 'erasure-note-not-stored',
    what: 'the note of a slice stays in memory, so that after a crash it leads to a row that was rewritten already',
    file: ERASURE,
    find: 'batch.erasures.set(key, erasure);',
    replace: 'if (!this.#sessions.has(erasure.row)) batch.erasures.set(key, erasure);',
  },
  {
    name: 'erasure-ends-with-refusal',
    what: 'a store that refused a slice is not erased any further after it recovers',
    file: JOURNAL,
    find: `    this.#lastRows.forget();
    this.#erasure.load();`,
    replace: `    this.#lastRows.forget();
    if (this.#turns === 0) this.#erasure.load();`,
  },
  {
    name: 'old-history-not-noted',
    what: 'the older part of a log is replaced by its base, but nothing leads to its rows, so they stay',
    file: 'src/journal/log-starts.ts',
    find: 'erasure.begin(key, { name, row, heirs: [], keeps: true, ...earlier }, batch);',
    replace: '',
  },
  {
    name: 'old-history-base-ignored',
    what: 'a log whose older part was removed is folded from an empty state instead of its base',
    file: 'src/runtime/reading/log-beginning.ts',
    find: '  if (start === undefined) {',
    replace: '  if (start === undefined || session !== undefined) {',
  },
  {
    name: 'old-history-without-record',
    what: 'the older part of a log leaves, but the session keeps its archived messages in memory: no record says so',
    file: 'src/session/decide/compression.ts',
    find: 'if (isRemovedBefore(state, history.before)) return NOTHING;',
    replace: 'if (state.removed === undefined || history.before > 0) return NOTHING;',
  },
  {
    name: 'old-history-forgotten-at-rest',
    what: 'the head of a session does not say that messages left its window, so a session at rest keeps them forever',
    file: 'src/runtime/reading/session-head.ts',
    find: 'departed: firstDeparture(actor.state) }',
    replace: 'departed: undefined }',
  },
  {
    name: 'compaction-loses-last-commits',
    what: 'the copy takes the place of the store without the commits that came last',
    file: 'src/journal/live-compaction.ts',
    find: 'await this.#catchUp(run, copy, 0);',
    replace: '',
  },
  {
    name: 'compaction-not-owed',
    what: 'a store does not note that the rows of a deleted session are erased, so that it is never compacted',
    file: 'src/journal/stored-batch.ts',
    find: 'erased: batch.isErased ? before.commit + 1 : before.erased,',
    replace: 'erased: before.erased,',
  },
  {
    name: 'compaction-keeps-its-turn',
    what: 'a shard that was compacted does not end its turn, so that no other shard is compacted',
    file: 'src/runtime/shard/compaction/compactor.ts',
    find: 'await host.endCompaction();',
    replace: '',
  },
];
