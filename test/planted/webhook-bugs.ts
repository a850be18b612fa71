/** Planted bugs of webhooks: notices that are passed over, and deliveries that are given up. */
import type { PlantedBug } from './planted-bug.ts';

/** See the head of the file. */
export const webhookBugs: readonly PlantedBug[] = [
  {
    name: 'webhook-failure-counts-as-delivery',
    what: 'a delivery that failed is not tried again (I25)',
    file: 'src/runtime/webhooks/sender.ts',
    find: 'this.#parts.queue.release(lane);',
    replace: 'this.#parts.queue.delivered(lane);',
  },
  {
    name: 'webhook-cursor-without-its-queue',
    what: 'the cursor has the positions of a moment, and not what the queue had left (I25)',
    file: 'src/runtime/webhooks/webhook.ts',
    find: 'behind: this.#queue.save()',
    replace: 'behind: []',
  },
  {
    name: 'webhook-full-queue-passes-over',
    what: 'a notice for which the queue has no room is passed over (I25)',
    file: 'src/runtime/webhooks/webhook.ts',
    find: 'if (previous > at || this.#queue.isFull || this.#sender.isGone) {',
    replace: `if (this.#queue.isFull) followed.position = position;
    if (previous > at || this.#queue.isFull || this.#sender.isGone) {`,
  },
];
