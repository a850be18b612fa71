/**
 * Writes `exports` and `bin` of package.json from package-entries.mjs. A test compares them. Prints nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROGRAM, packageExports } from './package-entries.mjs';

const path = join(dirname(fileURLToPath(import.meta.url)), '..', 'package.json');
const description = JSON.parse(readFileSync(path, 'utf8'));
description.exports = packageExports();
description.bin = { troupe: `./dist/${PROGRAM.name}.js` };
writeFileSync(path, `${JSON.stringify(description, null, 2)}\n`);
