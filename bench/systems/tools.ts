/** The tool of the benchmarks. A plain value: this module is loaded in tool threads, beside whichever build runs there. */
import type { Tool } from '../../src/tools/tool.ts';

/** Adds; as cheap as a tool can be. */
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
