/**
 * The package's version. This code runs only from the sources: `scripts/build.mjs` replaces this file by a constant.
 */
import { readFileSync } from 'node:fs';
import { isRecord } from '../../base/json.ts';

/** `major.minor.patch`. */
export const VERSION: string = readVersion();

function readVersion(): string {
  // The nearest package.json with this package's name is used.
  for (const up of ['../../../package.json', '../../../../package.json']) {
    try {
      const text = readFileSync(new URL(up, import.meta.url), 'utf8');
      // Checked by hand, because the validation library loads slowly and nothing else here needs it.
      const found: unknown = JSON.parse(text);
      if (isRecord(found) && found['name'] === 'troupe' && typeof found['version'] === 'string') {
        return found['version'];
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return '0.0.0';
}
