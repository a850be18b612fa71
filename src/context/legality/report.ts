/** The reports of the legality check, and the views of a request that its rules read. Types and the collector; pure. */
import { defined } from '../../base/defined.ts';
import { isRecord } from '../../base/json.ts';
import type { ListedModel, ModelTraits } from '../model-traits.ts';

type Digit = '0' | '1' | '2' | '3' | '4' | '5' | '6' | '7' | '8' | '9';

/**
 * A row of the rule table, `R01` to `R69`. `R26` became `R49`, and `R42` became `R61`. Rules that are not checked, since a
 * request does not show them:
 *
 * | rule | why |
 * | --- | --- |
 * | `R20`, `R21` | they compare with the model's earlier answers: the fake model that gave them checks them |
 * | `R55` | whether a compaction block is the one the API gave: only the API knows its signature |
 * | `R56` | which fallbacks a model allows: the API lists them (`allowed_fallback_models`) |
 * | `R60` | which dated tool types a model takes: only one pair was seen |
 * | `R61` | pages of documents: only a reader of PDF can count them |
 * | `R62` | whether a thread exists, was continued or has other fields: it is in the API's memory |
 * | `R66` | advisors of models other than Sonnet 5.5 and Fable 5.2: their pairs were not seen |
 * | `R67` | whose account and model made a thought: an unreadable one is dropped without an error |
 * | `R68` | when a cached prefix expires: a matter of time, and never refused |
 */
export type RuleId = `R${'0' | '1' | '2' | '3' | '4' | '5' | '6'}${Digit}`;

/**
 * One broken rule. `path` is dotted as the API writes it (`messages.3.content.0`); `fatal`: the API answers 400 (413
 * for `R35`).
 */
export interface Violation {
  readonly rule: RuleId;
  readonly path: string;
  readonly message: string;
  readonly fatal: boolean;
  /** `error.details.error_code` of the API's answer, where it has one. */
  readonly code?: string;
}

/** Adds a violation; `fatal` overrides the table's entry for the rule. */
export type Report = (rule: RuleId, path: string, message: string, fatal?: boolean, code?: string) => void;

/** Decides whether an assistant message in the last position is a paused turn that is being resumed. */
export type PausedTurnTest = (blocks: readonly BlockView[]) => boolean;

/** Facts that the body does not contain. */
export interface LegalityOptions {
  /**
   * Decides whether the content of the last message, an assistant's, is a paused turn. All assistant messages at the
   * end are joined. Missing: content with calls of the provider's own tools counts as paused.
   */
  readonly isPausedTurn?: PausedTurnTest;
  /** Tokens of the context window, for a model whose name does not determine it. */
  readonly contextTokensMax?: number;
  /** True for a body of the token-counting endpoint, which does not require `max_tokens`. */
  readonly counting?: boolean;
  /** True for the params of an item of a batch. */
  readonly batch?: boolean;
  /**
   * The flags of `anthropic-beta`. Missing: the flags are not known, and every flag that a field needs counts as given.
   */
  readonly betas?: readonly string[];
  /** The value of `anthropic-version`. Before `2026-10-21`, `R49` to `R51` do not apply. Default: `2026-10-21`. */
  readonly version?: string;
  /** Rows of the vendor's list of models. They count more than the dated table. Missing: only the table is used. */
  readonly listed?: readonly ListedModel[];
}

/** A content block as received: an object with a string `type`. Nothing else about it is checked. */
export type BlockView = Readonly<Record<string, unknown>> & { readonly type: string };

/** A message whose shape was checked. A string content is one text block, or none if it is empty; `isText` marks it. */
export interface MessageView {
  readonly index: number;
  readonly role: string;
  readonly isText: boolean;
  readonly blocks: readonly BlockView[];
  /** The message as it came. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A request whose shape was checked: the input of every rule. */
export interface RequestView {
  readonly body: Readonly<Record<string, unknown>>;
  readonly traits: ModelTraits;
  readonly messages: readonly MessageView[];
  /**
   * Tools as received. Entries that are not objects were reported and left out; `index` is the position in the request.
   */
  readonly tools: readonly { readonly index: number; readonly tool: Readonly<Record<string, unknown>> }[];
  /** The system prompt as blocks. */
  readonly system: readonly BlockView[];
  readonly isBatch: boolean;
  /** True if the API's version is 2026-10-21 or later. */
  readonly isCurrent: boolean;
  /** Whether the header names one of these beta flags; true if the header is not known. */
  readonly hasBeta: (...flags: readonly string[]) => boolean;
}

/** Rules known only from experience, and habits that harm: warnings, since the API was not seen to refuse them. */
const WARNINGS: ReadonlySet<RuleId> = new Set<RuleId>([
  ...(['R06', 'R14', 'R15', 'R17', 'R39', 'R40', 'R41', 'R43', 'R44', 'R69'] as const),
]);

/** Violations kept per request: enough for a person, and a bound for a broken request. */
const VIOLATIONS_MAX = 100;

/** An empty list and the function that fills it, with at most 100 entries. */
export function violationList(): { readonly list: readonly Violation[]; readonly report: Report } {
  const list: Violation[] = [];
  const report: Report = (rule, path, message, fatal = !WARNINGS.has(rule), code) => {
    if (list.length < VIOLATIONS_MAX) list.push({ rule, path, message, fatal, ...defined({ code }) });
  };
  return { list, report };
}

/** The path of a block. */
export function blockPath(message: MessageView, block: number): string {
  return message.isText ? `messages.${message.index}.content` : `messages.${message.index}.content.${block}`;
}

/** A value of a field that was given: an explicit null counts as left out. */
export function given<T>(value: T): value is NonNullable<T> {
  return value !== undefined && value !== null;
}

/** A member of a field that is an object; undefined if the field is no object. */
export function member(value: unknown, key: string): unknown {
  return isRecord(value) ? value[key] : undefined;
}

/** Reports a field or block that a beta flag admits, if the header names none of these flags. */
export function needsBeta(
  view: RequestView,
  flags: readonly string[],
  rule: RuleId,
  path: string,
  report: Report,
  fatal?: boolean,
): void {
  if (!view.hasBeta(...flags)) report(rule, path, `${path}: Extra inputs are not permitted`, fatal);
}
