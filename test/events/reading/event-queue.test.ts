/**
 * Goal: one reader of one session sees each durable event once, in order, at any speed (E1 to E5). Method: a log that
 * is an array, and live events published by hand. The property test drives log, replay and reader at random.
 */
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { SessionEvent } from '../../../src/events/event.ts';
import { EventQueue, type EventQueueOptions, type Replay } from '../../../src/events/reading/event-queue.ts';
import {
  delta,
  durable,
  durables,
  progress,
  replayOf,
  settled,
  short,
  take,
  takeAll,
} from '../packing/event-samples.ts';

const small = { eventsMax: 4, charactersMax: 100_000 };

function queueOf(options: Partial<EventQueueOptions> = {}, log: readonly SessionEvent[] = []): EventQueue {
  return new EventQueue({ session: 's', replay: replayOf(log), now: () => 7, ...options });
}

describe('replay and live', () => {
  test('E1: events of the log after the cursor come first, then live ones, without loss or repetition', async () => {
    const log = durables(1, 600);
    const queue = queueOf({ after: 10 }, log);
    for (const event of durables(601, 603)) {
      log.push(event);
      queue.push(event);
    }
    queue.push(progress('live'));
    const words = await take(queue, 594);
    expect(words.slice(0, 2)).toEqual(['11', '12']);
    expect(words.slice(-3)).toEqual(['602', '603', 'live']);
    queue.push(durable(604));
    expect(await take(queue, 1)).toEqual(['604']);
  });

  test('E1: an event from the log that is also published live is read once', async () => {
    const log = durables(1, 3);
    const queue = queueOf({ after: 0 }, log);
    queue.push(durable(2));
    queue.push(durable(3));
    expect(await take(queue, 3)).toEqual(['1', '2', '3']);
    queue.push(durable(3));
    const waiting = queue.waiting;
    queue.push(durable(4));
    queue.push(durable(4));
    expect(queue.waiting).toBe(waiting + 1);
    expect(await take(queue, 1)).toEqual(['4']);
  });

  test('E1: without a cursor the iteration begins with the first published event', async () => {
    const queue = queueOf({}, durables(1, 9));
    queue.push(progress('before'));
    queue.push(durable(10));
    queue.push(progress('after'));
    expect(await take(queue, 3)).toEqual(['before', '10', 'after']);
  });

  test('E1: a hole between live events is filled from the log', async () => {
    const log = durables(1, 6);
    const queue = queueOf({ after: 0 }, log);
    expect(await take(queue, 6)).toEqual(['1', '2', '3', '4', '5', '6']);
    const waiting = take(queue, 4);
    await settled();
    log.push(...durables(7, 9));
    queue.push(durable(9));
    log.push(durable(10));
    queue.push(durable(10));
    expect(await waiting).toEqual(['7', '8', '9', '10']);
  });

  test('E1: events missing from the log, anywhere in it, are announced and left out', async () => {
    const log = [durable(5), durable(6), durable(9)];
    const queue = queueOf({ after: 0 }, log);
    queue.push(durable(12));
    expect(await take(queue, 7)).toEqual(['gap 1-4', '5', '6', 'gap 7-8', '9', 'gap 10-11', '12']);
  });

  test('E1: events published and dropped while a log page is read are read from the log', async () => {
    const log: SessionEvent[] = [];
    const pages: (() => void)[] = [];
    const replay: Replay = (fromSeq, limit) => {
      const page = replayOf([...log])(fromSeq, limit);
      return new Promise((resolve) => pages.push(() => resolve(page)));
    };
    const queue = queueOf({ after: 0, replay, bounds: small });
    const words = take(queue, 8);
    await settled();
    for (const event of durables(1, 6)) {
      log.push(event);
      queue.push(event);
    }
    // The first page was read when the log was empty. An empty page must not count as the end of the log.
    for (let count = 0; count < 4; count += 1) {
      pages.shift()?.();
      await settled();
    }
    queue.push(durable(7));
    expect(await words).toEqual(['gap 1-4', '1', '2', '3', '4', '5', '6', '7']);
  });
});

describe('a slow reader', () => {
  test('E2: lost events are announced at the next read and read from the log, and live events follow', async () => {
    const log: SessionEvent[] = [];
    const queue = queueOf({ after: 0, bounds: small }, log);
    const tell = (event: SessionEvent): void => {
      if (event.seq !== undefined) log.push(event);
      queue.push(event);
    };
    tell(durable(1));
    expect(await take(queue, 1)).toEqual(['1']);
    for (const event of durables(2, 10)) tell(event);
    tell(progress('live'));
    const [first] = [await queue.next()];
    expect(first.value).toEqual({ type: 'gap', session: 's', at: 7, from: 2, to: 9 });
    expect(await take(queue, 10)).toEqual(['2', '3', '4', '5', '6', '7', '8', '9', '10', 'live']);
    tell(durable(11));
    expect(await take(queue, 1)).toEqual(['11']);
  });

  test('E2: no gap is published when only ephemeral events were lost', async () => {
    const queue = queueOf({ bounds: small });
    for (let count = 0; count < 6; count += 1) queue.push(progress(count));
    queue.push(durable(1));
    expect(await take(queue, 3)).toEqual(['4', '5', '1']);
  });

  test('E3: an ephemeral event is not read after a durable one that followed it', async () => {
    const log: SessionEvent[] = [durable(1)];
    const queue = queueOf({ after: 0 }, log);
    const first = take(queue, 1);
    queue.push(progress('after nothing known'));
    expect(await first).toEqual(['1']);
    log.push(durable(2));
    queue.push(progress('after 1'));
    queue.push(durable(2));
    queue.push(progress('after 2'));
    expect(await take(queue, 3)).toEqual(['after 1', '2', 'after 2']);
  });

  test('E4: a stalled reader holds no more than its bounds', async () => {
    const queue = queueOf({ after: 0, bounds: { eventsMax: 50, charactersMax: 10_000 } }, durables(1, 1_000));
    expect(await take(queue, 1)).toEqual(['1']);
    for (let seq = 1_001; seq < 21_001; seq += 1) {
      queue.push(durable(seq));
      queue.push(delta('some text'));
      // The buffer, and the rest of the page that the reader stopped in.
      expect(queue.waiting).toBeLessThanOrEqual(50 + 255);
    }
  });

  test('B3: pieces of a text arrive joined if the reader is slow, one by one if it waits', async () => {
    const queue = queueOf();
    for (const text of ['a', 'b', 'c']) queue.push(delta(text));
    expect(await take(queue, 1)).toEqual(['abc']);
    for (const text of ['d', 'e']) {
      const waiting = take(queue, 1);
      await settled();
      queue.push(delta(text));
      expect(await waiting).toEqual([text]);
    }
    const without = queueOf({ deltas: false });
    without.push(delta('unwanted'));
    without.push(durable(1));
    expect(await take(without, 1)).toEqual(['1']);
  });
});

describe('the end', () => {
  const closed = (options: Partial<EventQueueOptions> = {}): { queue: EventQueue; onClose: () => void } => {
    const onClose = vi.fn();
    return { queue: queueOf({ onClose, ...options }), onClose };
  };

  test('E5: break ends the iteration: nothing is held, onClose is called once, later events are ignored', async () => {
    const { queue, onClose } = closed();
    for (const event of durables(1, 3)) queue.push(event);
    for await (const event of queue) if (event.seq === 2) break;
    expect(onClose).toHaveBeenCalledTimes(1);
    expect([queue.isOver, queue.waiting]).toEqual([true, 0]);
    queue.push(durable(4));
    expect(await queue.next()).toEqual({ done: true, value: undefined });
    await queue.return();
    await queue[Symbol.asyncDispose]();
    expect(onClose).toHaveBeenCalledTimes(1);
  });

  test('E5: until ends the iteration after its event, also when the view leaves that event out', async () => {
    const { queue, onClose } = closed({ until: (event) => event.seq === 2 });
    for (const event of durables(1, 3)) queue.push(event);
    expect(await take(queue, 2)).toEqual(['1', '2']);
    expect(onClose).toHaveBeenCalledTimes(1);
    expect(await takeAll(queue)).toEqual([]);

    const even = closed({
      until: (event) => event.seq === 3,
      view: (event) => (event.seq === undefined || event.seq % 2 === 1 ? undefined : { ...event, at: 99 }),
    });
    for (const event of durables(1, 4)) even.queue.push(event);
    const seen: SessionEvent[] = [];
    for await (const event of even.queue) seen.push(event);
    expect(seen).toEqual([{ ...durable(2), at: 99 }]);
    expect(even.onClose).toHaveBeenCalledTimes(1);
  });

  test('E5: a signal ends the iteration at once, during a read or before the first, and never leaves a listener', async () => {
    const control = new AbortController();
    const { queue, onClose } = closed({ signal: control.signal });
    const waiting = queue.next();
    await settled();
    control.abort();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(onClose).toHaveBeenCalledTimes(1);

    const before = closed({ signal: control.signal });
    expect(before.queue.isOver).toBe(true);
    expect(await takeAll(before.queue)).toEqual([]);
    await before.queue.return();
    expect(before.onClose).not.toHaveBeenCalled();

    const other = new AbortController();
    const removed = vi.spyOn(other.signal, 'removeEventListener');
    await closed({ signal: other.signal }).queue.return();
    expect(removed).toHaveBeenCalledTimes(1);
  });

  test('E5: a read waiting for a log page that never comes is done when the iteration ends', async () => {
    const { queue } = closed({ after: 0, replay: () => new Promise(() => undefined) });
    const waiting = queue.next();
    await settled();
    await queue.return();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  test('E5: close ends the iteration after the buffered events; fail does the same with its error; both act once', async () => {
    const { queue } = closed();
    queue.push(durable(1));
    queue.close();
    queue.push(durable(2));
    expect(await takeAll(queue)).toEqual(['1']);

    const failing = closed();
    failing.queue.push(durable(1));
    failing.queue.fail(new Error('gone'));
    failing.queue.close();
    expect(await take(failing.queue, 1)).toEqual(['1']);
    await expect(failing.queue.next()).rejects.toThrow('gone');
    expect(await failing.queue.next()).toEqual({ done: true, value: undefined });
    expect(failing.onClose).toHaveBeenCalledTimes(1);

    const idle = closed();
    const waiting = idle.queue.next();
    await settled();
    idle.queue.close();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  test.each<[string, Partial<EventQueueOptions>]>([
    ['replay rejects', { after: 0, replay: () => Promise.reject(new Error('broken')) }],
    [
      'replay throws',
      {
        after: 0,
        replay: () => {
          throw new Error('broken');
        },
      },
    ],
    [
      'until throws',
      {
        until: () => {
          throw new Error('broken');
        },
      },
    ],
    [
      'view throws',
      {
        view: () => {
          throw new Error('broken');
        },
      },
    ],
  ])('E5: the iteration fails when %s', async (_name, options) => {
    const { queue, onClose } = closed(options);
    queue.push(durable(2));
    await expect(queue.next()).rejects.toThrow('broken');
    expect(onClose).toHaveBeenCalledTimes(1);
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('concurrent reads are served in order', async () => {
    const queue = queueOf({ until: (event) => event.seq === 2 });
    const reads = [queue.next(), queue.next(), queue.next()];
    queue.push(durable(1));
    queue.push(durable(2));
    const results = await Promise.all(reads);
    expect(results.map((result) => (result.done === true ? 'done' : short(result.value)))).toEqual(['1', '2', 'done']);
  });
});

/** One run of the property. `picks` draws the steps; at the end the reader reads everything. */
async function randomRun(picks: readonly number[], startAt: number | undefined, alreadyLogged: number): Promise<void> {
  const log = durables(1, alreadyLogged);
  const pages: (() => void)[] = [];
  const replay: Replay = (fromSeq, limit) => {
    const asked = [...log];
    return new Promise((resolve) => {
      // The log is read either at the request or at the answer; a page may be of any length.
      const isLate = pages.length % 2 === 0;
      pages.push(() => resolve(replayOf(isLate ? log : asked)(fromSeq, Math.min(limit, 3)).then((page) => page)));
    });
  };
  const queue = queueOf({
    ...(startAt === undefined ? {} : { after: startAt }),
    replay,
    bounds: { eventsMax: 5, charactersMax: 5_000 },
  });
  const read: SessionEvent[] = [];
  let reading = false;
  const readOne = async (): Promise<void> => {
    reading = true;
    const result = await queue.next();
    if (result.done !== true) read.push(result.value);
    reading = false;
  };
  for (const pick of picks) {
    const what = pick % 8;
    if (what < 3) {
      const event = durable(log.length + 1);
      log.push(event);
      queue.push(event);
    } else if (what === 3) queue.push(progress(log.length));
    else if (what < 6 && !reading) void readOne();
    else pages.shift()?.();
    if ((pick >>> 3) % 2 === 0) await settled();
  }
  const last = durable(log.length + 1);
  log.push(last);
  queue.push(last);
  for (let rounds = 0; read.at(-1)?.seq !== last.seq; rounds += 1) {
    expect(rounds).toBeLessThan(2_000);
    if (!reading) void readOne();
    pages.shift()?.();
    await settled();
  }
  await queue.return();
  checkRead(read, startAt, last.seq ?? 0);
}

function checkRead(read: readonly SessionEvent[], startAt: number | undefined, last: number): void {
  const seqs = read.flatMap((event) => event.seq ?? []);
  const first = startAt === undefined ? (seqs[0] ?? 0) : startAt + 1;
  expect(seqs).toEqual(durables(first, last).map((event) => event.seq));
  let place: number | undefined;
  for (const event of read) {
    if (event.seq !== undefined) place = event.seq;
    // An ephemeral event carries the number of the durable event before it.
    if (event.type === 'tool.progress' && place !== undefined) expect(event.data).toBe(place);
    if (event.type === 'gap') {
      expect(event.from).toBeLessThanOrEqual(event.to);
      expect(event.from).toBeGreaterThan(place ?? 0);
      expect(event.to).toBeLessThanOrEqual(last);
    }
  }
}

test('E1, E2, E3: at any speed of log, replay and reader each durable event is read once, ascending', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(255), { maxLength: 80 }),
      fc.option(fc.nat(8), { nil: undefined }),
      fc.nat(8),
      (picks, startAt, alreadyLogged) =>
        randomRun(picks, startAt === undefined ? undefined : Math.min(startAt, alreadyLogged), alreadyLogged),
    ),
    { numRuns: 300 },
  );
});
