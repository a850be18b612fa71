/**
 * An enricher's questions to the host thread: the definitions it may choose from, and the messages that its session may
 * read. Each question gets one answer. Questions and answers are plain data.
 */
import type { Definition } from '../../src/definitions/definition.ts';
import type { RememberedMessage } from '../../src/tools/built-in/memory-tools.ts';

/** A definition, as a list shows it. */
export type DefinitionLine = Pick<Definition, 'name' | 'description'>;

/** The available skills and workflows, by name. */
export interface DefinitionList {
  readonly skills: readonly DefinitionLine[];
  readonly workflows: readonly DefinitionLine[];
}

/** Answers by subject; `null` for a missing item. */
export interface EnricherAnswers {
  readonly definitions: DefinitionList;
  readonly skill: Definition | null;
  readonly workflow: Definition | null;
  readonly search: string;
  readonly view: string;
  readonly message: RememberedMessage | null;
}

/** A question. */
export type EnricherQuestion =
  | { readonly about: 'definitions' }
  | { readonly about: 'skill' | 'workflow'; readonly name: string }
  /** `session`: the session that asks. The search finds only messages that it may read, and none in its window. */
  | { readonly about: 'search'; readonly query: string; readonly session: string }
  | { readonly about: 'view' | 'message'; readonly id: string; readonly session: string };

/** The answer to a question. */
export type EnricherReply = {
  readonly [About in keyof EnricherAnswers]: { readonly about: About; readonly value: EnricherAnswers[About] };
}[keyof EnricherAnswers];

/** Asks the host. Rejects with the host's error (`config` for an invalid message id), or if the host is gone. */
export type LookUp = (question: EnricherQuestion) => Promise<EnricherReply>;

/** The value of the answer to this question. Rejects as `lookUp` does. */
export async function askHost<About extends keyof EnricherAnswers>(
  lookUp: LookUp,
  question: EnricherQuestion & { readonly about: About },
): Promise<EnricherAnswers[About]> {
  const word = await lookUp(question);
  if (word.about !== question.about) throw new Error(`the host answered ${word.about} to ${question.about}`);
  return word.value as EnricherAnswers[About];
}
