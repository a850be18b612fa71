/**
 * Runs calls in the modules of their tools, on a tool thread or in a tool process. An uncaught error of a tool is
 * attributed to its call and does not end the thread (F54).
 *
 * Owns: the shift that runs (see `batch.ts`), the loaded modules. Does not own: deadlines of calls. The pool aborts
 * late calls, and ends a thread whose event loop does not answer.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { TOOL_NOISE_MAX } from '../../base/bounds.ts';
import { soon, systemClock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError } from '../../base/errors.ts';
import type { TaskLine } from '../../threads/task-thread.ts';
import { importModule, type ModuleExports } from '../../threads/user-modules.ts';
import { findTools, makeTool, toolOf } from '../module-tools.ts';
import { threadLane } from '../open-run.ts';
import { nameAndMessage, thrownStack, thrownText } from '../result-text.ts';
import { mayRetryAfter } from '../retry.ts';

import type { AnyTool } from '../tool.ts';
import { type CallInThread, ShiftInThread, type ShiftSurroundings } from './call.ts';
import type { ThreadCall, ThreadNote, ThreadOrder, ThreadTask } from './protocol.ts';

/** Returns the handler of tasks; see the head of the file. `cursorOf`: see `ShiftSurroundings`. */
export function serveTools(
  line: TaskLine,
  cursorOf?: ShiftSurroundings['cursorOf'],
): (task: unknown) => Promise<unknown> {
  const calls = new AsyncLocalStorage<CallInThread>();
  let shift: ShiftInThread | undefined;
  let resultBytesMax = 0;
  const noise = new Set<string>();
  const modules = new Map<string, ModuleExports>();
  /** Tools that a module's function made from options. There is at most one for each tool that agents were given. */
  const made = new Map<string, AnyTool>();
  const post = (note: ThreadNote): void => line.post(note);

  const onStray = (thrown: unknown): void => {
    // An error without a call's context comes from a native callback, or from code that a module started while it was
    // loaded. If only one call runs, that call is taken as the cause.
    const call = calls.getStore() ?? shift?.only;
    if (call?.running === true) {
      const { content } = thrownText(thrown, resultBytesMax);
      const failed = mayRetryAfter(thrown) ? ({ failed: 'failure' } as const) : {};
      post({ kind: 'fault', id: call.call.run.id, content, ...failed, stack: thrownStack(thrown) });
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
  process.on('exit', () => {
    // Marks the call that ends the thread, so that the pool knows which call it was (R6 of `runs.ts`).
    const call = calls.getStore();
    if (call?.running === true) call.cursor.hold(call.at);
  });

  line.onMessage((message) => {
    const order = message as ThreadOrder;
    if (order.kind === 'abort') shift?.abort(order.id, order.reason);
    else shift?.join(order);
  });

  const load = async (url: string): Promise<ModuleExports> => {
    // Timers that a module starts while it loads belong to no call, not even to the call that first needed the module.
    const exports = await calls.exit(() => importModule(url, `tool module ${url}`));
    modules.set(url, exports);
    return exports;
  };
  const found = (exports: ModuleExports, { url, exportName, options }: ThreadCall): AnyTool | undefined => {
    if (options === undefined) return toolOf(exports, exportName);
    const name = threadLane({ url, exportName, options });
    const tool = made.get(name) ?? makeTool(exports, exportName, options);
    if (tool !== undefined) made.set(name, tool);
    return tool;
  };
  const surroundings: ShiftSurroundings = {
    find: (call) => {
      const exports = modules.get(call.url);
      return exports === undefined ? load(call.url).then((loaded) => found(loaded, call)) : found(exports, call);
    },
    within: (call, begin) => calls.run(call, begin),
    clock: systemClock,
    soon,
    post,
    ...defined({ cursorOf }),
  };

  return async (message) => {
    const task = message as ThreadTask;
    if (task.kind === 'describe') return findTools(await load(task.url), task.url);
    resultBytesMax = task.resultBytesMax;
    shift = new ShiftInThread(surroundings);
    try {
      return await shift.run(task);
    } finally {
      shift = undefined;
    }
  };
}
