/**
 * Images that simulated persons send: just long enough to be stored apart from the log (`MEDIA_CHARACTERS_MIN`). There
 * are few images, so that a session receives the same image again, and several sessions receive the same image.
 */
import { createHash } from 'node:crypto';
import { MEDIA_CHARACTERS_MIN } from '../../../base/bounds.ts';
import type { ResultBlock, UserContent } from '../../../base/messages.ts';
import type { SeededRandom } from '../seeded-random.ts';

const IMAGES = 3;
/** The first bytes of a PNG of 64 by 64 pixels: its signature and its header. */
const PNG_HEAD = Buffer.from('89504e470d0a1a0a0000000d4948445200000040000000400802000000', 'hex');

/** The base64 of one of the images. */
export function drawImage(random: SeededRandom): string {
  const outputLength = Math.ceil((MEDIA_CHARACTERS_MIN * 3) / 4);
  const pixels = createHash('shake256', { outputLength })
    .update(`image ${random.between(1, IMAGES)}`)
    .digest();
  return Buffer.concat([PNG_HEAD, pixels]).toString('base64');
}

/** The content of a message with this text, and with this image if there is one. */
export function contentOf(text: string, image: string | undefined): UserContent {
  return image === undefined ? text : blocksOf(text, image);
}

/** A text and an image behind it. */
export function blocksOf(text: string, image: string): readonly ResultBlock[] {
  return [
    { type: 'text', text },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } },
  ];
}
