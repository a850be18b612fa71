/**
 * Goal: a large answer counts against the budget of the readers until its client has read it, and the budget can break
 * it off. Method: a small budget.
 */
import { expect, test } from 'vitest';
import { ReaderBudget } from '../../src/events/reading/reader-budget.ts';
import { heldAnswer } from '../../src/server/held-answer.ts';

const bytes = (): Uint8Array => new Uint8Array(10_000).fill(7);

test('an answer counts until the next read shows that it was sent, or until it is cancelled', async () => {
  const budget = new ReaderBudget(1_000_000);
  const taken = heldAnswer(bytes(), budget).getReader();
  const cancelled = heldAnswer(bytes(), budget);
  expect(budget.held).toBe(20_000);
  expect((await taken.read()).value).toEqual(bytes());
  expect(budget.held).toBe(20_000);
  expect((await taken.read()).done).toBe(true);
  expect(budget.held).toBe(10_000);
  await cancelled.cancel();
  expect(budget.held).toBe(0);
});

test('the answer that was not read for longest is aborted when others need the room', async () => {
  const budget = new ReaderBudget(25_000);
  const [first, ...others] = [1, 2, 3].map(() => heldAnswer(bytes(), budget).getReader());
  await expect(first?.read()).rejects.toMatchObject({ code: 'limit' });
  expect(budget.held).toBeLessThanOrEqual(25_000);
  const last = others.at(-1);
  expect((await last?.read())?.value).toEqual(bytes());
});
