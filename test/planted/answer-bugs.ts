/** Planted bugs of structured answers. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const answerBugs: readonly PlantedBug[] = [
  {
    name: 'answer-taken-unchecked',
    what: 'a structured answer is taken whether it fits its schema or not',
    file: 'src/session/rules/structured-answer.ts',
    find: "return 'value' in found ? { type: 'fits', value: found.value } : { type: 'misfit', issues: found.issues };",
    replace: "return { type: 'fits', value: 'value' in found ? found.value : value };",
  },
  {
    name: 'corrections-not-counted',
    what: 'the corrections of a turn are not counted, so that their bound is never reached',
    file: 'src/session/apply/run-loop.ts',
    find: 'if (turn !== undefined) turn.corrections = (turn.corrections ?? 0) + 1;',
    replace: 'if (turn !== undefined) turn.corrections = turn.corrections ?? 0;',
  },
  {
    name: 'answer-call-runs',
    what: 'the call that gives a structured answer is run like a call of any tool',
    file: 'src/session/decide/answer.ts',
    find: "if (answer !== undefined && callsAnswerTool(content, answer)) return 'form';",
    replace: '',
  },
  {
    name: 'refused-answer-taken',
    what: 'the words of a refusal are judged as if they were the answer',
    file: 'src/session/rules/structured-answer.ts',
    find: "if (stop === 'refusal') {",
    replace: "if (stop === 'refusal' && stopDetails !== undefined) {",
  },
];
