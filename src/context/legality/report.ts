/** The violations that the legality check reports, and the views of a request that its rules read. Pure. */
import { defined } from '../../base/defined.ts';
import { isRecord } from '../../base/json.ts';
import type { ListedModel, ModelTraits } from '../model-traits.ts';

type Digit = '0' | '1' | '2' | '3' | '4' | '5' | '6' | '7' | '8' | '9';

/**
 * The id of a rule, `R01` to `R69`. `R49` replaced `R26`, and `R61` replaced `R42`. Some rules, or parts of them, are
 * not checked here, because a request alone does not show whether it keeps them:
 *
 * | rule | why |
 * | --- | --- |
 * | `R20`, `R21` | they compare with the model's earlier answers; the strict fake checks them |
 * | `R55` | whether a compaction block is the one that the API made: only the API knows its signature |
 * | `R56` | which fallbacks a model allows: the API lists them (`allowed_fallback_models`) |
 * | `R60` | which dated tool types a model accepts: only one pair was seen |
 * | `R61` | pages of documents: only a reader of PDF can count them |
 * | `R62` | whether a thread exists, was continued or has other fields: it is in the API's memory |
 * | `R66` | advisors of models other than Sonnet 5.5 and Fable 5.2: their pairs were not seen |
 * | `R67` | whose account and model made a thought: the API drops a thought that it cannot read, without an error |
 * | `R68` | when a cached prefix expires: a matter of time, and never refused |
 */
export type RuleId = `R${'0' | '1' | '2' | '3' | '4' | '5' | '6'}${Digit}`;

/**
 * One broken rule. `path`: the position, as the API writes it (`messages.3.content.0`). `fatal`: the API refuses the
 * request with status 400 (413 for `R35`).
 */
export interface Violation {
  readonly rule: RuleId;
  readonly path: string;
  readonly message: string;
  readonly fatal: boolean;
  /** `error.details.error_code` of the API's error; missing: the API's error has no such code. */
  readonly code?: string;
}

/** Adds a violation. `fatal` overrides the default of the rule. */
export type Report = (rule: RuleId, path: string, message: string, fatal?: boolean, code?: string) => void;

/** Decides whether assistant blocks at the end of a request are a paused turn that the request continues. */
export type PausedTurnTest = (blocks: readonly BlockView[]) => boolean;

/** Facts that the body does not contain. */
export interface LegalityOptions {
  /**
   * Decides whether the assistant messages at the end, whose blocks are joined, are a paused turn. Missing: they are a
   * paused turn if they have calls of the provider's own tools.
   */
  readonly isPausedTurn?: PausedTurnTest;
  /** Tokens of the context window, for a model whose name does not determine it. */
  readonly contextTokensMax?: number;
  /** True for a body of the token-counting endpoint, which does not require `max_tokens`. */
  readonly counting?: boolean;
  /** True for the parameters of one request of a batch. */
  readonly batch?: boolean;
  /**
   * The flags of `anthropic-beta`. Missing: they are not known, and every flag that a field needs counts as present.
   */
  readonly betas?: readonly string[];
  /** The value of `anthropic-version`. Before `2026-10-21`, `R49` to `R51` do not apply. Default: `2026-10-21`. */
  readonly version?: string;
  /**
   * Rows of the vendor's list of models. They override the table of `model-traits.ts`. Missing: only the table counts.
   */
  readonly listed?: readonly ListedModel[];
}

/** A content block as received: an object with a string `type`. Nothing else about it is checked. */
export type BlockView = Readonly<Record<string, unknown>> & { readonly type: string };

/** A message whose shape was checked. String content (`isText`) is shown as one text block, or none if it is empty. */
export interface MessageView {
  readonly index: number;
  readonly role: string;
  readonly isText: boolean;
  readonly blocks: readonly BlockView[];
  /** The message as received. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A request whose shape was checked: the input of every rule. */
export interface RequestView {
  readonly body: Readonly<Record<string, unknown>>;
  readonly traits: ModelTraits;
  readonly messages: readonly MessageView[];
  /**
   * Tools as received, without entries that are not objects, which were reported. `index`: the position in the request.
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

/**
 * Rules whose violations are warnings: they are known only from experience, and the API was not seen to refuse them.
 */
const WARNINGS: ReadonlySet<RuleId> = new Set<RuleId>([
  ...(['R06', 'R14', 'R15', 'R17', 'R39', 'R40', 'R41', 'R43', 'R44', 'R69'] as const),
]);

/** Violations kept for one request: as many as a person reads. A malformed request could have any number. */
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

/** True if a field has a value. An explicit null counts as missing. */
export function given<T>(value: T): value is NonNullable<T> {
  return value !== undefined && value !== null;
}

/** The member of an object; undefined if `value` is not an object. */
export function member(value: unknown, key: string): unknown {
  return isRecord(value) ? value[key] : undefined;
}

/** Reports a field or block that needs one of these beta flags, if the header names none of them. */
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
