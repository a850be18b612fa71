/** Planted bugs of the enrichers: preparations, names of sub-agents, summaries. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const enricherBugs: readonly PlantedBug[] = [
  {
    name: 'claims-while-it-is-prepared',
    what: 'a half-step is claimed while its turn is being prepared',
    file: 'src/session/rules/mailbox.ts',
    find: 'if (state.enrichment !== undefined) return false;',
    replace: '',
  },
  {
    name: 'preparation-lost-in-a-crash',
    what: 'a preparation that a crash interrupted does not begin again, and nothing else begins',
    file: 'src/session/decide/recovery.ts',
    find: 'if (state.enrichment !== undefined) return recoverPreparation(state, state.enrichment, environment);',
    replace: '',
  },
  {
    name: 'prepared-again-and-again',
    what: 'a prepared turn that waits is prepared again',
    file: 'src/session/decide/enrichment.ts',
    find: 'if (state.prepared?.includes(each.id) === true) return undefined;',
    replace: '',
  },
  {
    name: 'name-of-a-sub-agent-never-told',
    what: "a parent that waits for its sub-agent's name is not notified of the end of the naming",
    file: 'src/session/decide/naming.ts',
    find: 'return answer === undefined ? NOTHING : { records: NO_RECORDS, effects: [answer] };\n}\n\n/** The result of the spawn call of a child that ended',
    replace:
      'return answer === undefined ? NOTHING : NOTHING;\n}\n\n/** The result of the spawn call of a child that ended',
  },
  {
    name: 'summary-lost-in-a-crash',
    what: 'a summary that a crash interrupted does not begin again, and its half-step waits for ever',
    file: 'src/session/decide/memory.ts',
    find: 'if (current === undefined || !isSummarising(state.memory)) return NOTHING;',
    replace: 'if (current !== undefined || !isSummarising(state.memory)) return NOTHING;',
  },
  {
    name: 'passivated-with-a-run-out',
    what: 'a session leaves memory while an enricher is at work for it',
    file: 'actors/session-actor.ts',
    find: "if (state.state !== 'idle' || this.unflushed !== 0 || state.restartAt !== undefined) return false;\n    return ",
    replace:
      "if (state.state !== 'idle' || this.unflushed !== 0 || state.restartAt !== undefined) return false;\n    return true || ",
  },
];
