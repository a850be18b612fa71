/**
 * The questions that simulated models ask, the replies that persons and parents give, and their invariant (I24 of
 * `invariants.ts`). The checks of replies do not use the product's validator: a mistake in it would hide itself.
 */
import { isRecord } from '../../../base/json.ts';
import { textOf } from '../../../base/messages.ts';
import type { ModelRequest } from '../../../models/provider.ts';
import { questionOf } from '../../../session/rules/waiting-calls.ts';
import type { SessionRecord } from '../../../session/state/records.ts';
import type { SessionState } from '../../../session/state/state.ts';
import { askHuman, askParent } from '../../../tools/built-in/ask-tools.ts';
import type { AnyTool } from '../../../tools/tool.ts';
import { type FormName, formOfSchema, hasForm, schemaOfForm, valueFor } from '../messages/simulated-forms.ts';
import type { TrailFault } from '../models/model-trail.ts';
import type { SeededRandom } from '../seeded-random.ts';

/** The tools whose calls are questions, by name, with the forms of their answers. */
const ASKING: ReadonlyMap<string, FormName | 'text'> = new Map([
  ['ask_human', 'text'],
  ['ask_place', 'place'],
  ['ask_parent', 'text'],
  ['ask_lead', 'list'],
]);

/** Tools for questions to persons. */
export const HUMAN_TOOLS: readonly AnyTool[] = [
  askHuman(),
  askHuman({ name: 'ask_place', answer: schemaOfForm('place') }),
];
/** Tools for questions to parents. */
export const PARENT_TOOLS: readonly AnyTool[] = [
  askParent(),
  askParent({ name: 'ask_lead', answer: schemaOfForm('list') }),
];

/** The form of the answers to a tool's calls; undefined for a tool that asks nothing. */
export function askedForm(toolName: string): FormName | 'text' | undefined {
  return ASKING.get(toolName);
}

/** A reply to a question: one that fits its form, or one that does not. `n` makes it different from earlier replies. */
export function replyFor(
  form: FormName | 'text',
  given: { readonly fits: boolean; readonly n: number; readonly random: SeededRandom },
): unknown {
  if (form !== 'text') return valueFor(form, given);
  return given.fits ? `reply ${given.n}` : given.random.pick<unknown>([given.n, '  ', null, { text: 'x' }]);
}

const QUESTION = /\[question from ([\w-]+)\]/;

/**
 * The text with which a model answers a sub-agent's question. Undefined if its request does not end with a question.
 */
export function answerToChild(
  { messages }: ModelRequest,
  given: { readonly n: number; readonly random: SeededRandom },
): string | undefined {
  const name = QUESTION.exec(JSON.stringify(messages.at(-1)))?.[1];
  if (name === undefined) return undefined;
  const value = valueFor('list', { ...given, fits: given.random.chance(0.6) });
  return `@${name} take ${JSON.stringify(value)}`;
}

/** A question of a log. */
interface LoggedQuestion {
  readonly key: string;
  readonly form: FormName | undefined;
  isDecided: boolean;
  /** True if the next result of the call must be the answer. */
  isAnswered: boolean;
}

/** Follows the questions of one session's log (I24). */
export class QuestionTrail {
  readonly #questions = new Map<string, LoggedQuestion>();

  /** Takes a record after it was applied to the state. */
  after(state: SessionState, record: SessionRecord): TrailFault | undefined {
    if (record.type === 'asked') return this.#ask(state, record.callId);
    if (record.type === 'decided') return this.#decide(state, record);
    if (record.type !== 'accepted' || record.entry.toolUseId === undefined) return undefined;
    const question = this.#questions.get(record.entry.toolUseId);
    if (question?.isAnswered !== true) return undefined;
    question.isAnswered = false;
    const text = textOf(record.entry.content);
    const fits = question.form === undefined ? text.trim() !== '' : hasForm(question.form, parsed(text));
    return fits
      ? undefined
      : failed(`${question.key} asks for a ${question.form ?? 'text'} and was answered ${text} (I24)`);
  }

  #ask(state: SessionState, callId: string): TrailFault | undefined {
    const key = `${state.id}#${state.openCalls.get(callId)?.seq}`;
    if (this.#questions.get(callId)?.key === key) {
      return { kind: 'repeated', what: `${key} asked its question twice (I24)` };
    }
    const form = formOfSchema(questionOf(state, callId)?.form?.schema);
    this.#questions.set(callId, { key, form, isDecided: false, isAnswered: false });
    return undefined;
  }

  #decide({ id }: SessionState, record: Extract<SessionRecord, { type: 'decided' }>): TrailFault | undefined {
    const question = this.#questions.get(record.callId);
    if (question === undefined) return undefined;
    if (question.isDecided) return failed(`the question ${question.key} of ${id} was decided twice (I24)`);
    question.isDecided = true;
    question.isAnswered = record.allow;
    return undefined;
  }
}

/**
 * True if the result of a call is the reply. The result has the letter case of the schema; the reply may have another.
 */
export function isReply(form: FormName | 'text', value: unknown, content: string): boolean {
  if (form === 'text') return content === value;
  const stored = parsed(content);
  const numbers = (of: unknown): string => JSON.stringify(of).replaceAll(/[^\d,]/g, '');
  return hasForm(form, stored) && isRecord(stored) && numbers(stored) === numbers(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function failed(what: string): TrailFault {
  return { kind: 'failed', what };
}
