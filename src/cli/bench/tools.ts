/** The tool of `troupe bench`. */
import type { Tool } from '../../tools/tool.ts';

/** Adds two integers: the cheapest possible tool. */
export const add: Tool<Readonly<Record<string, unknown>>> = {
  name: 'add',
  description: 'Add two integers.',
  input: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
  },
  effect: 'pure',
  run: ({ a, b }) => Number(a) + Number(b),
};
