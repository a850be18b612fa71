/** Planted bugs of a change of the number of shards: sessions, cursors and names that are lost on the way. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const layoutBugs: readonly PlantedBug[] = [
  {
    name: 'layout-work-of-the-tail-forgotten',
    what: 'a session that worked when its process died is not read after a move (I35)',
    file: 'src/journal/layout/move-sessions.ts',
    find: 'Math.min(known, position - 1)',
    replace: 'known',
  },
  {
    name: 'layout-row-of-one-shard-alone',
    what: 'a row of a new shard has the entries of one old shard, and not of the others with that number (I35)',
    file: 'src/journal/layout/move-sessions.ts',
    find: 'made.get(session.shard) ?? {',
    replace:
      '(made.get(session.shard)?.entries.some(({ turn }) => turn > entry.turn) === true ? undefined : made.get(session.shard)) ?? {',
  },
  {
    name: 'layout-keys-begin-again',
    what: 'the keys of moved sessions begin at 1, so that two sessions have one name of results (I35)',
    file: 'src/journal/layout/move-sessions.ts',
    find: 'const firstKey = Math.max(1, ...states.map(({ nextKey }) => nextKey));',
    replace: 'const firstKey = 1;',
  },
  {
    name: 'layout-fork-without-its-beginning',
    what: 'a fork that leaves the shard of its parent keeps pointing at the log there (I13)',
    file: 'src/journal/layout/move-sessions.ts',
    find: 'if (session.lastRow === 0) session.isCut = ',
    replace: 'if (session.lastRow < 0) session.isCut = ',
  },
];
