import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startChild } from '../support/children.ts';
import { SEED } from '../support/seed.ts';
import { makeDamageTemplate } from './support/damage.ts';
import { temporaryDirectory } from './support/stores.ts';

const TRIALS = 100;

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

test(`F08: ${TRIALS} damaged files are refused unchanged, or each read is right or refused; no process dies`, async () => {
  const template = join(directory, 'template');
  await mkdir(template);
  await writeFile(join(template, 'contents.json'), JSON.stringify(await makeDamageTemplate(template)));
  const work = join(directory, 'work');
  const child = startChild(new URL('./support/damage-trials.ts', import.meta.url), [
    template,
    work,
    String(SEED),
    String(TRIALS),
  ]);
  const code = await child.ended();
  const lines = child.output().trimEnd().split('\n');
  // The last line names the seed of the trial that ended the process; TROUPE_SEED replays it.
  expect(code, `seed ${SEED}: ${lines.at(-1)}`).toBe(0);
  expect(lines.filter((line) => line.includes('WRONG'))).toEqual([]);
  expect(lines.length).toBeGreaterThan(TRIALS);
  for (const outcome of ['refused', 'read error', 'whole']) {
    expect(
      lines.some((line) => line.endsWith(`: ${outcome}`)),
      outcome,
    ).toBe(true);
  }
});
