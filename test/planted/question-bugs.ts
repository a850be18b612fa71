/** Planted bugs of questions to persons and parents. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const questionBugs: readonly PlantedBug[] = [
  {
    name: 'question-misfit-taken',
    what: 'the answer to a question is taken whether it fits its form or not',
    file: 'src/session/decide/questions.ts',
    find: "return 'issues' in found ? found : { content: JSON.stringify(found.value), value: found.value };",
    replace: "return { content: JSON.stringify('issues' in found ? value : found.value), value };",
  },
  {
    name: 'question-reply-forgotten',
    what: 'the reply to a question is not remembered, so that it does not hold when it is sent again',
    file: 'src/session/apply/run-loop.ts',
    find: '...(answer === undefined ? {} : { answer }),',
    replace: '',
  },
  {
    name: 'question-asked-again-after-a-crash',
    what: 'after a crash a call that waits begins once more, and its question is asked again',
    file: 'src/session/rules/run-loop.ts',
    find: 'return state.approvals?.waiting.includes(callId) === true;',
    replace:
      'return state.approvals?.waiting.includes(callId) === true && state.approvals.questions?.some((each) => each.callId === callId) !== true;',
  },
];
