/**
 * A tool thread: runs one call at a time, in the module of its tool. An uncaught error of a tool is attributed to its
 * call and does not end the thread (F54).
 *
 * Owns: the running call, the loaded modules. Does not own: a call's deadline; the pool aborts, and kills a thread that
 * does not obey.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { TOOL_NOISE_MAX } from '../../base/bounds.ts';
import { soon, systemClock } from '../../base/clock.ts';
import { CancelledError } from '../../base/errors.ts';
import { serveTasks, type TaskReply } from '../../threads/task-thread.ts';
import { findTools, loadModule, toolOf } from '../module-tools.ts';
import { nameAndMessage, thrownStack, thrownText } from '../result-text.ts';
import { type BatchSurroundings, type CallInThread, runThreadBatch } from './call.ts';
import type { ThreadAbort, ThreadNote, ThreadTask } from './protocol.ts';

type ModuleExports = Awaited<ReturnType<typeof loadModule>>;

const serve: (task: unknown) => Promise<TaskReply> = serveTasks((line) => {
  const calls = new AsyncLocalStorage<CallInThread>();
  let current: CallInThread | undefined;
  let resultBytesMax = 0;
  const noise = new Set<string>();
  const modules = new Map<string, ModuleExports>();
  const post = (note: ThreadNote): void => line.post(note);

  const onStray = (thrown: unknown): void => {
    // An error outside every call's context, in native callbacks, most likely comes from the running call.
    const call = calls.getStore() ?? current;
    if (call?.running === true) {
      const { content } = thrownText(thrown, resultBytesMax);
      post({ kind: 'fault', id: call.call.run.id, content, stack: thrownStack(thrown) });
      call.abort.abort(new CancelledError('the tool threw an uncaught error'));
      return;
    }
    const message = nameAndMessage(thrown);
    if (noise.has(message) || noise.size >= TOOL_NOISE_MAX) return;
    noise.add(message);
    post({ kind: 'noise', toolName: call?.call.run.toolName ?? '', message });
  };
  process.on('uncaughtException', onStray);
  process.on('unhandledRejection', onStray);

  line.onMessage((message) => {
    const { id, reason } = message as ThreadAbort;
    if (current?.call.run.id === id) current.abort.abort(new CancelledError(reason));
  });

  const load = async (url: string): Promise<ModuleExports> => {
    const exports = await loadModule(url);
    modules.set(url, exports);
    return exports;
  };
  const surroundings: BatchSurroundings = {
    find: ({ url, exportName }) => {
      const exports = modules.get(url);
      return exports === undefined
        ? load(url).then((loaded) => toolOf(loaded, exportName))
        : toolOf(exports, exportName);
    },
    within: (call, work) => {
      current = call;
      return calls.run(call, work);
    },
    clock: systemClock,
    soon,
    post,
  };

  return async (message) => {
    const task = message as ThreadTask;
    if (task.kind === 'describe') return findTools(await load(task.url), task.url);
    resultBytesMax = task.resultBytesMax;
    try {
      return await runThreadBatch(task, surroundings);
    } finally {
      current = undefined;
    }
  };
});
export default serve;
