/**
 * Plays a script.
 * Owns: each session's position in the script. Does not own: how an answer reaches the caller.
 *
 * - Q1 A call takes its position at once, before any await: calls are numbered in the order they arrive.
 * - Q2 Every reply that is reached is consumed, even if it is an error.
 * - Q3 Generated ids of tool calls are the same for the same session, call and request, and do not occur in the
 *   request.
 */
import { createHash } from 'node:crypto';
import { BYTES_PER_TOKEN, SCRIPT_SESSIONS_MAX } from '../../base/bounds.ts';
import { ConfigError, describeValue, ModelInvalidRequestError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import type { ContentBlock, Usage } from '../../base/messages.ts';
import { importModule } from '../../threads/user-modules.ts';
import { readFacts } from '../anthropic/response-check.ts';
import type { ModelRequest, ModelResponse } from '../provider.ts';
import { ruleReply } from './rules.ts';
import type { Reply, ReplyError, ReplyFunction, Script } from './script.ts';
import { checkReply, checkScript, type ScriptRules } from './script.ts';

/** A reply that was reached, and the number of its call. */
export interface PlayedReply {
  readonly reply: Reply;
  readonly call: number;
}

/** Plays one script for many sessions. */
export interface ScriptPlayer {
  /**
   * The reply to the next call of a session. Rejects with `ModelInvalidRequestError` when the script has none, and with
   * any error that a reply function throws.
   */
  next(request: ModelRequest, session: string): Promise<PlayedReply>;
}

type Answerer = (request: ModelRequest, session: string, call: number) => Reply | Promise<Reply>;

/** A player of a script that `checkScript` accepted. The script of a module is imported at the first call. */
export function createScriptPlayer(script: Script): ScriptPlayer {
  const calls = new Map<string, number>();
  const answerer = answererOf(script);
  return {
    async next(request, session) {
      const call = calls.get(session) ?? 0;
      if (call === 0 && calls.size >= SCRIPT_SESSIONS_MAX) {
        throw new ModelInvalidRequestError(`a script serves at most ${SCRIPT_SESSIONS_MAX} sessions`);
      }
      calls.set(session, call + 1);
      const reply: unknown = await answerer(request, session, call);
      return { reply: checkReply(reply, `reply ${call}`), call };
    },
  };
}

/** Imports the script that a module exports, once. Rejects with `ConfigError` that names the module and the export. */
export async function importScript(url: string, exportName: string): Promise<Script> {
  const exports = await importModule(url, `script.module: ${url}`);
  const value = exports[exportName];
  if (value === undefined) {
    throw new ConfigError(`script.module: ${url} has no export ${JSON.stringify(exportName)}`);
  }
  const script = checkScript(value);
  if ('module' in script) {
    throw new ConfigError(`script.module: ${url} names a module again; got ${describeValue(value)}`);
  }
  return script;
}

function answererOf(script: Script): Answerer {
  if (typeof script === 'function') return byFunction(script);
  if ('module' in script) {
    let imported: Promise<Answerer> | undefined;
    return async (request, session, call) => {
      imported ??= importScript(String(script.module), script.export ?? 'default').then(answererOf);
      return (await imported)(request, session, call);
    };
  }
  return 'rules' in script ? byRules(script) : byList(script);
}

function byFunction(run: ReplyFunction): Answerer {
  return (request, session, call) => run(request, { session, call });
}

function byList(replies: readonly (Reply | ReplyFunction)[]): Answerer {
  return (request, session, call) => {
    const reply = replies[call];
    if (reply === undefined) {
      throw new ModelInvalidRequestError(`the script is exhausted after ${replies.length} replies`);
    }
    return typeof reply === 'function' ? reply(request, { session, call }) : reply;
  };
}

function byRules(rules: ScriptRules): Answerer {
  return (request, _session, call) => {
    const reply = ruleReply(rules, request, call);
    if (reply !== undefined) return reply;
    throw new ModelInvalidRequestError(`no rule of the script answers call ${call}`);
  };
}

/** True for a reply that is an error. */
export function isReplyError(reply: Reply): reply is ReplyError {
  return typeof reply !== 'string' && 'error' in reply && reply.error !== undefined;
}

/**
 * The answer of a reply that is not an error, with its missing parts filled in. `sign` makes the signature of each
 * thought that has none, in the order of the thoughts.
 */
export function responseOf(
  reply: Exclude<Reply, ReplyError>,
  request: ModelRequest,
  place: { readonly session: string; readonly call: number },
  sign: (thinking: string, before: readonly ContentBlock[]) => string,
): ModelResponse {
  const content = fillBlocks(blocksOf(reply), request, place, sign);
  const asks = content.some((block) => block.type === 'tool_use');
  const given = typeof reply === 'string' ? {} : reply;
  const named = 'stop_reason' in given ? given['stop_reason'] : 'stopReason' in given ? given['stopReason'] : undefined;
  return {
    content,
    stop_reason: typeof named === 'string' ? named : asks ? 'tool_use' : 'end_turn',
    usage: { ...estimateUsage(request, content), ...given.usage } as Usage,
    model: request.model,
    id: `msg_${shortHash(place.session)}_${place.call}`,
    ...readFacts('content' in given ? given : {}),
  };
}

type LooseBlock = Readonly<Record<string, unknown>> & { readonly type: string };

function blocksOf(reply: Exclude<Reply, ReplyError>): readonly LooseBlock[] {
  if (typeof reply === 'string') return reply === '' ? [] : [{ type: 'text', text: reply }];
  if ('content' in reply) return reply.content as readonly LooseBlock[];
  const blocks: LooseBlock[] = [];
  if (typeof reply.thinking === 'string') blocks.push({ type: 'thinking', thinking: reply.thinking });
  if (typeof reply.text === 'string') blocks.push({ type: 'text', text: reply.text });
  for (const call of reply.toolUse === undefined ? [] : [reply.toolUse].flat()) {
    blocks.push({
      type: 'tool_use',
      ...(call.id === undefined ? {} : { id: call.id }),
      name: call.name,
      input: call.input ?? {},
    });
  }
  return blocks;
}

function fillBlocks(
  blocks: readonly LooseBlock[],
  request: ModelRequest,
  place: { readonly session: string; readonly call: number },
  sign: (thinking: string, before: readonly ContentBlock[]) => string,
): readonly ContentBlock[] {
  const taken = blocks.some((b) => b.type === 'tool_use' && b['id'] === undefined)
    ? callIds(request)
    : new Set<unknown>();
  const prefix = `toolu_${shortHash(place.session)}_${request.messages.length}_${place.call}`;
  const filled: ContentBlock[] = [];
  blocks.forEach((block, index) => {
    let full = block;
    if (block.type === 'tool_use' && block['id'] === undefined) {
      let id = `${prefix}_${index}`;
      while (taken.has(id)) id += 'x';
      full = { type: 'tool_use', id, name: block['name'], input: block['input'] ?? {} };
    } else if (block.type === 'thinking' && block['signature'] === undefined) {
      const thinking = String(block['thinking']);
      full = { type: 'thinking', thinking, signature: sign(thinking, filled) };
    }
    filled.push(full as unknown as ContentBlock);
  });
  return filled;
}

function callIds(request: ModelRequest): ReadonlySet<unknown> {
  const ids = new Set<unknown>();
  for (const { content } of request.messages) {
    if (typeof content === 'string') continue;
    for (const block of content) if (block.type === 'tool_use') ids.add(block.id);
  }
  return ids;
}

/** An estimated usage: a quarter token per byte, as the runtime itself estimates, but never zero. */
function estimateUsage(request: ModelRequest, content: readonly ContentBlock[]): Usage {
  return {
    input_tokens: estimateTokens([request.system, request.tools, request.messages]),
    output_tokens: estimateTokens(content),
  };
}

/** The tokens of the texts inside a value, at least 1. */
export function estimateTokens(value: unknown): number {
  return Math.max(1, Math.ceil(textBytes(value) / BYTES_PER_TOKEN));
}

function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + textBytes(item), 0);
  if (!isRecord(value)) return 1;
  return Object.values(value).reduce<number>((sum, item) => sum + textBytes(item), 0);
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}
