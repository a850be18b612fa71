/** Tools of the tests that are safe to run again. */
import { z } from 'zod';
import { type Tool, tool } from '../../src/index.ts';

/** Two numbers in, their sum out. */
export const add: Tool<{ a: number; b: number }> = tool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  effect: 'pure',
  run: ({ a, b }) => a + b,
});

/** A tool with a result so long that it is shortened, and kept whole in a file; each line begins with the given word. */
export const long: Tool = tool({
  name: 'long',
  description: 'A long result.',
  effect: 'pure',
  input: z.object({ word: z.string() }),
  run: ({ word }) => Array.from({ length: 20_000 }, (_, line) => `${word} ${line}`).join('\n'),
});
