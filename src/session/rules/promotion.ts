/** The log messages that a mailbox entry becomes (contract §3.5). Pure. */

import { PHANTOM_CALL_TOKENS } from '../../base/bounds.ts';
import type { Draft } from '../../base/draft.ts';
import { type ErrorShape, errorShape } from '../../base/errors.ts';
import { deliveryNameOf } from '../../base/ids.ts';
import type { ContentBlock, Source } from '../../base/messages.ts';
import { textOf } from '../../base/messages.ts';
import type { FilledEntry, LoggedMessage, MailboxEntry } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { estimateContent, estimateTokens } from '../state/tokens.ts';

/** A message without its position in the log. */
export type MessageDraft = Omit<LoggedMessage, 'seq' | 'at'>;

/**
 * The call of a phantom pair. The runtime adds such a call, with the entry's content as its result, to show the model
 * an entry that no user sent. `display`: the line shown for the call.
 */
export interface PhantomCall {
  readonly id: string;
  readonly name: string;
  readonly input: Readonly<Record<string, string | number>>;
  readonly display: string;
}

/** The phantom call that delivers an entry, or `undefined` for user messages and tool responses. */
export function phantomCallOf(entry: Pick<FilledEntry, 'id' | 'source' | 'content'>): PhantomCall | undefined {
  const text = textOf(entry.content);
  const name = entry.source.name ?? '';
  const named = (phantom: string, input: PhantomCall['input'], display: string): PhantomCall => ({
    id: `${phantom}_${entry.id}`,
    name: phantom,
    input,
    display: display.split('\n', 1)[0] ?? '',
  });
  switch (entry.source.type) {
    case 'subagent':
      return named(deliveryNameOf(name), { from: name }, `[sub-agent ${name}]: ${text}`);
    case 'skill':
      return named('from_melete_skill', { skill: name }, `[recalled skill: ${name}]\n${text}`);
    case 'workflow':
      return named('from_melete_workflow', { workflow: name }, `[recalled workflow: ${name}]\n${text}`);
    case 'recall':
      return named('from_mneme', { message_id: messageIdOf(name) }, text);
    case 'goal':
      return named('from_melete_goal', { goal_id: integerOf(name) }, `[goal ${name}]\n${text}`);
    case 'user':
    case 'tool':
      return undefined;
  }
}

/** The id of a recalled message: its number in this session, or `<session>#<number>`. */
function messageIdOf(name: string): number | string {
  return /^.+#[1-9][0-9]*$/u.test(name) ? name : integerOf(name);
}

function integerOf(name: string): number {
  const value = Number(name);
  if (!Number.isSafeInteger(value)) throw new Error(`source name ${JSON.stringify(name)} is not an integer id`);
  return value;
}

/**
 * The messages that entries become. `entries` has one entry, or several `merge` entries that become one user message.
 * An entry with a `seed` adds no message, because its message is already in the log (Δ28). Throws for an entry that
 * cannot become messages; the caller sets it aside as a dead letter (Δ13).
 */
export function promote(entries: readonly [FilledEntry, ...FilledEntry[]]): readonly MessageDraft[] {
  const [entry] = entries;
  if (entry.seed !== undefined) return [];
  if (entry.type === 'tool_response') {
    if (entry.toolUseId === undefined) throw new Error('a tool_response entry without a tool use id');
    return [
      {
        type: 'tool_response',
        content: entry.content,
        tokens: estimateContent(entry.content),
        toolUseId: entry.toolUseId,
        toolName: entry.source.name ?? '',
        success: entry.success ?? true,
        source: entry.source,
      },
    ];
  }
  if (entry.type === 'user_message') {
    const content = entries.length === 1 ? entry.content : joinContents(entries.map((each) => each.content));
    const message: Draft<MessageDraft> = {
      type: 'user_message',
      content,
      tokens: estimateContent(content),
      source: entry.source,
    };
    const key = entries.find((each) => each.key !== undefined)?.key;
    if (key !== undefined) message.key = key;
    return [message];
  }
  return phantomPair(entry);
}

function phantomPair(entry: FilledEntry): readonly MessageDraft[] {
  const call = phantomCallOf(entry);
  if (call === undefined) throw new Error(`a ${entry.type} entry cannot come from ${entry.source.type}`);
  const source: Source = entry.source;
  const shared = { toolUseId: call.id, toolName: call.name, source, phantom: true } as const;
  const text = textOf(entry.content);
  return [
    { type: 'tool_call', content: call.display, tokens: PHANTOM_CALL_TOKENS, input: call.input, ...shared },
    { type: 'tool_response', content: text, tokens: estimateTokens(text), success: true, ...shared },
  ];
}

/** Several contents as one: texts separated by a blank line, or all their blocks. */
export function joinContents(
  contents: readonly (string | readonly ContentBlock[])[],
): string | readonly ContentBlock[] {
  const [first] = contents;
  if (contents.length === 1 && first !== undefined) return first;
  if (contents.every((content) => typeof content === 'string')) return contents.join('\n\n');
  return contents.flatMap((content) =>
    typeof content === 'string' ? [{ type: 'text', text: content } as const] : content,
  );
}

/** The records that set aside the waiting entries that cannot be promoted; undefined if there are none. */
export function poisonedEntries(state: SessionState): readonly RecordOf<'poisoned'>[] | undefined {
  let records: RecordOf<'poisoned'>[] | undefined;
  for (const entry of state.mailbox) {
    const error = promotionError(entry);
    if (error === undefined) continue;
    records ??= [];
    records.push({ type: 'poisoned', id: entry.id, error, announced: true });
  }
  return records;
}

/** Why an entry cannot be promoted; undefined if it can. */
export function promotionError(entry: MailboxEntry): ErrorShape | undefined {
  // Only a wrong source can make a promotion fail. Users' messages and tool results were checked when they were
  // accepted.
  if (entry.type === 'user_message' || (entry.type === 'tool_response' && entry.toolUseId !== undefined))
    return undefined;
  try {
    // The content is not read here: it may be only in the log, and it cannot make a promotion fail.
    promote([{ ...entry, content: '' }]);
    return undefined;
  } catch (error) {
    return errorShape(error);
  }
}
