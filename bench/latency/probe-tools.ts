/** The tools of W7: `add`, and `stamp`, which notes its return. Tool threads load this module. */
import type { Tool } from '../../src/tools/tool.ts';
import { openChannel } from './channel.ts';

export { add } from '../../src/cli/bench/tools.ts';

const channel = openChannel();

/** Notes its return, which opens the boundary at which a steer joins. */
export const stamp: Tool<Readonly<Record<string, unknown>>> = {
  name: 'stamp',
  description: 'Note the time.',
  input: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
  effect: 'pure',
  run: ({ n }) => {
    channel.publish({ kind: 'opened', n: Number(n) });
    return 'stamped';
  },
};
