/** Planted bugs of agents with several models: the move to the next one, and what one vendor's model gets of another. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const modelBugs: readonly PlantedBug[] = [
  {
    name: 'epoch-without-its-model',
    what: 'the record of a move does not say to which model (I23)',
    file: 'src/session/rules/epoch.ts',
    find: 'if (place > 0 || because !== undefined) epoch.model =',
    replace: 'if (place < 0) epoch.model =',
  },
  {
    name: 'request-for-the-first-model',
    what: 'the request goes to the first model of the agent, whatever the log says (I22)',
    file: 'actors/agent-catalog.ts',
    find: 'const place = state.fallback?.place ?? 0;',
    replace: 'const place = 0;',
  },
  {
    name: 'attempts-not-reset',
    what: 'the attempts of the model before count against the next one (I23)',
    file: 'src/session/apply/turn.ts',
    find: 'if (record.fallsBack === true) current.attemptsBefore = record.attempt;',
    replace: '',
  },
  {
    name: 'foreign-thoughts-kept',
    what: 'the thoughts of another vendor are sent to Claude (I21)',
    file: 'src/base/block-origin.ts',
    find: "if (block.type === 'thinking' || block.type === 'provider_part') return [];",
    replace: "if (block.type === 'provider_part') return [];",
  },
  {
    name: 'thoughts-sent-to-another-vendor',
    what: 'the thoughts of Claude are sent to the model of another vendor (I21)',
    file: 'src/models/ai-model/prompt.ts',
    find: "return isOwn ? [{ type: 'reasoning', text: block.thinking, ...options }] : [];",
    replace: "return [{ type: 'reasoning', text: block.thinking, ...options }];",
  },
];
