/** Planted bugs of the audit log (I39). */
import type { PlantedBug } from './planted-bug.ts';

const ACTS = 'src/session/audited.ts';
const ROWS = 'src/journal/stored-audit.ts';

/** See the head of the file. */
export const auditBugs: readonly PlantedBug[] = [
  {
    name: 'audit-after-flush',
    what: 'the entries of a transition are written once its records are durable, so that a crash between loses them',
    file: 'src/runtime/shard/transitions.ts',
    find: '    writeActs(this.#parts.journal, at, effects);',
    replace:
      '    void this.#parts.journal.flushed().then(() => writeActs(this.#parts.journal, at, effects)).catch(() => undefined);',
  },
  {
    name: 'audit-without-author',
    what: 'only decisions that name their author have an entry',
    file: ACTS,
    find: '      return decided(state, input, record);',
    replace: '      return record.by === undefined ? undefined : decided(state, input, record);',
  },
  {
    name: 'audit-deletion-after-flush',
    what: 'the entry of a deletion is written once the deletion is durable, so that a crash between loses it',
    file: 'src/runtime/shard/life.ts',
    find: '    writeDeletions(this.#parts.journal, this.#parts.clock.now(), subtree, why);',
    replace:
      '    void this.#parts.journal.flushed().then(() => writeDeletions(this.#parts.journal, this.#parts.clock.now(), subtree, why)).catch(() => undefined);',
  },
  {
    name: 'audit-number-again',
    what: 'two acts of one transition get one number, and the second replaces the first',
    file: ROWS,
    find: '    this.#newest = number;',
    replace: '',
  },
  {
    name: 'audit-lost-in-layout',
    what: 'a change of the number of session threads does not copy the audit log',
    file: 'src/journal/layout/move-sessions.ts',
    find: '    await this.#copyAudit();',
    replace: '    if (this.#lastRow < 0) await this.#copyAudit();',
  },
];
