/**
 * Remembers the items of a fake's answers (OpenAI's Responses API), and checks the items of its requests: O02 to O12 of
 * `open-ai.ts`.
 *
 * Owns: the items, and which reasoning belongs to which item. Beyond a bound the oldest items are forgotten and no
 * longer checked.
 */
import { isRecord } from '../../base/json.ts';
import { type Refuse, recordsOf } from './wire-fake.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Maximum number of remembered items. */
const ITEMS_MAX = 100_000;
const CALL_ID_CHARACTERS_MAX = 64;

/** An item of an answer. */
interface Item {
  readonly id: string;
  readonly type: 'reasoning' | 'output';
  /** The id of the reasoning item right before this item. */
  readonly reasoning: string | undefined;
  readonly callId: string | undefined;
  readonly isStored: boolean;
  readonly encrypted?: string | undefined;
}

/** The fields of an item beside its type, by type. */
const ITEM_FIELDS: Readonly<Record<string, ReadonlySet<string>>> = {
  message: new Set(['id', 'role', 'content', 'status', 'phase']),
  reasoning: new Set(['id', 'summary', 'content', 'encrypted_content', 'status']),
  function_call: new Set(['id', 'call_id', 'name', 'arguments', 'status', 'namespace', 'async']),
  function_call_output: new Set(['id', 'call_id', 'output', 'status']),
  item_reference: new Set(['id']),
};
const ID_PREFIXES: Readonly<Record<string, string>> = { message: 'msg', reasoning: 'rs', function_call: 'fc' };
const CONTENT_TYPES: Readonly<Record<string, readonly unknown[]>> = {
  user: ['input_text', 'input_image', 'input_file'],
  system: ['input_text'],
  developer: ['input_text'],
  assistant: ['output_text', 'refusal'],
};
const IMAGE_URL = /^(https?:\/\/|data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$)/u;

/** The items of one fake. */
export class OpenAiItems {
  readonly #items = new Map<string, Item>();
  readonly #encrypted = new Set<string>();

  /** Returns the functions that take the items of one answer, in their order. */
  answer(isStored: boolean): {
    readonly reasoning: (id: string, encrypted: string | undefined) => void;
    readonly item: (id: string, callId?: string) => void;
  } {
    let before: string | undefined;
    return {
      reasoning: (id, encrypted) => {
        this.#keep({ id, type: 'reasoning', reasoning: undefined, callId: undefined, isStored, encrypted });
        if (encrypted !== undefined) this.#encrypted.add(encrypted);
        before = id;
      },
      item: (id, callId) => {
        this.#keep({ id, type: 'output', reasoning: before, callId, isStored });
        before = undefined;
      },
    };
  }

  #keep(item: Item): void {
    this.#items.set(item.id, item);
    const [oldest] = this.#items.keys();
    if (this.#items.size <= ITEMS_MAX || oldest === undefined) return;
    const { encrypted } = this.#items.get(oldest) ?? {};
    if (encrypted !== undefined) this.#encrypted.delete(encrypted);
    this.#items.delete(oldest);
  }

  /** Reports O02 to O12 for the input of a request. */
  check(input: readonly unknown[], refuse: Refuse): void {
    const items = recordsOf(input);
    if (items.length < input.length) refuse('O02', 'input', "Invalid type for 'input': expected a list of objects.");
    const seen = new Set<unknown>();
    const calls = new Set<unknown>();
    const outputs = new Set<unknown>();
    for (const [item, place] of items) {
      const path = `input[${place}]`;
      this.#checkShape(item, path, refuse);
      const { id } = item;
      if (typeof id === 'string') {
        if (seen.has(id)) refuse('O11', `${path}.id`, `Duplicate item found with id ${id}.`);
        seen.add(id);
      }
      const callId = this.#callIdOf(item);
      if (callId !== undefined) calls.add(callId);
      if (item['type'] === 'function_call_output') {
        outputs.add(item['call_id']);
        if (!calls.has(item['call_id'])) {
          const message = `No tool call found for function call output with call_id ${String(item['call_id'])}.`;
          refuse('O04', path, message);
        }
      }
    }
    for (const call of calls) {
      if (!outputs.has(call)) refuse('O05', 'input', `No tool output found for function call ${String(call)}.`);
    }
    this.#checkReasoning(items, seen, refuse);
  }

  /** The id of the call that an item is, or refers to. */
  #callIdOf(item: Fields): unknown {
    if (item['type'] === 'function_call') return item['call_id'];
    return item['type'] === 'item_reference' ? this.#items.get(String(item['id']))?.callId : undefined;
  }

  #checkReasoning(items: ReturnType<typeof recordsOf>, seen: ReadonlySet<unknown>, refuse: Refuse): void {
    items.forEach(([item, place], index) => {
      const path = `input[${place}]`;
      const id = String(item['id'] ?? '');
      const known = this.#items.get(id);
      const isReasoning =
        item['type'] === 'reasoning' || (item['type'] === 'item_reference' && known?.type === 'reasoning');
      if (isReasoning) {
        const next = items[index + 1]?.[0];
        if (next === undefined || next['type'] === 'function_call_output' || isFromUser(next)) {
          const message = `Item '${id}' of type 'reasoning' was provided without its required following item.`;
          refuse('O07', path, message);
        }
      } else if (known?.reasoning !== undefined && !seen.has(known.reasoning)) {
        const type = known.callId === undefined ? 'message' : 'function_call';
        const message = `Item '${id}' of type '${type}' was provided without its required 'reasoning' item: '${known.reasoning}'.`;
        refuse('O08', path, message);
      }
    });
  }

  #checkShape(item: Fields, path: string, refuse: Refuse): void {
    const type = typeof item['type'] === 'string' ? item['type'] : 'message';
    const fields = Object.hasOwn(ITEM_FIELDS, type) ? ITEM_FIELDS[type] : undefined;
    if (fields === undefined) {
      refuse('O02', `${path}.type`, `Invalid value: '${type}'.`, 'invalid_value');
      return;
    }
    for (const field of Object.keys(item)) {
      if (field === 'type' || fields.has(field)) continue;
      refuse('O01', `${path}.${field}`, `Unknown parameter: '${path}.${field}'.`, 'unknown_parameter');
    }
    const { id, call_id: callId } = item;
    const prefix = ID_PREFIXES[type];
    if (prefix !== undefined && typeof id === 'string' && !id.startsWith(prefix)) {
      const message = `Invalid '${path}.id': '${id}'. Expected an ID that begins with '${prefix}'.`;
      refuse('O11', `${path}.id`, message, 'invalid_value');
    }
    if (typeof callId === 'string' && callId.length > CALL_ID_CHARACTERS_MAX) {
      const message = `Invalid '${path}.call_id': string too long. Expected a string with maximum length ${CALL_ID_CHARACTERS_MAX}, but got a string with length ${callId.length} instead.`;
      refuse('O06', `${path}.call_id`, message, 'string_above_max_length');
    }
    this.#checkContent(type, item, path, refuse);
  }

  #checkContent(type: string, item: Fields, path: string, refuse: Refuse): void {
    switch (type) {
      case 'message':
        return checkMessage(item, path, refuse);
      case 'item_reference': {
        const id = String(item['id']);
        if (this.#items.get(id)?.isStored === true) return;
        const why = this.#items.has(id) ? ' Items are not persisted when `store` is set to false.' : '';
        return refuse('O09', `${path}.id`, `Item with id '${id}' not found.${why}`);
      }
      case 'reasoning': {
        const { encrypted_content: encrypted, summary } = item;
        if (!Array.isArray(summary)) refuse('O02', `${path}.summary`, `Missing required parameter: '${path}.summary'.`);
        if (encrypted === undefined || encrypted === null || this.#encrypted.has(String(encrypted))) return;
        const message = `The encrypted content for item ${String(item['id'])} could not be verified.`;
        return refuse('O10', path, message, 'invalid_encrypted_content');
      }
      case 'function_call': {
        const { call_id: callId, name, arguments: text } = item;
        if (typeof callId === 'string' && typeof name === 'string' && typeof text === 'string') return;
        return refuse('O02', path, `Missing required parameter of the function call '${path}'.`);
      }
      default: {
        const { output } = item;
        if (typeof output === 'string') return;
        for (const [part, place] of recordsOf(output)) checkPart('user', part, `${path}.output[${place}]`, refuse);
        if (!Array.isArray(output)) refuse('O02', `${path}.output`, `Missing required parameter: '${path}.output'.`);
      }
    }
  }
}

function isFromUser(item: Fields): boolean {
  return item['role'] !== undefined && item['role'] !== 'assistant';
}

function checkMessage({ role, content }: Fields, path: string, refuse: Refuse): void {
  if (typeof role !== 'string' || CONTENT_TYPES[role] === undefined) {
    refuse('O02', `${path}.role`, `Invalid value: '${String(role)}'.`, 'invalid_value');
    return;
  }
  if (typeof content === 'string') return;
  if (!Array.isArray(content)) refuse('O03', `${path}.content`, `Missing required parameter: '${path}.content'.`);
  for (const [part, place] of recordsOf(content)) checkPart(role, part, `${path}.content[${place}]`, refuse);
}

function checkPart(role: string, part: Fields, path: string, refuse: Refuse): void {
  const { type, image_url: image } = part;
  const types = CONTENT_TYPES[role] ?? [];
  if (!types.includes(type)) {
    const message = `Invalid value: '${String(type)}'. Supported values are: ${types.map((each) => `'${String(each)}'`).join(', ')}.`;
    refuse('O03', `${path}.type`, message, 'invalid_value');
  }
  if ((type === 'input_text' || type === 'output_text') && typeof part['text'] !== 'string') {
    refuse('O03', `${path}.text`, `Missing required parameter: '${path}.text'.`);
  }
  if (type !== 'input_image' || isRecord(part['file_id']) || typeof part['file_id'] === 'string') return;
  if (typeof image === 'string' && IMAGE_URL.test(image)) return;
  refuse('O12', `${path}.image_url`, `Invalid '${path}.image_url'. Expected a valid URL.`, 'invalid_value');
}
