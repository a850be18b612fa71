/**
 * Goal: if a review is closed early, all its parts end. Method: the review over a runtime in memory with a model that
 * never answers.
 */
import { expect, test } from 'vitest';
import { reviewOptions } from '../../../src/cli/review/agents.ts';
import { runReview } from '../../../src/cli/review/command.ts';
import { planReview, type ReviewOrder, reviewId } from '../../../src/cli/review/plan.ts';
import { gatedModel, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

test('F13: closed while readers are still being spawned, the review rejects once, without unhandled rejections', async () => {
  const order: ReviewOrder = { directory: process.cwd(), model: 'scripted', limit: 60 };
  const id = reviewId(order);
  const files = Array.from({ length: 60 }, (_, index) => ({ path: `file-${index}.ts`, bytes: 10 }));
  const plan = planReview(order, { files, passedOver: [], isCut: false });
  const model = gatedModel();
  const runtime = await kit.open({
    ...reviewOptions(id, order.directory, 'scripted'),
    provider: model.provider,
    threads: { sessions: 0, models: 0, tools: 1 },
  });
  const alone: unknown[] = [];
  const unhandled = (error: unknown): void => void alone.push(error);
  process.on('unhandledRejection', unhandled);
  let closing: Promise<void> | undefined;
  let spawned = 0;
  const nothing = (): void => undefined;
  const review = runReview(runtime, id, () => Promise.resolve(plan), {
    planned: nothing,
    ended: nothing,
    accepted: nothing,
    asking: nothing,
    spawned: () => {
      spawned += 1;
      if (spawned === 20) closing = runtime.close({ deadlineMs: 0 });
    },
  });
  await expect(review).rejects.toMatchObject({ code: 'cancelled' });
  await closing;
  // Node reports an unhandled rejection at the end of a tick.
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', unhandled);
  expect(alone).toEqual([]);
  expect(spawned).toBeGreaterThanOrEqual(20);
  expect(spawned).toBeLessThan(files.length);
});
