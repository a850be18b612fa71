/** The package's version, read from its own package.json. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';

/** `major.minor.patch`. */
export const VERSION: string = readVersion();

function readVersion(): string {
  // The package.json is a different number of folders up from the source than from `dist`, so the nearest one that has
  // this package's name is used.
  for (const up of ['../../../package.json', '../../../../package.json']) {
    try {
      const text = readFileSync(new URL(up, import.meta.url), 'utf8');
      const found = z.object({ name: z.literal('troupe'), version: z.string() }).safeParse(JSON.parse(text));
      if (found.success) return found.data.version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return '0.0.0';
}
