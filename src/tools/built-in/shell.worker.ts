/** Entry of the shell thread: runs the calls of `bash` tools behind an endpoint. See `shell-thread.ts`. */
import { decodeError } from '../../threads/error-codec.ts';
import { serveThread } from '../../threads/thread.ts';
import { answerCall, shellPool } from './shell-calls.ts';
import type { ShellPool } from './shell-pool.ts';
import type { ShellThreadAnswer, ShellThreadCall, ShellThreadNotes } from './shell-thread.ts';

const { endpoint } = serveThread({});
const pools = new Map<number, ShellPool>();
const calls = new Map<number, AbortController>();

endpoint.handle('run', async (payload): Promise<ShellThreadAnswer> => {
  const { id, tool, settings, input, ...context } = payload as ShellThreadCall;
  const pool = pools.get(tool) ?? shellPool(settings);
  pools.set(tool, pool);
  const controller = new AbortController();
  calls.set(id, controller);
  try {
    const progress = (data: unknown): void => endpoint.notify('progress', { id, data });
    const result = await answerCall(pool, input, { ...context, signal: controller.signal, progress });
    return { result, cwd: pool.directoryOf(context.session) };
  } finally {
    calls.delete(id);
  }
});
endpoint.handle('abort', (payload) => {
  const { id, reason } = payload as ShellThreadNotes['abort'];
  calls.get(id)?.abort(decodeError(reason));
});
endpoint.handle('close', async (tool) => pools.get(tool as number)?.close());
