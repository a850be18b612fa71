/** Texts that hardly compress. The same seed gives the same text. */
import { createHash } from 'node:crypto';

/** A text of this many characters of base 64. */
export function noiseText(characters: number, seed: string | number = ''): string {
  const outputLength = Math.ceil((characters * 3) / 4) + 1;
  return createHash('shake256', { outputLength }).update(String(seed)).digest('base64').slice(0, characters);
}
