/** Answers questions from enrichers on the host thread: definitions, and messages that their session may read. */
import type { EnricherQuestion, EnricherReply } from '../../../actors/enrichers/enricher-sources.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Definition, DefinitionSource } from '../../definitions/definition.ts';
import type { MessageMemory } from '../../tools/built-in/memory-tools.ts';

/** The sources of the answers. */
export interface EnricherLibrary {
  /** Skills and workflows; missing: none is defined. */
  readonly definitions?: DefinitionSource | undefined;
  /** The memory for recalls; missing: questions about messages are refused. */
  readonly memory?: MessageMemory | undefined;
}

/**
 * Answers a question. Rejects with `ConfigError` (`config`) for an invalid message id, and for a view of a message that
 * does not exist. Rejects with the same error for a runtime without enrichers or without a memory of messages.
 */
export async function lookUp(library: EnricherLibrary | undefined, question: EnricherQuestion): Promise<EnricherReply> {
  if (library === undefined) throw new ConfigError('this runtime has no enrichers');
  const { definitions } = library;
  switch (question.about) {
    case 'definitions': {
      const skills = (definitions?.skills() ?? []).map(listed);
      const workflows = (definitions?.workflows() ?? []).map(listed);
      return { about: 'definitions', value: { skills, workflows } };
    }
    case 'skill':
      return { about: 'skill', value: definitions?.skill(question.name) ?? null };
    case 'workflow':
      return { about: 'workflow', value: definitions?.workflow(question.name) ?? null };
    case 'search':
      return { about: 'search', value: await memoryOf(library).search(question.query, question.session) };
    case 'view':
      return { about: 'view', value: await memoryOf(library).view(question.id, question.session) };
    case 'message':
      return { about: 'message', value: (await memoryOf(library).message(question.id, question.session)) ?? null };
  }
}

function listed({ name, description }: Definition): Pick<Definition, 'name' | 'description'> {
  return { name, description };
}

function memoryOf({ memory }: EnricherLibrary): MessageMemory {
  if (memory === undefined) throw new ConfigError('this runtime has no memory of messages');
  return memory;
}
