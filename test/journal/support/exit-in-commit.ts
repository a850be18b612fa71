/**
 * A process whose thread, or which itself, is ended while the thread is inside a commit: as it is told, by `terminate`, by
 * `process.exit` or by an error nobody catches. It kills itself where the thread is not gone.
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
