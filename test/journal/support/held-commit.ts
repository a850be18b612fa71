/** The starting side of `held-commit.worker.ts`. */
import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import { ExitLatch } from '../../../src/threads/exit-latch.ts';
import { startThread, type Thread } from '../../../src/threads/thread.ts';
import { workerUrl } from '../../../src/threads/worker-url.ts';

/** A thread with the store in `directory` open; `beginCommit` resolves when the thread is inside a commit. */
export async function startHeldCommits(
  directory: string,
): Promise<{ readonly thread: Thread; readonly gate: ExitLatch; beginCommit(text: string): Promise<void> }> {
  const gate = new ExitLatch();
  const { port1, port2 } = new MessageChannel();
  port1.unref();
  const thread = startThread(workerUrl('./held-commit.worker', import.meta.url), {
    name: 'held commits',
    workerData: { directory, memory: gate.memory, port: port2 },
    transfer: [port2],
    gate,
  });
  await thread.endpoint.call('opened', 0);
  return {
    thread,
    gate,
    async beginCommit(text) {
      const inside = once(port1, 'message');
      // The call may never be answered, because the test ends the thread.
      thread.endpoint.call('commit', text).catch(() => undefined);
      await inside;
    },
  };
}
