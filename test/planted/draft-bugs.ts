/** Planted bugs of drafts and lost answers (I34, I11). */
import type { PlantedBug } from './planted-bug.ts';

const DRAFTS = 'src/runtime/shard/answer-drafts.ts';
const ANSWER = 'src/session/apply/answer.ts';

/** See the head of the file. */
export const draftBugs: readonly PlantedBug[] = [
  {
    name: 'draft-kept-after-answer',
    what: 'the draft of a lost answer is still shown when the call that was made again has been answered',
    file: ANSWER,
    find: `  state.draft = undefined;
  countUsage(state, record.usage);`,
    replace: '  countUsage(state, record.usage);',
  },
  {
    name: 'draft-counted-again',
    what: 'a stored draft stays when its call has ended, so that its tokens count again after a crash',
    file: DRAFTS,
    find: 'this.#journal.drafts.put(actor.key, undefined);',
    replace: '',
  },
  {
    name: 'draft-lost-with-process',
    what: 'the tokens of an answer that a crash cut off are recorded with the reason, but do not count',
    file: ANSWER,
    find: 'state.usage = addUsage(state.usage, counted);',
    replace: "if (reason !== 'restart') state.usage = addUsage(state.usage, counted);",
  },
  {
    name: 'draft-outlives-session',
    what: 'the draft of a deleted session stays in the store',
    file: 'src/journal/engine-journal.ts',
    find: 'batch.drafts.set(key, undefined);',
    replace: '',
  },
];
