/**
 * `npm run bench:html [from] [to]` writes the HTML report of a results file. The default files are `bench/results.json`
 * and `bench/report.html`.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readResults } from '../report/results-file.ts';
import { pageOf } from './page.ts';

const [
  from = new URL('../results.json', import.meta.url),
  to = fileURLToPath(new URL('../report.html', import.meta.url)),
] = process.argv.slice(2);
writeFileSync(to, pageOf(readResults(from)));
console.log(`written: ${to}`);
