/**
 * Values with their texts redacted: plain JSON, content, answers, messages of a history, errors. Names of members and
 * numbers are kept. A value without a change is returned itself. Pure, given the function that redacts a text.
 */
import type { ErrorShape } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { type ContentBlock, isServerUse, isThought, type UserContent } from '../../base/messages.ts';
import type { RedactionKind } from '../protocol/redact-option.ts';

/** Redacts one text. */
export type RedactText = (text: string) => string;
/** Redacts texts of one session, by the kind of value that a text belongs to. */
export type RedactKind = (kind: RedactionKind) => RedactText;

type Holder = Readonly<Record<string, unknown>>;

/**
 * Members of blocks that only the provider reads, or that name something. A change of them would make a later request
 * illegal.
 */
const OPAQUE_MEMBERS: ReadonlySet<string> = new Set([
  ...['type', 'id', 'name', 'tool_use_id', 'tool_name', 'file_id', 'media_type', 'mediaType', 'cache_control'],
  ...['signature', 'encrypted_content', 'encrypted_index', 'encrypted_stdout', 'origin', 'caller', 'toolset_name'],
  ...['error_code', 'providerMetadata'],
]);

/** Members of a message of a history that name something, or that have a fixed set of values. */
const NAMES_OF_MESSAGE: ReadonlySet<string> = new Set([
  ...['role', 'id', 'createdAt', 'key', 'name', 'toolCallId', 'errorType', 'finishReason', 'finishReasonRaw'],
]);

/** All texts of a plain value, at any depth. `isOpaque`: members that are kept as they are. */
export function redactJson<T>(
  value: T,
  redact: RedactText,
  isOpaque: (holder: Holder, name: string) => boolean = () => false,
): T {
  if (typeof value === 'string') return redact(value) as T;
  if (Array.isArray(value)) return changedList(value, (item) => redactJson(item, redact, isOpaque)) as T;
  if (!isRecord(value)) return value;
  return changedMembers(value, (name, member) =>
    isOpaque(value, name) ? member : redactJson(member, redact, isOpaque),
  ) as T;
}

/** The texts of a content that a user or a tool gives. Media are kept. */
export function redactContent<T extends UserContent>(content: T, redact: RedactText): T {
  if (typeof content === 'string') return redact(content) as T;
  return changedList(content, (block) => redactBlock(block, redact)) as T;
}

/** The texts of one block; the input of a call has texts under any name. */
function redactBlock(block: ContentBlock, redact: RedactText, redactInput: RedactText = redact): ContentBlock {
  if (block.type !== 'tool_use' && !isServerUse(block)) return redactJson(block, redact, isOpaqueMember);
  return changedMembers(block as unknown as Holder, (name, member) =>
    name === 'input' ? redactJson(member, redactInput) : member,
  ) as unknown as ContentBlock;
}

/** Base64 is under `data`, and so is the text of a document of plain text. */
function isOpaqueMember(holder: Holder, name: string): boolean {
  return OPAQUE_MEMBERS.has(name) || (name === 'data' && holder['type'] !== 'text');
}

/** A model's answer without what must not be stored. */
export interface RedactedAnswer {
  readonly content: unknown;
  readonly hasChanged: boolean;
  /** True if thoughts of a Claude model were left out, because their texts were changed. */
  readonly lacksThoughts: boolean;
  /** True if a thought follows a changed block. */
  readonly isUnbound: boolean;
}

/**
 * The blocks of an answer. A thought is bound to its exact text, so a thought that would change is left out. Thoughts
 * and parts of other vendors' models are sent back verbatim or not at all, so they are left out of any changed answer.
 */
export function redactAnswer(content: unknown, redact: RedactKind): RedactedAnswer {
  const unchanged = { content, hasChanged: false, lacksThoughts: false, isUnbound: false };
  if (!Array.isArray(content)) return unchanged;
  const [text, thinking, input] = [redact('answer'), redact('thinking'), redact('tool_input')];
  const kept: unknown[] = [];
  let [hasChanged, lacksThoughts, isUnbound] = [false, false, false];
  for (const block of content as readonly unknown[]) {
    if (!isRecord(block)) {
      kept.push(block);
      continue;
    }
    const given = block as unknown as ContentBlock;
    const isBound = isThought(given) || given.type === 'provider_part';
    const redacted = isBound ? redactJson(given, thinking, isOpaqueMember) : redactBlock(given, text, input);
    if (redacted !== given) {
      hasChanged = true;
      if (isBound) {
        lacksThoughts ||= block['origin'] === undefined;
        continue;
      }
    } else if (hasChanged && isBound) isUnbound = true;
    kept.push(redacted);
  }
  if (!hasChanged) return unchanged;
  return { content: kept.filter((block) => !isForeignThought(block)), hasChanged, lacksThoughts, isUnbound };
}

function isForeignThought(block: unknown): boolean {
  if (!isRecord(block) || block['origin'] === undefined) return false;
  const { type } = block as unknown as ContentBlock;
  return isThought({ type } as ContentBlock) || type === 'provider_part';
}

/** A message of a history, or some of its members. */
export function redactMessage<T extends object>(message: T, redact: RedactText): T {
  return changedMembers(message as Holder, (name, member) => {
    if (NAMES_OF_MESSAGE.has(name)) return member;
    if (name === 'content' && Array.isArray(member)) return redactContent(member as readonly ContentBlock[], redact);
    if (name === 'toolCalls' && Array.isArray(member)) return changedList(member, (call) => redactCall(call, redact));
    if (name === 'blocks') return redactAnswer(member, () => redact).content;
    if (name === 'reasoning' && Array.isArray(member)) return unchangedItems(member, redact);
    return redactJson(member, redact);
  }) as T;
}

/** A call of a message. Its arguments are a JSON text, which must stay one. */
function redactCall(call: unknown, redact: RedactText): unknown {
  if (!isRecord(call)) return call;
  const { arguments: text } = call;
  if (typeof text !== 'string') return call;
  const redacted = redactJsonText(text, redact);
  return redacted === text ? call : { ...call, arguments: redacted };
}

function redactJsonText(text: string, redact: RedactText): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // A text that is no JSON was never a call's input, and is redacted like any other text.
    return redact(text);
  }
  const redacted = redactJson(parsed, redact);
  return redacted === parsed ? text : JSON.stringify(redacted);
}

/** The parts of a reasoning that need no change. A part is never edited, because its signature is bound to its text. */
function unchangedItems(items: readonly unknown[], redact: RedactText): readonly unknown[] {
  const kept = items.filter((item) => redactJson(item, redact, isOpaqueMember) === item);
  return kept.length === items.length ? items : kept;
}

/** An error's message, and the texts of its data. */
export function redactError(error: ErrorShape, redact: RedactText): ErrorShape {
  const message = redact(error.message);
  const data = error.data === undefined ? undefined : redactJson(error.data, redact);
  if (message === error.message && data === error.data) return error;
  return { ...error, message, ...(data === undefined ? {} : { data }) };
}

function changedList<T>(list: readonly T[], change: (item: T) => T): readonly T[] {
  let changed: T[] | undefined;
  for (const [index, item] of list.entries()) {
    const redacted = change(item);
    if (redacted !== item) changed ??= list.slice(0, index);
    changed?.push(redacted);
  }
  return changed ?? list;
}

function changedMembers(holder: Holder, change: (name: string, member: unknown) => unknown): Holder {
  let changed: Record<string, unknown> | undefined;
  for (const [name, member] of Object.entries(holder)) {
    const redacted = change(name, member);
    if (redacted === member) continue;
    changed ??= { ...holder };
    // `changed[name] = …` would set the prototype for the name `__proto__`.
    Object.defineProperty(changed, name, { value: redacted, enumerable: true, writable: true, configurable: true });
  }
  return changed ?? holder;
}
