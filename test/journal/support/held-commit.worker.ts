/**
 * A thread with a journal that runs all its commits. Once armed, each commit is held for a moment between its begin and
 * its end, with LMDB's transaction open. A port is notified of that moment.
 */
import { EventEmitter } from 'node:events';
import type { MessagePort } from 'node:worker_threads';
import type { ThreadGate } from '../../../src/journal/journal.ts';
import { CommitPace } from '../../../src/journal/lmdb/commit-pace.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { ExitLatch } from '../../../src/threads/exit-latch.ts';
import { serveThread } from '../../../src/threads/thread.ts';

/** The milliseconds a commit is held, so that the end of the thread falls inside it. */
const HOLD_MS = 300;

const { endpoint, data } = serveThread({});
const { directory, memory, port } = data as { directory: string; memory: SharedArrayBuffer; port: MessagePort };
const own = new ExitLatch(memory);
let isInside = false;
let isArmed = false;
const gate: ThreadGate = {
  isClosedBeforeEnd: own.isClosedBeforeEnd,
  enter() {
    isInside = own.enter();
    return isInside;
  },
  leave() {
    isInside = false;
    own.leave();
  },
};
const still = new Int32Array(new SharedArrayBuffer(4));
const { emit } = EventEmitter.prototype;
// LMDB reports a transaction right after it has begun it.
EventEmitter.prototype.emit = function (this: EventEmitter, event: string | symbol, ...rest: unknown[]): boolean {
  if (event === 'begin-transaction' && isInside && isArmed) {
    port.postMessage('inside');
    Atomics.wait(still, 0, 0, HOLD_MS);
  }
  return emit.call(this, event, ...rest);
};
CommitPace.prototype.isHere = () => true;

const opening = openLmdbJournal({ directory, durability: 'flush', gate });
endpoint.handle('opened', async () => (await opening).fence);
endpoint.handle('commit', async (text) => {
  const journal = await opening;
  isArmed = true;
  journal.append([{ key: journal.intern('a'), data: JSON.stringify(text) }]);
  await journal.flushed();
});
/** True if a gate made here, below the main thread, relies on a notification. */
endpoint.handle('isClosedBeforeEnd', () => new ExitLatch().isClosedBeforeEnd);
