/** The tools of W7: `add`, and one that notes when it returned. Plain values: this module is loaded in tool threads. */
import type { Tool } from '../../src/tools/tool.ts';
import { openChannel } from './channel.ts';

export { add } from '../../src/cli/bench/tools.ts';

const channel = openChannel();

/** Notes its return: with it the boundary opens at which a steer joins. */
export const stamp: Tool<Readonly<Record<string, unknown>>> = {
  name: 'stamp',
  description: 'Note the time.',
  input: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
  effect: 'pure',
  run: ({ n }) => {
    channel.tell({ kind: 'opened', n: Number(n) });
    return 'stamped';
  },
};
