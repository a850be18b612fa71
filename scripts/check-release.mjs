/**
 * `check-release.mjs v1.2.3`: exits 1 unless the tag is the version of package.json and CHANGELOG.md has a section for it.
 */
import { readFileSync } from 'node:fs';

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const [tag = ''] = process.argv.slice(2);
const { version } = JSON.parse(read('package.json'));
const sections = [...read('CHANGELOG.md').matchAll(/^## (\S+)/gm)].map(([, name]) => name);
const faults = [
  ...(tag === `v${version}` ? [] : [`the tag is ${tag}, and package.json has version ${version}`]),
  ...(sections.includes(version) ? [] : [`CHANGELOG.md has no section "## ${version}"`]),
];
for (const fault of faults) process.stderr.write(`check-release: ${fault}\n`);
if (faults.length > 0) process.exit(1);
