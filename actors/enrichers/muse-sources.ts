/**
 * What an enricher asks of the host thread: the definitions it may choose from, and what was said within reach of its session. One question,
 * one answer; plain data both ways.
 */
import type { Definition } from '../../src/definitions/definition.ts';
import type { RememberedMessage } from '../../src/tools/built-in/memory-tools.ts';

/** A definition as it is listed. */
export type DefinitionLine = Pick<Definition, 'name' | 'description'>;

/** Skills and workflows there are, by name. */
export interface DefinitionList {
  readonly skills: readonly DefinitionLine[];
  readonly workflows: readonly DefinitionLine[];
}

/** Answers by what they are about; `null` for what is not there. */
export interface MuseAnswers {
  readonly definitions: DefinitionList;
  readonly skill: Definition | null;
  readonly workflow: Definition | null;
  readonly search: string;
  readonly view: string;
  readonly message: RememberedMessage | null;
}

/** A question. */
export type MuseQuestion =
  | { readonly about: 'definitions' }
  | { readonly about: 'skill' | 'workflow'; readonly name: string }
  /** `session`: the one it is for, whose reach counts. What its own window shows is not found. */
  | { readonly about: 'search'; readonly query: string; readonly session: string }
  | { readonly about: 'view' | 'message'; readonly id: string; readonly session: string };

/** Its answer. */
export type MuseWord = {
  readonly [About in keyof MuseAnswers]: { readonly about: About; readonly value: MuseAnswers[About] };
}[keyof MuseAnswers];

/** Asks the host. Rejects with the host's error (`config` for what is no message id), or where there is nobody to ask. */
export type LookUp = (question: MuseQuestion) => Promise<MuseWord>;

/** The value of an answer to a question about this. Rejects as `lookUp` does. */
export async function askHost<About extends keyof MuseAnswers>(
  lookUp: LookUp,
  question: MuseQuestion & { readonly about: About },
): Promise<MuseAnswers[About]> {
  const word = await lookUp(question);
  if (word.about !== question.about) throw new Error(`the host answered ${word.about} to ${question.about}`);
  return word.value as MuseAnswers[About];
}
