/** The tool of W11: `add`, which waits as for a slow service. Tool threads load this module. */
import { setTimeout as wait } from 'node:timers/promises';
import { add as prompt } from '../../src/cli/bench/tools.ts';
import type { Tool } from '../../src/tools/tool.ts';

/** Milliseconds that a call waits. */
const WAIT_MS = 150;

/** Adds two integers, after a wait. */
export const add: Tool<Readonly<Record<string, unknown>>> = {
  ...prompt,
  run: async (input, context) => {
    await wait(WAIT_MS);
    return prompt.run(input, context);
  },
};
