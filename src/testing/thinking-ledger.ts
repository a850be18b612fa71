/**
 * Remembers the thoughts that a model produced, so that altered thoughts are refused (R20, R21).
 *
 * Owns: a secret derived from a seed, the signatures that the script supplied, and the thoughts of recent answers. Does
 * not own: the request.
 *
 * - W1 A signature made here is checked without stored state. It holds a fingerprint of the thought's prefix, and a
 *   code over that fingerprint and the thought. The prefix is everything before the thought. The signature is still
 *   valid after a restart with the same seed.
 * - W2 A thought whose text does not match its signature is refused, whatever the model (R20 in the latest answer, else
 *   R21).
 * - W3 A thought whose prefix has changed is refused (R21) for models that bind thinking, and for any request that sets
 *   `prefix_mismatch_behavior`. With the value `drop_block` the request is accepted. Cache marks, the order of keys,
 *   empty texts and tools that are loaded later are not part of a prefix.
 * - W4 While thinking is on and tool calls are answered, the latest answer must have all its thoughts in order (R20).
 *   If thinking is not manual, the answer may have none (R22). If the model binds thinking and the prefix has changed,
 *   the answer must have none (R21).
 */
import { createHash, createHmac } from 'node:crypto';
import { stableText } from '../base/json.ts';
import { type ContentBlock, isThought } from '../base/messages.ts';
import { given, member, type Violation } from '../context/legality/report.ts';
import { BINDING_BETA } from '../context/legality/thinking.ts';
import { modelTraits } from '../context/model-traits.ts';
import type { ModelRequest, ModelResponse } from '../models/provider.ts';
import { trailingBlocks } from '../models/script/pause-turn-answers.ts';

/**
 * Maximum number of remembered answers and of remembered signatures from scripts. The oldest are forgotten and no
 * longer checked.
 */
const REMEMBERED_MAX = 10_000;
/** Maximum number of remembered answers with the same call id. */
const ALIKE_MAX = 16;
const PREFIX_BYTES = 12;
const CODE_BYTES = 16;
/** The member that is not part of a prefix (W3). */
const MARK = 'cache_control';

interface Thought {
  readonly prefix: string;
  readonly text: string;
}

/** The ledger of one fake model. */
export class ThinkingLedger {
  readonly #secret: string;
  /** Signatures supplied by a script, and redacted data, each with its thought. */
  readonly #foreign = new Map<string, Thought>();
  #hasForgotten = false;
  /**
   * The thoughts of answers, by the id of the last tool call. Each id has a list, because two conversations may use the
   * same id.
   */
  readonly #answers = new Map<string, readonly (readonly string[])[]>();

  constructor(seed: number) {
    this.#secret = `thinking of ${seed}`;
  }

  /** The signature of a thought that comes after a request and the blocks `before` it. */
  sign(request: ModelRequest, before: readonly ContentBlock[], thinking: string): string {
    const prefix = this.#prefixOf(request, before);
    return `${prefix}${this.#code(prefix, thinking)}`;
  }

  /** Remembers the thoughts that an answer must still have in later requests. */
  note(request: ModelRequest, response: ModelResponse): void {
    response.content.forEach((block, index) => {
      if (!isThought(block)) return;
      const key = keyOf(block);
      if (this.#isOwn(key)) return;
      const prefix = this.#prefixOf(request, response.content.slice(0, index));
      if (remember(this.#foreign, key, { prefix, text: textOf(block) })) this.#hasForgotten = true;
    });
    const call = response.content.findLast((block) => block.type === 'tool_use');
    if (call === undefined) return;
    const blocks = [...trailingBlocks(request), ...response.content] as readonly ContentBlock[];
    const thoughts = blocks.filter(isThought).map(keyOf);
    remember(
      this.#answers,
      String(call.id),
      [...(this.#answers.get(String(call.id)) ?? []), thoughts].slice(-ALIKE_MAX),
    );
  }

  /** The violations of R20 and R21 in a request with these beta flags, all fatal. */
  check(request: ModelRequest, betas: readonly string[] = []): readonly Violation[] {
    const violations: Violation[] = [];
    const latest = request.messages.findLastIndex((message) => message.role === 'assistant');
    if (request.messages.some(({ content }) => typeof content !== 'string' && content.some(isThought))) {
      this.#checkThoughts(request, latest, betas, violations);
    }
    this.#checkKept(request, latest, violations);
    return violations;
  }

  /** Checks the thoughts of a request against W2 and W3. */
  #checkThoughts(request: ModelRequest, latest: number, betas: readonly string[], violations: Violation[]): void {
    const binding = bindingOf(request, betas);
    let prefix = startOf(request);
    request.messages.forEach(({ role, content }, index) => {
      const blocks = asBlocks(content);
      blocks.forEach((block, place) => {
        if (isThought(block)) {
          const path = `messages.${index}.content.${place}`;
          const violation = this.#judge(block, prefix, path, index === latest, binding);
          if (violation !== undefined) violations.push(violation);
        }
        prefix = extend(prefix, role, block);
      });
    });
  }

  #judge(
    block: ContentBlock,
    prefix: string,
    path: string,
    isLatest: boolean,
    binding: Binding,
  ): Violation | undefined {
    const key = keyOf(block);
    const known = this.#foreign.get(key);
    const text = textOf(block);
    const isOwn = this.#isOwn(key);
    if (!isOwn && known === undefined && this.#hasForgotten) return undefined;
    const ownPrefix = isOwn ? key.slice(0, prefixLength) : known?.prefix;
    const isWhole = isOwn
      ? key.slice(prefixLength) === this.#code(key.slice(0, prefixLength), text)
      : known?.text === text;
    if (!isWhole) return isLatest ? modified(path) : invalid(path, block.type, '');
    const isBroken = binding.isChecked && !binding.drops && ownPrefix !== shorten(prefix);
    return isBroken ? invalid(path, block.type, binding.reason) : undefined;
  }

  /** Checks that the thoughts of the latest answer were kept (W4). */
  #checkKept(request: ModelRequest, latest: number, violations: Violation[]): void {
    const mode = request.thinking?.type;
    if (mode !== 'enabled' && mode !== 'adaptive') return;
    // The API reads consecutive messages of one role as one message (R15).
    const start = request.messages.findLastIndex(({ role }, index) => index < latest && role !== 'assistant') + 1;
    const blocks = request.messages.slice(start, latest + 1).flatMap(({ content }) => asBlocks(content));
    const call = blocks.findLast((block) => block.type === 'tool_use');
    const expected = call === undefined ? undefined : this.#answers.get(String(call.id));
    if (expected === undefined) return;
    const found = blocks.filter(isThought).map(keyOf);
    const isKept = expected.some((thoughts) => stableText(found, MARK) === stableText(thoughts, MARK));
    if (isKept || (found.length === 0 && mode !== 'enabled')) return;
    const path = `messages.${latest}.content.0`;
    // The fault was already reported as an altered signature.
    if (violations.some((violation) => violation.path.startsWith(`messages.${latest}.`))) return;
    violations.push(modified(path));
  }

  #prefixOf(request: ModelRequest, before: readonly ContentBlock[]): string {
    let prefix = startOf(request);
    for (const { role, content } of request.messages) {
      for (const block of asBlocks(content)) prefix = extend(prefix, role, block);
    }
    for (const block of before) prefix = extend(prefix, 'assistant', block);
    return shorten(prefix);
  }

  #code(prefix: string, thinking: string): string {
    const code = createHmac('sha256', this.#secret).update(prefix).update(thinking).digest();
    return code.subarray(0, CODE_BYTES).toString('base64url');
  }

  /** Whether the key has the form of a signature made here; its validity is checked separately. */
  #isOwn(key: string): boolean {
    return !this.#foreign.has(key) && ownForm.test(key);
  }
}

/** How the prefixes of a request's thoughts are checked. */
interface Binding {
  readonly isChecked: boolean;
  /** True if the API leaves a thought whose prefix has changed out of the prompt, and answers the request. */
  readonly drops: boolean;
  /** The part of the error that says what to do. */
  readonly reason: string;
}

function bindingOf(request: ModelRequest, betas: readonly string[]): Binding {
  const behavior = member(member(request.thinking, 'block_binding'), 'prefix_mismatch_behavior');
  const remedy =
    ' The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".';
  const beta = ` That setting requires the \`${BINDING_BETA}\` value in the \`anthropic-beta\` header.`;
  return {
    isChecked: given(behavior) || modelTraits(request.model).bindsThinking,
    drops: behavior === 'drop_block',
    reason: betas.includes(BINDING_BETA) ? remedy : `${remedy}${beta}`,
  };
}

const prefixLength: number = Math.ceil((PREFIX_BYTES * 4) / 3);
const ownForm = new RegExp(`^[\\w-]{${prefixLength + Math.ceil((CODE_BYTES * 4) / 3)}}$`);

function keyOf(block: ContentBlock): string {
  if (block.type === 'thinking') return block.signature;
  return block.type === 'redacted_thinking' ? `redacted ${block.data}` : '';
}

function textOf(block: ContentBlock): string {
  return block.type === 'thinking' ? block.thinking : '';
}

function asBlocks(content: string | readonly ContentBlock[]): readonly ContentBlock[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

function startOf(request: ModelRequest): string {
  // Tools that are loaded later are left out, because they may join a conversation at any time.
  const tools = (request.tools ?? []).filter((tool) => member(tool, 'defer_loading') !== true);
  return digest('', stableText([request.system ?? '', tools], MARK));
}

function extend(prefix: string, role: string, block: ContentBlock): string {
  if (block.type === 'text' && block.text === '') return prefix;
  return digest(prefix, `${role} ${stableText(block, MARK)}`);
}

function digest(prefix: string, text: string): string {
  return createHash('sha256').update(prefix).update(text).digest('base64url');
}

function shorten(prefix: string): string {
  return prefix.slice(0, prefixLength);
}

function modified(path: string): Violation {
  const text =
    'thinking or redacted_thinking blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.';
  return { rule: 'R20', path, message: `${path}: ${text}`, fatal: true };
}

function invalid(path: string, type: string, reason: string): Violation {
  const field = type === 'thinking' ? 'signature' : 'data';
  const message = `${path}: Invalid \`${field}\` in \`${type}\` block.${reason}`;
  return { rule: 'R21', path, message, fatal: true };
}

/** Adds an entry and drops the oldest beyond the bound. Returns true when one was dropped. */
function remember<T>(map: Map<string, T>, key: string, value: T): boolean {
  map.set(key, value);
  if (map.size <= REMEMBERED_MAX) return false;
  const oldest = map.keys().next();
  if (oldest.done !== true) map.delete(oldest.value);
  return true;
}
