/** Fingerprints of texts that come from outside: texts with the same fingerprint are the same. Pure. */
import { createHash } from 'node:crypto';

/** Characters of a fingerprint: 132 bits, so that no two texts share one by chance. */
const CHARACTERS = 22;

/** The fingerprint of a text: the beginning of its SHA-256, in base64url. Fingerprints are stored in logs. */
export function fingerprint(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, CHARACTERS);
}
