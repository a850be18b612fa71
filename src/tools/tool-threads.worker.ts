/**
 * A tool thread: one call at a time, in the module its tool lives in. What a tool throws where nobody catches it is tied to
 * its call and does not end the thread (F54).
 *
 * Owns: the call that runs. Does not own: its deadline; the pool aborts, and kills the thread that does not obey.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { TOOL_NOISE_MAX } from '../base/bounds.ts';
import { systemClock } from '../base/clock.ts';
import { CancelledError } from '../base/errors.ts';
import { serveTasks, type TaskLine, type TaskReply } from '../threads/task-thread.ts';
import { findTools, loadModule, toolOf } from './module-tools.ts';
import { nameAndMessage, thrownText } from './result-text.ts';
import { runThreadCall } from './thread-call.ts';
import type { ThreadAbort, ThreadNote, ThreadTask } from './thread-protocol.ts';
import type { ToolOutcome } from './tool.ts';

type RunTask = Extract<ThreadTask, { kind: 'run' }>;

/** A call, for as long as anything it started is alive. */
interface Call {
  readonly task: RunTask;
  readonly controller: AbortController;
  /** False once its outcome is given: later errors are noise. */
  running: boolean;
}

const serve: (task: unknown) => Promise<TaskReply> = serveTasks((line) => {
  const calls = new AsyncLocalStorage<Call>();
  let current: Call | undefined;
  const noise = new Set<string>();
  const post = (note: ThreadNote): void => line.post(note);

  const onStray = (thrown: unknown): void => {
    // An error out of every call's context, in native callbacks, is most likely of the call that runs.
    const call = calls.getStore() ?? current;
    if (call?.running === true) {
      const { content } = thrownText(thrown, call.task.resultBytesMax);
      post({ kind: 'fault', id: call.task.run.id, content });
      call.controller.abort(new CancelledError('the tool threw where nobody caught it'));
      return;
    }
    const message = nameAndMessage(thrown);
    if (noise.has(message) || noise.size >= TOOL_NOISE_MAX) return;
    noise.add(message);
    post({ kind: 'noise', toolName: call?.task.run.toolName ?? '', message });
  };
  process.on('uncaughtException', onStray);
  process.on('unhandledRejection', onStray);

  line.onMessage((message) => {
    const { id, reason } = message as ThreadAbort;
    if (current?.task.run.id === id) current.controller.abort(new CancelledError(reason));
  });

  return async (message) => {
    const task = message as ThreadTask;
    if (task.kind === 'describe') return findTools(await loadModule(task.url), task.url);
    const call: Call = { task, controller: new AbortController(), running: true };
    current = call;
    try {
      return await calls.run(call, () => runCall(call, line));
    } finally {
      call.running = false;
      current = undefined;
    }
  };
});
export default serve;

async function runCall({ task, controller }: Call, line: TaskLine): Promise<ToolOutcome> {
  const tool = toolOf(await loadModule(task.url), task.exportName);
  const post = (note: ThreadNote): void => line.post(note);
  return runThreadCall(tool, task, { signal: controller.signal, clock: systemClock, post });
}
