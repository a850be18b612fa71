/**
 * `check-release.mjs v1.2.3`: exits 1 unless the tag is the version of package.json, CHANGELOG.md has a section for it,
 * and package.json names the repository, which the provenance of the registry needs.
 */
import { readFileSync } from 'node:fs';

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const [tag = ''] = process.argv.slice(2);
const { version, repository } = JSON.parse(read('package.json'));
const sections = [...read('CHANGELOG.md').matchAll(/^## (\S+)/gm)].map(([, name]) => name);
const faults = [
  ...(tag === `v${version}` ? [] : [`the tag is ${tag}, and package.json has version ${version}`]),
  ...(sections.includes(version) ? [] : [`CHANGELOG.md has no section "## ${version}"`]),
  ...(repository === undefined
    ? ['package.json has no "repository": set it to the address of the repository that publishes (provenance needs it)']
    : []),
];
for (const fault of faults) process.stderr.write(`check-release: ${fault}\n`);
if (faults.length > 0) process.exit(1);
