/** What the host thread tells the enrichers of its shards: definitions, and what was said in any session. */
import type { FoundMessage, MuseQuestion, MuseWord } from '../../actors/muse-sources.ts';
import { ConfigError } from '../base/errors.ts';
import { textOf } from '../base/messages.ts';
import type { Definition, DefinitionSource } from '../definitions/definition.ts';
import type { MessageMemory } from '../tools/built-in/memory-tools.ts';
import { parseMessageId } from './message-memory.ts';
import { searchableText } from './searchable.ts';
import type { ShardLink } from './shard-link.ts';

/** What is looked up. */
export interface MuseLibrary {
  /** Missing: none is defined. */
  readonly definitions?: DefinitionSource | undefined;
  /** Missing: nothing is recalled. */
  readonly memory?: MessageMemory | undefined;
  readonly linkOf: (session: string) => ShardLink;
}

/** Answers a question. Rejects with `ConfigError` (`config`) for what is no message id, and for a runtime without enrichers. */
export async function lookUp(library: MuseLibrary | undefined, question: MuseQuestion): Promise<MuseWord> {
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
      return { about: 'view', value: await memoryOf(library).view(question.id) };
    case 'message':
      return { about: 'message', value: await messageOf(library, question.id) };
  }
}

function listed({ name, description }: Definition): Pick<Definition, 'name' | 'description'> {
  return { name, description };
}

function memoryOf({ memory }: MuseLibrary): MessageMemory {
  if (memory === undefined) throw new ConfigError('this runtime has no memory of messages');
  return memory;
}

async function messageOf({ linkOf }: MuseLibrary, given: string): Promise<FoundMessage | null> {
  const { session, seq } = parseMessageId(given);
  const link = linkOf(session);
  const summary = await link.call('sessions.get', { session }, true);
  if (summary === undefined) return null;
  const [message] = await link.call('session.messages', { session, after: seq - 1, limit: 1 }, true);
  if (message?.seq !== seq) return null;
  const text = searchableText(message)?.text ?? textOf(message.content);
  return { id: `${session}#${seq}`, title: summary.name ?? `session #${session}`, text };
}
