/** A tool for tests: it adds two numbers, and is safe to run again. */
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
