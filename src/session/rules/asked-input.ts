/** Reads the question from a call of a tool that asks a person or a parent, and checks its bounds. Pure. */
import { QUESTION_CHARACTERS_MAX, QUESTION_CHOICES_MAX } from '../../base/bounds.ts';
import { isRecord } from '../../base/json.ts';
import type { Input, ToolFacts } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';

/**
 * The input that follows from a call of a tool that asks: its question, or a failed result if the call is malformed.
 */
export function askedInput({ id: callId, input }: OpenCall, asks: NonNullable<ToolFacts['asks']>): Input {
  const failure = (message: string): Input => ({
    type: 'toolFinished',
    callId,
    content: JSON.stringify({ error: message }),
    success: false,
  });
  const { question, choices } = isRecord(input) ? input : {};
  if (typeof question !== 'string' || question.trim() === '') return failure('question cannot be blank');
  if (choices !== undefined && !isTexts(choices)) return failure('choices must be an array of strings');
  if ((choices?.length ?? 0) > QUESTION_CHOICES_MAX) return failure(`at most ${QUESTION_CHOICES_MAX} choices`);
  const characters = [question, ...(choices ?? [])].reduce((sum, text) => sum + text.length, 0);
  if (characters > QUESTION_CHARACTERS_MAX) {
    return failure(`a question with its choices has at most ${QUESTION_CHARACTERS_MAX} characters, got ${characters}`);
  }
  const { asked, form } = asks;
  return {
    type: 'ask',
    callId,
    asked,
    question,
    ...(choices === undefined ? {} : { choices }),
    ...(form === undefined ? {} : { form }),
  };
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
