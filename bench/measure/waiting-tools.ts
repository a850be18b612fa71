/**
 * W11: sub-agents, each with one call of an async tool that waits 150 ms. `isolated` has the tool by URL, so that its
 * calls share the tool threads; `inline` has it as a value, on the thread of its sessions.
 */
import { workerUrl } from '../../src/threads/worker-url.ts';
import type { RunContext } from '../names.ts';
import type { Row } from '../report/figures.ts';
import { oneFamily } from '../shared-work.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import { add } from '../systems/waiting-tool.ts';
import { repeat } from './repeat.ts';

const CHILDREN = [100, 1_000];
const QUICK_CHILDREN = [100];
const REPETITIONS = 3;

/** W11. */
export function measureWaitingTools(context: RunContext): Promise<readonly Row[]> {
  const tools = { value: [add], url: workerUrl('../systems/waiting-tool', import.meta.url) };
  return withTroupe({ isolation: isolationOf(context), tools }, async (system) => {
    const rows: Row[] = [];
    for (const children of context.scale === 'quick' ? QUICK_CHILDREN : CHILDREN) {
      const name = `${children.toLocaleString('en-US')} children`;
      // The first repetition starts the threads.
      const [, ...repetitions] = await repeat(
        REPETITIONS + 1,
        (repetition) => oneFamily(system, children, repetition),
        `w${children}-`,
      );
      rows.push({ variant: name, repetitions });
    }
    return rows;
  });
}
