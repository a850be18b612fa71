/** Goal: P1 to P4 of the pages that readers on the host share. Method: a shard that answers when the test says so. */
import { expect, test } from 'vitest';
import { REPLAYS_UNDER_WAY_MAX } from '../../../src/base/bounds.ts';
import type { SessionEvent } from '../../../src/events/event.ts';
import { EventPages } from '../../../src/runtime/events/event-pages.ts';
import type { ShardLink } from '../../../src/runtime/host/shard-link.ts';
import { durable, settled } from '../../events/packing/event-samples.ts';

class Line {
  readonly asked: { readonly session: string; readonly answer: (events: readonly SessionEvent[]) => void }[] = [];
  readonly pages: EventPages;

  constructor() {
    const call = (_method: string, { session }: { readonly session: string }): Promise<unknown> =>
      new Promise((resolve) => {
        this.asked.push({ session, answer: (events) => resolve({ events, isComplete: true }) });
      });
    const link = { call } as unknown as Pick<ShardLink, 'call'>;
    this.pages = new EventPages(() => link);
  }
}

test('P1: readers of one page share it and its events, at the same time and a little later', async () => {
  const { pages, asked } = new Line();
  const wanted = [pages.page('s', 0, 10), pages.page('s', 0, 10)];
  await settled();
  expect(asked).toHaveLength(1);
  asked[0]?.answer([durable(1)]);
  const [first, second] = await Promise.all(wanted);
  expect(second).toBe(first);
  expect(await pages.page('s', 0, 10)).toBe(first);
  expect(asked).toHaveLength(1);
});

test('P2: a bounded number of requests is in flight; others follow in order, even after a failure', async () => {
  const { pages, asked } = new Line();
  const count = REPLAYS_UNDER_WAY_MAX + 3;
  const wanted = Array.from({ length: count }, (_, index) => pages.page(`s${index}`, 0, 10));
  await settled();
  expect(asked).toHaveLength(REPLAYS_UNDER_WAY_MAX);
  for (let index = 0; index < count; index += 1) {
    asked[index]?.answer([durable(1, `s${index}`)]);
    await settled();
  }
  expect((await Promise.all(wanted)).map(([event]) => event?.session)).toEqual(asked.map(({ session }) => session));
});

test('P3: an empty page does not answer a reader that came after the page was requested', async () => {
  const { pages, asked } = new Line();
  const early = pages.page('s', 0, 10);
  await settled();
  const late = pages.page('s', 0, 10);
  asked[0]?.answer([]);
  expect(await early).toEqual([]);
  await settled();
  expect(asked).toHaveLength(2);
  asked[1]?.answer([durable(1)]);
  expect(await late).toHaveLength(1);
});

test('P4: pages are forgotten with their session, also a page in flight', async () => {
  const { pages, asked } = new Line();
  const before = pages.page('s', 0, 10);
  await settled();
  pages.forget();
  asked[0]?.answer([durable(1)]);
  await before;
  void pages.page('s', 0, 10);
  await settled();
  expect(asked).toHaveLength(2);
  expect(pages.held).toBe(0);
});
