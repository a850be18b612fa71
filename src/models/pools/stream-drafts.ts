/** Makes the next draft of a running call: its text and tokens since the previous draft. */
import { DRAFT_CHARACTERS_MAX } from '../../base/bounds.ts';
import type { StreamDraft } from '../pool.ts';
import type { ModelDelta } from '../provider.ts';
import { readUsage } from '../usage.ts';
import type { StreamedText } from './streamed-text.ts';

/** The part of a call's text and tokens that its drafts contain. */
export interface DraftedPart {
  /** UTF-16 units of the call's text in its drafts, from the beginning of the text. */
  characters: number;
  /** True once a draft said that text is missing. */
  isCut: boolean;
  /** The tokens that the provider reported last, unchecked. */
  usage: unknown;
  /** True if no draft contains the tokens of `usage` yet. */
  isUsageNew: boolean;
}

/**
 * The text and tokens of a call since its previous draft; undefined if nothing is new. Updates `drafted` to include
 * them. `more`: pieces that come after those in `streamed`.
 */
export function nextDraft(
  streamed: StreamedText,
  drafted: DraftedPart,
  more: readonly ModelDelta[] = [],
): StreamDraft | undefined {
  const pieces = [...streamed.piecesBetween(drafted.characters, DRAFT_CHARACTERS_MAX)];
  let end = Math.max(drafted.characters, Math.min(streamed.characters, DRAFT_CHARACTERS_MAX));
  let isCut = streamed.isDropped || streamed.characters > DRAFT_CHARACTERS_MAX;
  for (const { type, text } of more) {
    const kept = isCut ? '' : text.slice(0, DRAFT_CHARACTERS_MAX - end);
    if (kept !== '') pieces.push({ type, text: kept });
    end += kept.length;
    if (kept.length < text.length) isCut = true;
  }
  const isNewlyCut = isCut && !drafted.isCut;
  if (pieces.length === 0 && !isNewlyCut && !drafted.isUsageNew) return undefined;
  const usage = drafted.isUsageNew ? readUsage(drafted.usage) : undefined;
  drafted.characters = end;
  drafted.isCut = isCut;
  drafted.isUsageNew = false;
  return { pieces, ...(isNewlyCut ? { isCut: true } : {}), ...(usage === undefined ? {} : { usage }) };
}
