/** The package's version, read from its own package.json. */
import { readFileSync } from 'node:fs';
import { isRecord } from '../../base/json.ts';

/** `major.minor.patch`. */
export const VERSION: string = readVersion();

function readVersion(): string {
  // The package.json is a different number of folders up from the source than from `dist`. So the nearest package.json
  // with this package's name is used.
  for (const up of ['../../../package.json', '../../../../package.json']) {
    try {
      const text = readFileSync(new URL(up, import.meta.url), 'utf8');
      // Checked by hand: the validation library loads slowly, and `troupe --version` needs nothing else of that
      // library.
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
