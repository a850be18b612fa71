/**
 * Goal: the code removed for the measurement without publishing exists. Method: the built package, as the measurement
 * copies it.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { CUTS } from '../../bench/measure/untold.ts';

test.each(CUTS)('$file has the removed text in one place', ({ file, find }) => {
  const text = readFileSync(fileURLToPath(new URL(`../../dist/${file}`, import.meta.url)), 'utf8');
  expect(text.split(find)).toHaveLength(2);
});
