/** A tool with a result so long that it is shortened, and kept whole in a file; each line begins with the given word. */
import { z } from 'zod';
import { type Tool, tool } from '../../src/index.ts';

export const long: Tool = tool({
  name: 'long',
  description: 'A long result.',
  effect: 'pure',
  input: z.object({ word: z.string() }),
  run: ({ word }) => Array.from({ length: 20_000 }, (_, line) => `${word} ${line}`).join('\n'),
});
