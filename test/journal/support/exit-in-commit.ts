/**
 * A process that ends its thread or itself while the thread is inside a commit. The argument says how: `terminate`,
 * `process.exit` or an uncaught error. It kills itself if the thread is not gone.
 */
import { startHeldCommits } from './held-commit.ts';

const [directory = '', how = ''] = process.argv.slice(2);
const { thread, gate, beginCommit } = await startHeldCommits(directory);
let isOver = false;
thread.onExit(() => {
  isOver = true;
});
await beginCommit(how);
if (how === 'terminate') {
  await thread.terminate();
  if (!isOver || gate.enter()) process.kill(process.pid, 'SIGKILL');
  process.exit(0);
}
if (how === 'exit') process.exit(143);
setImmediate(() => {
  throw new Error('nobody catches this');
});
