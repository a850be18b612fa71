/** Planted bugs of a hand-over to another process (I42), and of the calls that it cuts off. */
import type { PlantedBug } from './planted-bug.ts';

const LIFE = 'src/runtime/shard/life.ts';
const RUNTIME = 'src/runtime/handles/runtime.ts';

/** See the head of the file. */
export const handOverBugs: readonly PlantedBug[] = [
  {
    name: 'hand-over-begins-half-steps',
    what: 'a shard that stands still begins half-steps until it closes',
    file: LIFE,
    find: 'return this.#standsStill || this.#isClosing;',
    replace: 'return this.#isClosing;',
  },
  {
    name: 'hand-over-refuses-messages',
    what: 'a shard that stands still refuses messages as if it were closing',
    file: LIFE,
    find: `  get isClosing(): boolean {
    return this.#isClosing;`,
    replace: `  get isClosing(): boolean {
    return this.#isClosing || this.#standsStill;`,
  },
  {
    name: 'hand-over-without-waiting',
    what: 'the former owner closes at once, so that the half-steps that run are cut off',
    file: RUNTIME,
    find: 'await Promise.allSettled(stood);',
    replace: 'void Promise.allSettled(stood);',
  },
  {
    name: 'released-before-last-flush',
    what: 'the directory is released before the shards have written their last commits',
    file: RUNTIME,
    find: 'await Promise.all(this.#parts.links.map((link) => link.close(deadlineMs)));',
    replace: `await this.#parts.release();
      await Promise.all(this.#parts.links.map((link) => link.close(deadlineMs)));`,
  },
  {
    name: 'cut-call-counts-as-finished',
    what: 'a `once` call that was cut off is answered as a success',
    file: 'src/session/decide/recovery.ts',
    find: "input: { type: 'toolFinished', callId: call.id, content: OUTCOME_UNKNOWN, success: false },",
    replace: "input: { type: 'toolFinished', callId: call.id, content: OUTCOME_UNKNOWN, success: true },",
  },
];
