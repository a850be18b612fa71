/**
 * The script language: defines the answers of a scripted model. The scripted provider and the strict fake server both
 * use it.
 *
 * A script is one of
 * - a list of replies. Every session takes them in order, one per call; a call after the last reply fails. A reply that
 *   is an error is consumed like any other, so `[{ error: { status: 529 } }, 'ok']` is a model that recovers;
 * - a function of the request, called for every call;
 * - `{ rules: [{ when, reply }], otherwise }`: the first rule whose condition holds answers. In every string of these
 *   replies, at any depth, `{{text}}` stands for the newest text of the user. `{{result}}` stands for the tool results
 *   of the last message, and is empty if there are none;
 * - `{ module, export }`: plain data that names the module and export of a script of the other kinds. The module is
 *   imported on the thread of the model.
 *
 * A reply is one of
 * - a string: that text, `end_turn`;
 * - `{ text, thinking, toolUse, stopReason, usage, delayMs }`, all optional: a text, a thought, one tool call or a list
 *   of them;
 * - `{ content: [...], stop_reason, usage }`: an answer in the shape of the Messages API;
 * - `{ error: { status, type, code, message, retryAfterMs, errorCode, shouldRetry } }`: a call that fails.
 *
 * Missing parts of a reply are filled in: tool-use ids, the stop reason, and a usage estimated from the length of the
 * texts. The ids are the same for the same session, call and request.
 */
import type { ModelErrorCode } from '../../base/errors.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import type { Usage } from '../../base/messages.ts';
import type { ModelRequest, StopReason } from '../provider.ts';

/** A tool call of a reply. `id`: generated when missing. */
export interface ScriptedToolUse {
  readonly name: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly id?: string;
}

/** A reply given by its parts. */
export interface ReplyParts {
  readonly text?: string;
  readonly thinking?: string;
  readonly toolUse?: ScriptedToolUse | readonly ScriptedToolUse[];
  /** The stop reason. Default: `tool_use` with a tool call, otherwise `end_turn`. */
  readonly stopReason?: StopReason;
  readonly usage?: Partial<Usage>;
  /** Milliseconds before the answer begins. */
  readonly delayMs?: number;
}

/**
 * A reply in the shape of the Messages API. Blocks are used unchanged, with two exceptions. A `tool_use` without an id
 * gets one and keeps only its `name` and `input`. A thought without a signature gets one and keeps only its `thinking`.
 * The reply may have `stop_sequence`, `stop_details`, `container`, `context_management` and `input_transformations`.
 */
export interface ReplyMessage {
  readonly content: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[];
  readonly stop_reason?: StopReason;
  readonly usage?: Partial<Usage>;
  readonly delayMs?: number;
  readonly [key: string]: unknown;
}

/**
 * A call that fails. `code` is our class of the error. Without it `shouldRetry` and `errorCode` decide the class, then
 * `status`, then the API's error `type`. With none of `code`, `status` and `type`, the status is 500.
 */
export interface ReplyError {
  readonly error: {
    readonly status?: number;
    readonly type?: string;
    readonly code?: ModelErrorCode;
    readonly message?: string;
    readonly retryAfterMs?: number;
    /** The API's own code, `error.details.error_code`. */
    readonly errorCode?: string;
    /** The value of the header `x-should-retry`. */
    readonly shouldRetry?: boolean;
  };
  readonly delayMs?: number;
}

/** The reply of a scripted model to one call. */
export type Reply = string | ReplyParts | ReplyMessage | ReplyError;

/**
 * The arguments of a reply function besides the request. `call`: the number of calls of this session before this one,
 * since the provider was built. After a restart it begins at 0.
 */
export interface ReplyContext {
  /** The session's id; `''` behind the fake server, where one script serves all callers. */
  readonly session: string;
  readonly call: number;
}

/** Answers a call. If it throws, the call fails. */
export type ReplyFunction = (request: ModelRequest, context: ReplyContext) => Reply | Promise<Reply>;

/**
 * The conditions of a rule. The rule applies if every condition it names holds. Texts are matched literally and
 * case-sensitively.
 */
export interface ReplyCondition {
  /** The number of calls of this session before this one. */
  readonly call?: number;
  /** The system prompt contains this text. */
  readonly system?: string;
  /** The newest text of the user contains this text. */
  readonly text?: string;
  /** True: the last message has tool results. False: it has none. A text: its tool results contain this text. */
  readonly result?: string | boolean;
  /** The last message answers a call of this tool. */
  readonly tool?: string;
}

/** Replies by condition. `otherwise` answers when no rule does; without it the call fails. */
export interface ScriptRules {
  readonly rules: readonly { readonly when: ReplyCondition; readonly reply: Reply }[];
  readonly otherwise?: Reply;
}

/** The location of an exported script. `export`: default `default`. `checkScript` turns a URL object into its text. */
export interface ScriptModule {
  readonly module: string | URL;
  readonly export?: string;
}

/** A script that is plain data. It can cross to a model thread once `checkScript` has replaced a URL object. */
export type PlainScript = readonly Reply[] | ScriptRules | ScriptModule;

/** Any script. A list may hold functions; it is then not plain data. */
export type Script = PlainScript | readonly (Reply | ReplyFunction)[] | ReplyFunction;

const PART_KEYS: ReadonlySet<string> = new Set([...['text', 'thinking', 'toolUse', 'stopReason', 'usage', 'delayMs']]);
const ERROR_KEYS: ReadonlySet<string> = new Set([
  ...['status', 'type', 'code', 'message', 'retryAfterMs', 'errorCode', 'shouldRetry'],
]);
const CONDITION_KEYS: ReadonlySet<string> = new Set(['call', 'system', 'text', 'result', 'tool']);

/** True when a script holds no function. */
export function isPlainScript(script: Script): script is PlainScript {
  if (typeof script === 'function') return false;
  return !Array.isArray(script) || script.every((reply) => typeof reply !== 'function');
}

/**
 * Returns `value`, or for a script in a module its location with the URL as a text. Throws `ConfigError` that names the
 * invalid part of a script, such as `script[2].toolUse: ...`.
 */
export function checkScript(value: unknown): Script {
  if (typeof value === 'function') return value as ReplyFunction;
  if (Array.isArray(value)) {
    value.forEach((reply: unknown, index) => {
      if (typeof reply !== 'function') checkReply(reply, `script[${index}]`);
    });
    return value as readonly Reply[];
  }
  if (!isRecord(value)) {
    throw fault('script', 'a list of replies, a function, { rules } or { module }', value);
  }
  if (value['module'] !== undefined) return checkModule(value);
  const rules = value['rules'];
  if (!Array.isArray(rules)) throw fault('script.rules', 'a list of rules', rules);
  onlyKeys(value, new Set(['rules', 'otherwise']), 'script');
  rules.forEach((rule: unknown, index) => {
    checkRule(rule, `script.rules[${index}]`);
  });
  if (value['otherwise'] !== undefined) checkReply(value['otherwise'], 'script.otherwise');
  return value as unknown as ScriptRules;
}

/** Returns `value`. Throws `ConfigError` that names the invalid part of a reply. `path`: its path in the script. */
export function checkReply(value: unknown, path: string): Reply {
  if (typeof value === 'string') return value;
  if (!isRecord(value)) throw fault(path, 'a string or an object', value);
  if (value['error'] !== undefined) {
    if (!isRecord(value['error'])) throw fault(`${path}.error`, 'an object', value['error']);
    onlyKeys(value['error'], ERROR_KEYS, `${path}.error`);
    return value as unknown as ReplyError;
  }
  if (value['content'] !== undefined) {
    if (!Array.isArray(value['content'])) throw fault(`${path}.content`, 'a list of blocks', value['content']);
    return value as unknown as ReplyMessage;
  }
  onlyKeys(value, PART_KEYS, path);
  for (const key of ['text', 'thinking', 'stopReason']) {
    if (value[key] !== undefined && typeof value[key] !== 'string') {
      throw fault(`${path}.${key}`, 'a string', value[key]);
    }
  }
  const calls: readonly unknown[] = value['toolUse'] === undefined ? [] : [value['toolUse']].flat();
  for (const call of calls) {
    if (!isRecord(call) || typeof call['name'] !== 'string') {
      throw fault(`${path}.toolUse`, 'a tool call with a name, or a list of them', call);
    }
  }
  return value as ReplyParts;
}

function checkModule(value: Readonly<Record<string, unknown>>): ScriptModule {
  onlyKeys(value, new Set(['module', 'export']), 'script');
  const { module } = value;
  const href = module instanceof URL ? module.href : module;
  if (typeof href !== 'string' || !URL.canParse(href)) {
    throw fault('script.module', 'the URL of a module', module);
  }
  if (value['export'] === undefined) return { module: href };
  if (typeof value['export'] !== 'string') throw fault('script.export', 'a name', value['export']);
  return { module: href, export: value['export'] };
}

function checkRule(rule: unknown, path: string): void {
  if (!isRecord(rule)) throw fault(path, '{ when, reply }', rule);
  if (!isRecord(rule['when'])) throw fault(`${path}.when`, 'an object', rule['when']);
  onlyKeys(rule, new Set(['when', 'reply']), path);
  onlyKeys(rule['when'], CONDITION_KEYS, `${path}.when`);
  checkReply(rule['reply'], `${path}.reply`);
}

function onlyKeys(value: Readonly<Record<string, unknown>>, known: ReadonlySet<string>, path: string): void {
  const unknown = Object.keys(value).find((key) => !known.has(key));
  if (unknown === undefined) return;
  throw new ConfigError(`${path}: unknown key ${JSON.stringify(unknown)}, expected ${[...known].join(', ')}`);
}

function fault(path: string, expected: string, found: unknown): ConfigError {
  return new ConfigError(`${path}: expected ${expected}; got ${describeValue(found)}`, {
    data: { key: path },
  });
}
