/** Rules for size and encoding: R34, and the part of R36 that parsed strings show. Pure. */
import { BYTES_PER_TOKEN } from '../../base/bounds.ts';
import { isRecord, wellFormed } from '../../base/json.ts';
import type { Report, RequestView } from './report.ts';

/** Levels of nesting that are visited; deeper values are not counted. */
const DEPTH_MAX = 200;

/**
 * Reports R34 and, for strings with half a surrogate pair, R36. For R34 a character counts as a quarter of a token.
 * This count is usually too low, so a legal request is not reported. `contextTokensMax` overrides the model's known
 * window.
 */
export function checkSize(view: RequestView, contextTokensMax: number | undefined, report: Report): void {
  const found = { characters: 0, loneAt: undefined as string | undefined };
  walk(view.body, '', 0, found);
  if (found.loneAt !== undefined) {
    const text = `no low surrogate in string: line 1 column ${found.characters}`;
    report('R36', found.loneAt, `The request body is not valid JSON: ${text}`);
  }
  const windowTokens = contextTokensMax ?? view.traits.contextTokensMax;
  if (windowTokens === undefined) return;
  const tokens = Math.ceil(found.characters / BYTES_PER_TOKEN);
  if (tokens > windowTokens) {
    report('R34', 'messages', `prompt is too long: ${tokens} tokens > ${windowTokens} maximum`);
    return;
  }
  const outputTokens = view.body['max_tokens'];
  if (view.traits.windowHoldsOutput && typeof outputTokens === 'number' && tokens + outputTokens > windowTokens) {
    const sum = `${tokens} + ${outputTokens} > ${windowTokens}`;
    report('R34', 'max_tokens', `input length and \`max_tokens\` exceed context limit: ${sum}`);
  }
}

function walk(
  value: unknown,
  path: string,
  depth: number,
  found: { characters: number; loneAt: string | undefined },
): void {
  if (typeof value === 'string') {
    found.characters += value.length;
    if (found.loneAt === undefined && wellFormed(value) !== value) found.loneAt = path;
  } else if (depth > DEPTH_MAX) {
    return;
  } else if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      walk(value[index], joined(path, index), depth + 1, found);
    }
  } else if (isRecord(value)) {
    // Encoded images and files are not counted, because their length says little about their tokens.
    const isFile = value['type'] === 'base64';
    for (const key of Object.keys(value)) {
      if (found.loneAt === undefined && wellFormed(key) !== key) found.loneAt = path;
      if (!(isFile && key === 'data')) walk(value[key], joined(path, key), depth + 1, found);
    }
  }
}

function joined(path: string, key: string | number): string {
  return path === '' ? String(key) : `${path}.${key}`;
}
