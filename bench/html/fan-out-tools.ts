/** The tool of the drawn fan-out: adds after a delay. */
import { setTimeout as delay } from 'node:timers/promises';
import { add as quickAdd } from '../../src/cli/bench/tools.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { latencyOf, TOOL_MS } from './fan-out-latency.ts';

/** See the head of the file. */
export const add: Tool<Readonly<Record<string, unknown>>> = {
  ...quickAdd,
  async run({ a, b }) {
    await delay(latencyOf(Number(a), TOOL_MS));
    return Number(a) + Number(b);
  },
};
