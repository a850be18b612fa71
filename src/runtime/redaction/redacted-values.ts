/**
 * Values with their texts redacted: plain JSON, content, answers, messages of a history, errors. Names of members and
 * numbers are kept. A value that does not change is returned as it is, not as a copy. Pure, given the function that
 * redacts a text.
 */
import type { ErrorShape } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { type ContentBlock, isServerUse, isThought, type UserContent } from '../../base/messages.ts';
import type { AnswerForm } from '../../session/state/answer-form.ts';
import { formOfSchema } from '../../tools/input-schema.ts';
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

/** Keywords of JSON Schema whose value is part of the structure, so that another value would make another schema. */
const STRUCTURE_OF_SCHEMA: ReadonlySet<string> = new Set([
  ...['type', 'format', 'pattern', 'required', 'dependentRequired', 'contentEncoding', 'contentMediaType'],
  ...['$id', '$schema', '$ref', '$anchor', '$dynamicRef', '$dynamicAnchor', '$vocabulary'],
]);
/** Keywords of JSON Schema whose value is a map from names to schemas. */
const MAPS_OF_SCHEMA: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'],
]);
/** Keywords of JSON Schema whose value is data. */
const DATA_OF_SCHEMA: ReadonlySet<string> = new Set(['default', 'examples', 'enum', 'const']);

/** Redacts all texts of a plain value, at any depth. `isOpaque`: true for members that are kept as they are. */
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

/** Redacts the texts of a content that a user or a tool gives. Media are kept. */
export function redactContent<T extends UserContent>(content: T, redact: RedactText): T {
  if (typeof content === 'string') return redact(content) as T;
  return changedList(content, (block) => redactBlock(block, redact)) as T;
}

/** Redacts the texts of one block. In the input of a call, all members are redacted, whatever their names. */
function redactBlock(block: ContentBlock, redact: RedactText, redactInput: RedactText = redact): ContentBlock {
  if (block.type !== 'tool_use' && !isServerUse(block)) return redactJson(block, redact, isOpaqueMember);
  return changedMembers(block as unknown as Holder, (name, member) =>
    name === 'input' ? redactJson(member, redactInput) : member,
  ) as unknown as ContentBlock;
}

/** The form of an answer, with the texts of its schema redacted: titles, descriptions, and values that it names. */
export function redactForm(form: AnswerForm, redact: RedactText): AnswerForm {
  const schema = redactSchema(form.schema, redact);
  return schema === form.schema ? form : formOfSchema(schema as AnswerForm['schema']);
}

function redactSchema(schema: unknown, redact: RedactText): unknown {
  if (typeof schema === 'string') return redact(schema);
  if (Array.isArray(schema)) return changedList(schema, (item: unknown) => redactSchema(item, redact));
  if (!isRecord(schema)) return schema;
  return changedMembers(schema, (name, member) => {
    if (STRUCTURE_OF_SCHEMA.has(name)) return member;
    if (DATA_OF_SCHEMA.has(name)) return redactJson(member, redact);
    return MAPS_OF_SCHEMA.has(name) && isRecord(member)
      ? changedMembers(member, (_, each) => redactSchema(each, redact))
      : redactSchema(member, redact);
  });
}

/** True for members that are kept. Base64 is under `data`, but so is the text of a document of plain text. */
function isOpaqueMember(holder: Holder, name: string): boolean {
  return OPAQUE_MEMBERS.has(name) || (name === 'data' && holder['type'] !== 'text');
}

/** A model's answer with its texts redacted. */
export interface RedactedAnswer {
  readonly content: unknown;
  readonly hasChanged: boolean;
  /** True if thoughts of a Claude model were left out, because their texts were changed. */
  readonly lacksThoughts: boolean;
  /** True if a thought follows a changed block. */
  readonly isUnbound: boolean;
}

/**
 * Redacts the blocks of an answer. A thought is bound to its exact text, so a thought that would change is left out.
 * Thoughts and parts of other vendors' models are sent back verbatim or not at all. So any changed answer leaves them
 * out.
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

/** Redacts a message of a history, or some of its members. */
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

/** Redacts a call of a message. Its arguments are a JSON text, and must remain a JSON text. */
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
    // A text that is not JSON was never a call's input, and is redacted like any other text.
    return redact(text);
  }
  const redacted = redactJson(parsed, redact);
  return redacted === parsed ? text : JSON.stringify(redacted);
}

/** The parts of a reasoning that need no redaction. A part is never edited: its signature is bound to its text. */
function unchangedItems(items: readonly unknown[], redact: RedactText): readonly unknown[] {
  const kept = items.filter((item) => redactJson(item, redact, isOpaqueMember) === item);
  return kept.length === items.length ? items : kept;
}

/** Redacts an error's message, and the texts of its data. */
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
