/** The reports of the legality check, and the views of a request that its rules read. Types and the collector; pure. */
import type { ModelTraits } from './legality-models.ts';

type Digit = '0' | '1' | '2' | '3' | '4' | '5' | '6' | '7' | '8' | '9';

/** A row of the rule table, `R01` to `R44`. */
export type RuleId = `R${'0' | '1' | '2' | '3' | '4'}${Digit}`;

/**
 * One broken rule. `path` is dotted as the API writes it (`messages.3.content.0`); `fatal`: the API answers 400 (413
 * for R35).
 */
export interface Violation {
  readonly rule: RuleId;
  readonly path: string;
  readonly message: string;
  readonly fatal: boolean;
}

/** Adds a violation; `fatal` overrides the table's entry for the rule. */
export type Report = (rule: RuleId, path: string, message: string, fatal?: boolean) => void;

/** A content block as it came: an object with a string `type`. Nothing else is certain. */
export type BlockView = Readonly<Record<string, unknown>> & { readonly type: string };

/** A message whose shape was checked. A string content is one text block, or none if it is empty; `isText` marks it. */
export interface MessageView {
  readonly index: number;
  readonly role: string;
  readonly isText: boolean;
  readonly blocks: readonly BlockView[];
}

/** A request whose shape was checked: the input of every rule. */
export interface RequestView {
  readonly body: Readonly<Record<string, unknown>>;
  readonly traits: ModelTraits;
  readonly messages: readonly MessageView[];
  /**
   * Tools as they came. Entries that are no objects were reported and left out; `index` is the position in the request.
   */
  readonly tools: readonly { readonly index: number; readonly tool: Readonly<Record<string, unknown>> }[];
  /** `system` as blocks. */
  readonly system: readonly BlockView[];
}

/** Rules known only from experience: they are warnings until the API has been seen to refuse a request for them. */
const WARNINGS: ReadonlySet<RuleId> = new Set<RuleId>([
  ...(['R06', 'R14', 'R15', 'R17', 'R27'] as const),
  ...(['R39', 'R40', 'R41', 'R42', 'R43', 'R44'] as const),
]);

/** Violations kept per request: enough for a person, and a bound for a broken request. */
const VIOLATIONS_MAX = 100;

/** An empty list and the function that fills it, with at most 100 entries. */
export function violationList(): { readonly list: readonly Violation[]; readonly report: Report } {
  const list: Violation[] = [];
  const report: Report = (rule, path, message, fatal = !WARNINGS.has(rule)) => {
    if (list.length < VIOLATIONS_MAX) list.push({ rule, path, message, fatal });
  };
  return { list, report };
}

/** The path of a block. */
export function blockPath(message: MessageView, block: number): string {
  return message.isText ? `messages.${message.index}.content` : `messages.${message.index}.content.${block}`;
}
