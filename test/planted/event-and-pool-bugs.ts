/** Planted bugs around the sessions: readers, queues between threads, models and tools. */
import type { PlantedBug } from './planted-bug.ts';

const LINK = 'src/runtime/host/shard-link.ts';
const RUNS = 'src/tools/threads/runs.ts';

/** See the head of the file. */
export const eventAndPoolBugs: readonly PlantedBug[] = [
  {
    name: 'replay-leaves-one-out',
    what: 'a replay begins one event too late',
    file: 'src/runtime/reading/event-replay.ts',
    find: 'if (seq > after) find(',
    replace: 'if (seq > after + 1 || after === 0) find(',
  },
  {
    name: 'reader-begins-too-early',
    what: 'a reader receives the event at its cursor again',
    file: 'src/events/reading/event-queue.ts',
    find: 'options.after !== undefined ? options.after + 1 : undefined;',
    replace: 'options.after !== undefined ? Math.max(1, options.after) : undefined;',
  },
  {
    name: 'live-event-read-twice',
    what: 'an event that was published during a read of the log is read twice',
    file: 'src/events/reading/event-queue.ts',
    find: 'const isStale = seq === undefined ? after !== UNKNOWN && after < next - 1 : seq < next;',
    replace: 'const isStale = seq === undefined ? after !== UNKNOWN && after < next - 1 : seq < next - 1;',
  },
  {
    name: 'watches-lost-with-the-thread',
    what: 'a new session thread is not notified which sessions have readers',
    file: LINK,
    find: 'await this.#watches.repeat(incarnation.endpoint, incarnation.line === undefined);',
    replace: '',
  },
  {
    name: 'unkeyed-request-repeated',
    what: 'a request without a key is repeated to the thread that replaces a dead one',
    file: LINK,
    find: 'if (!repeatable) throw unknownOutcome(cause, ended);',
    replace: 'if (!repeatable) return;',
  },
  {
    name: 'malformed-delta-taken',
    what: 'a delta without a text passes the door, and ends the session thread behind it',
    file: 'src/models/delta-check.ts',
    find: "return typeof text === 'string' ?",
    replace: "return typeof text === 'string' || text === undefined ?",
  },
  {
    name: 'answer-to-every-receipt',
    what: 'an answer is sent to every waiting caller of the session, whatever its receipt',
    file: 'src/runtime/shard/shard-waiters.ts',
    find: '(each) => each.pendingId === pendingId);',
    replace: '(each) => each.pendingId <= pendingId);',
  },
  {
    name: 'calls-stay-with-a-failed-warm-up',
    what: 'calls that wait for the cache never leave if the call that fills it fails',
    file: 'src/models/governor/warm-up-pool.ts',
    find: "if ('error' in completion) this.#warm.delete(group.prompt);\n      this.#release(group);",
    replace: "if (!('error' in completion)) this.#release(group);",
  },
  {
    name: 'refused-key-ends-all-calls',
    what: 'one refused call ends the calls of sessions that had none in flight',
    file: 'src/models/governor/governed-pool.ts',
    find: 'return isStopped ? stoppedShape() :',
    replace: 'return this.#governor.refusal ?? (isStopped ? stoppedShape() : undefined) ??',
  },
  {
    name: 'window-closes',
    what: 'refusals shrink the window of calls to zero, and no call leaves any more',
    file: 'src/models/governor/call-window.ts',
    find: 'this.#size = Math.max(1, this.#size - GOVERNOR_WINDOW_CUT);',
    replace: 'this.#size -= GOVERNOR_WINDOW_CUT;',
  },
  {
    name: 'mirror-survives-its-thread',
    what: 'the contexts of a dead model thread still count as held',
    file: 'src/models/pools/threaded-pool.ts',
    find: `    lane.thread = undefined;
    lane.index.clear();`,
    replace: '    lane.thread = undefined;',
  },
  {
    name: 'mirror-keeps-too-much',
    what: 'a context keeps messages that its delta replaces',
    file: 'src/models/pools/context-mirror.ts',
    find: 'keep === messages.length ? messages : messages.slice(0, keep);',
    replace: 'messages;',
  },
  {
    name: 'killed-tool-tells-nothing',
    what: 'a tool whose thread is killed at the deadline has no outcome',
    file: RUNS,
    find: '      this.#failed(shift, error);\n    }',
    replace: '      if (!shift.kill.isAborted) this.#failed(shift, error);\n    }',
  },
  {
    name: 'dead-tool-thread-keeps-its-place',
    what: 'the slot of a dead tool thread is never used again',
    file: RUNS,
    find: '      this.#failed(shift, error);\n    }',
    replace: '      this.#failed(shift, error);\n      return;\n    }',
  },
  {
    name: 'lost-word-leaves-its-call-open',
    what: 'a call that has ended, and whose outcome was lost, is never answered',
    file: 'src/tools/threads/deadlines.ts',
    find: '    this.#owner.lost(open);',
    replace: '',
  },
  {
    name: 'innocent-calls-die-with-their-thread',
    what: 'the death of a tool thread fails every call that ran on it',
    file: RUNS,
    find: 'const isGuilty = holder === undefined ? isAlone && suspects.includes(place) : holder === open;',
    replace: 'const isGuilty = open !== undefined;',
  },
  {
    name: 'once-begins-again-on-another-thread',
    what: 'a `once` call begins again when another call ends its thread',
    file: RUNS,
    find: "if (open.run.effect === 'once') {",
    replace: "if (open.run.effect === 'once' && open.repeats > 0) {",
  },
  {
    name: 'probe-not-asked-on-another-thread',
    what: 'a `probe` call begins again without a question when another call ends its thread',
    file: RUNS,
    find: "if (open.run.effect === 'probe') open.mode = 'probe';",
    replace: '',
  },
  {
    name: 'thread-of-a-spinning-tool-lives',
    what: 'a tool thread whose loop is held is never ended',
    file: 'src/tools/threads/deadlines.ts',
    find: '    if (isHeldUp) return now + TOOL_KILL_MS;\n    batch.shift.kill.abort();',
    replace: '    if (isHeldUp) return now + TOOL_KILL_MS;',
  },
  {
    name: 'attempts-not-counted',
    what: 'the number of a failed attempt does not grow, so a call is repeated without end',
    file: 'actors/tool-runner.ts',
    find: 'attempt: attempt + 1 }',
    replace: 'attempt }',
  },
  {
    name: 'last-attempt-left-out',
    what: 'a call of a tool with retry is given up before its last attempt',
    file: 'src/tools/retry.ts',
    find: 'attempt >= policy.attempts',
    replace: 'attempt + 1 >= policy.attempts',
  },
  {
    name: 'lost-calls-never-asked-for',
    what: 'no deadline is set for the calls of a session',
    file: 'src/runtime/shard/session-timers.ts',
    find: '    this.#settleCalls(actor);',
    replace: '',
  },
  {
    name: 'approvals-never-expire',
    what: 'no deadline is set for calls that wait for an approval',
    file: 'src/runtime/shard/session-timers.ts',
    find: '    this.#settleApprovals(actor);',
    replace: '',
  },
  {
    name: 'lost-call-keeps-its-place',
    what: 'a lost call is answered, but counts as running for ever',
    file: 'src/session/rules/healing.ts',
    find: "      { type: 'cancelTool', callId, reason: content },",
    replace: '',
  },
  {
    name: 'cancelled-tools-block-the-others',
    what: 'a cancelled call keeps its place among the calls of its session',
    file: 'actors/tool-runner.ts',
    find: `      this.#release(run);
      this.#pool.cancel(run.id, reason);`,
    replace: `      this.#byId.delete(run.id);
      this.#pool.cancel(run.id, reason);`,
  },
  {
    name: 'closed-shard-answers',
    what: 'a request that reaches a shard after its close is answered from the closed journal',
    file: 'src/runtime/door/shard-requests.ts',
    find: 'if (shard.life.isOver && !AFTER_CLOSE.has(method))',
    replace: 'if (shard.life.isOver && AFTER_CLOSE.size === 0)',
  },
];
