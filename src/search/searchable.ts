/**
 * The searchable text of a message: conversation and reasoning, but not inputs and results of tools (contract §6.9).
 * `text-fold.ts` finds the same texts in the records of a log, without messages. Pure.
 */
import { SEARCH_TEXT_CHARACTERS_MAX } from '../base/bounds.ts';
import { type Message, textOf } from '../base/messages.ts';
import { thoughtOf } from '../events/view-modes.ts';

/** A message in the form that is indexed. `at`: epoch ms. `kind`: the label that a reader sees. */
export interface SearchableText {
  readonly seq: number;
  readonly at: number;
  readonly kind: 'human' | 'anima' | 'system' | 'thought';
  readonly text: string;
}

/** The searchable text of a message; `undefined` if it has none. */
export function searchableText(message: Message): SearchableText | undefined {
  const kind = kindOf(message);
  if (kind === undefined) return undefined;
  const text = kind === 'thought' ? thoughtOf(message).content : textOf(message.content);
  return foundText({ seq: message.seq, at: message.at, kind, text });
}

/** The text, cut to its searchable beginning (`SEARCH_TEXT_CHARACTERS_MAX`); `undefined` if it is blank. */
export function foundText(said: SearchableText): SearchableText | undefined {
  if (said.text.trim() === '') return undefined;
  return said.text.length <= SEARCH_TEXT_CHARACTERS_MAX
    ? said
    : { ...said, text: said.text.slice(0, SEARCH_TEXT_CHARACTERS_MAX) };
}

function kindOf({ type, toolName }: Message): SearchableText['kind'] | undefined {
  switch (type) {
    case 'user_message':
      return 'human';
    case 'agent_message':
      return 'anima';
    case 'system_message':
      return 'system';
    case 'tool_call':
      return toolName === 'think' ? 'thought' : undefined;
    case 'tool_response':
      return undefined;
  }
}
