/**
 * Entry of a tool process: runs one call as a tool thread would, and reports to the pool in the parent process.
 * `process-pool.ts` ends the process. If the parent dies, the watcher (K3 of `process-pool.ts`) kills the process.
 */
import { TroupeError } from '../../base/errors.ts';
import { encodeError } from '../../threads/error-codec.ts';
import { BatchCursor } from '../batch-cursor.ts';
import type { FromProcess, ToProcess } from './process-pool.ts';
import { serveTools } from './tool-host.ts';

/** The cursor of the call. It also sends its marks to the pool, because the pool shares no memory with this process. */
class ReportedCursor extends BatchCursor {
  override markLoading(at: number, ms: number): void {
    super.markLoading(at, ms);
    send({ mark: 'loading' });
  }
  override markRunning(at: number, ms: number): void {
    super.markRunning(at, ms);
    send({ mark: 'running' });
  }
  override markAborted(at: number): void {
    super.markAborted(at);
    send({ mark: 'aborted' });
  }
}

function send(message: FromProcess): void {
  if (process.send === undefined) throw new TroupeError('internal', 'a tool process was started without a channel');
  process.send(message);
}

let onOrder: (order: unknown) => void = () => undefined;
const line = {
  post: (note: unknown): void => send({ note }),
  onMessage: (listener: (order: unknown) => void): void => {
    onOrder = listener;
  },
};
const handle = serveTools(line, (memory) => new ReportedCursor(memory));

async function answer(task: NonNullable<ToProcess['task']>): Promise<void> {
  try {
    const local = task.kind === 'run' ? { ...task, cursor: BatchCursor.before(task.calls.length).memory } : task;
    send({ reply: { value: await handle(local) } });
  } catch (error) {
    send({ reply: { error: encodeError(error) } });
  }
}

process.on('message', (message) => {
  const { task, order } = message as ToProcess;
  if (task !== undefined) void answer(task);
  else onOrder(order);
});
send({ ready: true });
