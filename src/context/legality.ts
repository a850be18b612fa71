/**
 * The rules of the Messages API as a pure check: the conditions under which the API accepts a request. It judges the
 * wire body (`system` as text or blocks, cache marks, `stream`) by the rule table R01 to R44. Model-dependent rules go
 * by the model's name. Rules that are documented or were seen in the wild are fatal; those known from experience warn.
 * R20 and R21 need the model's earlier answers, so the code that gave those answers checks them.
 */
import { REQUEST_BYTES_MAX } from '../base/bounds.ts';
import { checkCacheMarks } from './legality-cache.ts';
import { checkContent, type PausedTurnTest } from './legality-content.ts';
import { checkPairing } from './legality-pairing.ts';
import { type Violation, violationList } from './legality-report.ts';
import { viewRequest } from './legality-shape.ts';
import { checkSize } from './legality-size.ts';
import { checkThinking } from './legality-thinking.ts';
import { checkTools } from './legality-tools.ts';

export type { PausedTurnTest } from './legality-content.ts';
export type { BlockView, RuleId, Violation } from './legality-report.ts';

/** Facts that the body does not contain. */
export interface LegalityOptions {
  /**
   * Decides whether the content of the last message, an assistant's, is a paused turn. All assistant messages at the
   * end are joined. Missing: a content with calls of the provider's own tools counts as paused (R12, R38).
   */
  readonly isPausedTurn?: PausedTurnTest;
  /** Tokens of the context window, for a model whose name does not determine it (R34). */
  readonly contextTokensMax?: number;
  /** A body of the token-counting endpoint: `max_tokens` is not required. */
  readonly counting?: boolean;
}

/** Every rule a body breaks, in the order of the rules' subjects, at most 100; empty if it is legal. Never throws. */
export function checkRequest(body: unknown, options: LegalityOptions = {}): readonly Violation[] {
  const { list, report } = violationList();
  const view = viewRequest(body, options.counting ?? false, report);
  if (view === undefined) return list;
  checkPairing(view, report);
  checkContent(view, options.isPausedTurn, report);
  checkCacheMarks(view, report);
  checkThinking(view, report);
  checkTools(view, report);
  checkSize(view, options.contextTokensMax, report);
  return list;
}

/** A request parsed from its text, and its violations. `body` is undefined if the text is too long or not JSON. */
export interface ReadRequest {
  readonly body: unknown;
  readonly violations: readonly Violation[];
}

/** Parses the text of a request and checks it: R35 and R36 on the text, the others on its content. Never throws. */
export function readRequest(text: string, options: LegalityOptions = {}): ReadRequest {
  const { list, report } = violationList();
  const bytes = Buffer.byteLength(text);
  if (bytes > REQUEST_BYTES_MAX) {
    report('R35', '', `Request exceeds the maximum size of ${REQUEST_BYTES_MAX} bytes`);
    return { body: undefined, violations: list };
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    report('R36', '', `The request body is not valid JSON: ${reason}`);
    return { body: undefined, violations: list };
  }
  return { body, violations: checkRequest(body, options) };
}

/** `checkRequest` for a body that is still text, with R35 (size) and R36 (strict JSON). */
export function checkRequestText(text: string, options: LegalityOptions = {}): readonly Violation[] {
  return readRequest(text, options).violations;
}

/** A beta's name ends with the day it began. */
const BETA_FLAG = /^[a-z0-9]+(-[a-z0-9]+)*-\d{4}-?\d{2}-?\d{2}$/;

/**
 * R44: the headers a request needs, names in lower case. A missing header is fatal: the documentation requires both. An
 * impossible beta flag is a warning; the set of existing flags changes too often to be checked. Credentials are not a
 * rule of legality (401, not 400).
 */
export function checkHeaders(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): readonly Violation[] {
  const { list, report } = violationList();
  const version = headers['anthropic-version'];
  if (version === undefined) {
    report('R44', 'anthropic-version', 'anthropic-version: header is required', true);
  } else if (!/^\d{4}-\d{2}-\d{2}$/.test(String(version))) {
    const text = `anthropic-version: "${String(version)}" is not a valid version`;
    report('R44', 'anthropic-version', text, true);
  }
  if (!String(headers['content-type'] ?? '').startsWith('application/json')) {
    const text = 'content-type: must be application/json';
    report('R44', 'content-type', text, true);
  }
  const flags = [headers['anthropic-beta'] ?? []].flat().flatMap((value) => value.split(','));
  for (const flag of flags.map((each) => each.trim())) {
    if (BETA_FLAG.test(flag)) continue;
    report('R44', 'anthropic-beta', `Unexpected value(s) \`${flag}\` for the \`anthropic-beta\` header.`);
  }
  return list;
}

/** The violations for which the API would refuse the request. */
export function fatalOf(violations: readonly Violation[]): readonly Violation[] {
  return violations.filter((violation) => violation.fatal);
}
