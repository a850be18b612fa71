/**
 * The conditions under which the Messages API, version 2026-10-21, accepts a request, as a pure check. The check judges
 * the body of a request as it is sent (`system` as text or blocks, cache marks, `stream`) by the rules R01 to R69.
 *
 * Some rules depend on the model's name (`model-traits.ts`); these rules refuse nothing for a model that is not known.
 * Breaking a rule that is documented, or that the API was seen to enforce, is fatal. Rules known from experience give
 * warnings. `report.ts` lists the rules that cannot be checked with a request alone.
 *
 * | rules | file |
 * | --- | --- |
 * | R01 to R07 calls and results | `pairing.ts` |
 * | R08 to R12, R15, R38, R40, R50, R51, R69 contents and their order | `content.ts` |
 * | R13, R53 system messages | `system-messages.ts` |
 * | R14, R39 shape and fields | `shape.ts`, `fields.ts` |
 * | R16 to R19, R43 cache marks | `cache.ts` |
 * | R21 (its setting), R22 to R25, R27, R45 to R47, R59 thinking and effort | `thinking.ts` |
 * | R28, R41, R48 tool choice | `tool-choice.ts` |
 * | R29 to R33 client tools | `tools.ts`, `schema.ts` |
 * | R34, R36 size and encoding | `size.ts` |
 * | R35, R36, R44 text and headers | here |
 * | R37, R52 server tools | `server-tools.ts` |
 * | R49, R63 to R65 plain settings, batches | `options.ts` |
 * | R54 tools that are added or removed | `tool-changes.ts` |
 * | R55 compaction | `compaction.ts` |
 * | R56 fallbacks | `fallbacks.ts` |
 * | R57, R58 structured outputs | `structured-output.ts`, `strict-schema.ts` |
 * | R60, R66 tools that the API defines | `tool-types.ts` |
 * | R61 images | `media.ts` |
 * | R62 threads | `threads.ts` |
 */
import { REQUEST_BYTES_MAX } from '../../base/bounds.ts';
import { checkCacheMarks } from './cache.ts';
import { checkCompaction } from './compaction.ts';
import { checkContent } from './content.ts';
import { checkFallbacks } from './fallbacks.ts';
import { checkMedia } from './media.ts';
import { checkOptions } from './options.ts';
import { checkPairing } from './pairing.ts';
import { type LegalityOptions, type Violation, violationList } from './report.ts';
import { checkServerTools } from './server-tools.ts';
import { viewRequest } from './shape.ts';
import { checkSize } from './size.ts';
import { checkStructuredOutput } from './structured-output.ts';
import { checkSystemMessages } from './system-messages.ts';
import { checkEffort, checkThinking } from './thinking.ts';
import { checkThread } from './threads.ts';
import { checkToolChanges } from './tool-changes.ts';
import { checkToolChoice } from './tool-choice.ts';
import { checkToolTypes } from './tool-types.ts';
import { checkTools } from './tools.ts';

export type { BlockView, LegalityOptions, PausedTurnTest, RuleId, Violation } from './report.ts';

/**
 * The violations of a body, grouped by subject, at most 100; empty if the body is legal. Never throws.
 */
export function checkRequest(body: unknown, options: LegalityOptions = {}): readonly Violation[] {
  const { list, report } = violationList();
  const view = viewRequest(body, options, report);
  if (view === undefined) return list;
  checkPairing(view, report);
  checkServerTools(view, report);
  checkContent(view, options.isPausedTurn, report);
  checkSystemMessages(view, report);
  checkMedia(view, report);
  checkThread(view, checkCacheMarks(view, report), report);
  checkThinking(view, report);
  checkEffort(view, report);
  checkTools(view, report);
  checkToolTypes(view, report);
  checkToolChanges(view, report);
  checkToolChoice(view, report);
  checkStructuredOutput(view, options.isPausedTurn, report);
  checkCompaction(view, report);
  checkFallbacks(view, report);
  checkOptions(view, report);
  checkSize(view, options.contextTokensMax, report);
  return list;
}

/** A request parsed from its text, and its violations. `body` is undefined if the text is too long or not JSON. */
export interface ReadRequest {
  readonly body: unknown;
  readonly violations: readonly Violation[];
}

/** Parses the text of a request and checks it: R35 and R36 on the text, the other rules on the body. Never throws. */
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

/** The violations of a request's text: those of `checkRequest`, R35 (size) and R36 (strict JSON). Never throws. */
export function checkRequestText(text: string, options: LegalityOptions = {}): readonly Violation[] {
  return readRequest(text, options).violations;
}

/** The form of a beta flag: words and, at the end, the date on which the beta began. */
const BETA_FLAG = /^[a-z0-9]+(-[a-z0-9]+)*-\d{4}-?\d{2}-?\d{2}$/;

/**
 * Checks R44: the headers that a request needs. `headers`: by name in lower case. A missing or wrong
 * `anthropic-version` or `content-type` is fatal, because the documentation requires both. A malformed beta flag is a
 * warning; whether a flag exists is not checked, because the flags change too often. Credentials are not checked (the
 * API answers 401, not 400).
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
  for (const flag of betasOf(headers)) {
    if (BETA_FLAG.test(flag)) continue;
    report('R44', 'anthropic-beta', `Unexpected value(s) \`${flag}\` for the \`anthropic-beta\` header.`);
  }
  return list;
}

/** The flags of the `anthropic-beta` headers. `headers`: by name in lower case. */
export function betasOf(headers: Readonly<Record<string, string | readonly string[] | undefined>>): readonly string[] {
  const values = [headers['anthropic-beta'] ?? []].flat().flatMap((value) => value.split(','));
  return values.map((each) => each.trim());
}

/** The violations for which the API would refuse the request. */
export function fatalOf(violations: readonly Violation[]): readonly Violation[] {
  return violations.filter((violation) => violation.fatal);
}
