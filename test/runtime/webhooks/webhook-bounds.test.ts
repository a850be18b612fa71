/**
 * Goal: what a webhook costs while its receiver is dead, and how it follows the log when live notices are missing. The
 * shard, the receiver and the clock are the test's.
 */
import { expect, test } from 'vitest';
import { WEBHOOK_DELIVERIES_MAX, WEBHOOK_HELD_BYTES_MAX } from '../../../src/base/bounds.ts';
import { NO_USAGE } from '../../../src/base/messages.ts';
import type { NoticeNote, NoticePageRequest, NoticeScanRequest } from '../../../src/runtime/protocol/notices.ts';
import type { ShardCaller } from '../../../src/runtime/protocol/protocol.ts';
import { checkWebhooks } from '../../../src/runtime/protocol/webhook-options.ts';
import type { CursorStore } from '../../../src/runtime/webhooks/cursor.ts';
import type { DeliveryOutcome } from '../../../src/runtime/webhooks/delivery.ts';
import { DeliveryQueue } from '../../../src/runtime/webhooks/delivery-queue.ts';
import { Webhook } from '../../../src/runtime/webhooks/webhook.ts';
import type { Notice } from '../../../src/session/rules/notices.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { eventually } from '../../support/eventually.ts';

const turn = (session: string, seq: number, text = ''): Notice => ({
  session,
  seq,
  at: 0,
  isOfChild: false,
  type: 'turn.ended',
  data: { session, agent: 'a', turn: `turn-${seq}`, end: 'finished', reason: 'end_turn', usage: NO_USAGE, text },
});

interface Logged {
  readonly position: number;
  readonly key: number;
  readonly notice: Notice;
}

/** A shard with a log of notices; each has its own position, from 1. */
function fakeShard(): ShardCaller & {
  readonly log: Logged[];
  readonly asked: string[];
  put(session: string, key: number, seq: number, text?: string): NoticeNote;
  /** The shard begins again with the log as it is. */
  reopen(): void;
} {
  const log: Logged[] = [];
  const asked: string[] = [];
  let opened = 0;
  const scan = ({ after }: NoticeScanRequest): unknown => {
    if (after === undefined) return { found: [], end: opened, isLast: false, opened };
    const part = log.filter(({ position }) => position > after).slice(0, 4);
    const found = part.map(({ key, notice }) => ({
      session: notice.session,
      key,
      first: notice.seq,
      last: notice.seq,
    }));
    const end = part.at(-1)?.position ?? after;
    return { found, end, isLast: end >= log.length, opened };
  };
  const page = ({ key, after, until }: NoticePageRequest): unknown =>
    log
      .filter((each) => each.key === key && each.notice.seq > after && each.notice.seq <= until)
      .map(({ notice }) => notice);
  return {
    log,
    asked,
    call: async (method: string, request: unknown) => {
      asked.push(method);
      return (
        method === 'notices.scan' ? scan(request as NoticeScanRequest) : page(request as NoticePageRequest)
      ) as never;
    },
    put(session, key, seq, text) {
      const notice = turn(session, seq, text);
      log.push({ position: log.length + 1, key, notice });
      return { previous: log.length - 1, position: log.length, notices: [{ key, notice }] };
    },
    reopen() {
      opened = log.length;
    },
  };
}

function disk(): CursorStore & { text: string | undefined } {
  const stored = {
    text: undefined as string | undefined,
    load: async () => stored.text,
    save: async (_name: string, text: string) => {
      stored.text = text;
    },
  };
  return stored;
}

interface Setting {
  readonly clock: ReturnType<typeof manualClock>;
  readonly sent: string[];
  outcome: (session: string) => DeliveryOutcome;
}

async function opened(
  shard: ShardCaller,
  cursors: CursorStore,
  sessionsMax?: number,
): Promise<Setting & { readonly webhook: Webhook }> {
  const clock = manualClock(1_000);
  const setting: Setting = { clock, sent: [], outcome: () => ({ isDelivered: true }) };
  const [webhook] = checkWebhooks([{ url: 'https://receiver.test/hook' }]);
  if (webhook === undefined) throw new Error('no webhook');
  const made = await Webhook.open({
    webhook,
    shards: [shard],
    cursors,
    send: async ({ body }) => {
      const { session, seq } = (
        JSON.parse(body) as { readonly data: { readonly session: string; readonly seq: number } }
      ).data;
      setting.sent.push(`${session}#${seq}`);
      return setting.outcome(session);
    },
    sessionsMax,
    clock,
    random: () => 0.5,
    logger: undefined,
  });
  await made.begin();
  return Object.assign(setting, { webhook: made });
}

test('a missing live notice is found in the log, before the later notices of its session', async () => {
  const shard = fakeShard();
  const { webhook, sent } = await opened(shard, disk());
  webhook.take(0, shard.put('a', 1, 1));
  await eventually(() => sent.length === 1);
  shard.put('a', 1, 2);
  webhook.take(0, shard.put('a', 1, 3));
  await eventually(() => sent.length === 3);
  expect(sent).toEqual(['a#1', 'a#2', 'a#3']);
  // The log has one more, which was never published: the shard was replaced.
  shard.put('b', 2, 1);
  webhook.resumed(0);
  await eventually(() => sent.length === 4);
  await webhook.close(0);
  expect(sent.at(-1)).toBe('b#1');
});

test('a receiver that is dead gets one attempt at a time, and everything once it is back', async () => {
  const shard = fakeShard();
  const setting = await opened(shard, disk());
  const { webhook, clock, sent } = setting;
  setting.outcome = () => ({ isDelivered: false, problem: 'dead' });
  for (let index = 0; index < 40; index += 1) webhook.take(0, shard.put(`s-${index}`, index + 1, 1));
  await eventually(() => sent.length === WEBHOOK_DELIVERIES_MAX);
  // Half an hour of waits that double up to five minutes is a few attempts.
  for (let minute = 0; minute < 30; minute += 1) await clock.advance(60_000);
  expect(sent.length).toBeGreaterThan(WEBHOOK_DELIVERIES_MAX);
  expect(sent.length).toBeLessThan(WEBHOOK_DELIVERIES_MAX + 20);
  expect(webhook.counts).toMatchObject({ waiting: 40, delivered: 0 });
  setting.outcome = () => ({ isDelivered: true });
  await clock.advance(300_000);
  await eventually(() => webhook.counts.waiting === 0);
  expect(webhook.counts.delivered).toBe(40);
  await webhook.close(0);
});

test('a session whose deliveries fail does not hold up the others', async () => {
  const shard = fakeShard();
  const setting = await opened(shard, disk());
  const { webhook } = setting;
  setting.outcome = (session) => ({ isDelivered: session !== 'bad', problem: 'no' });
  webhook.take(0, shard.put('bad', 1, 1));
  for (let index = 0; index < 20; index += 1) webhook.take(0, shard.put('good', 2, index + 1));
  await eventually(() => webhook.counts.delivered === 20);
  expect(webhook.counts.waiting).toBe(1);
  await webhook.close(0);
});

test('a full queue follows the log no further, and continues when there is room; a restart takes up what was left', async () => {
  const shard = fakeShard();
  const cursors = disk();
  const setting = await opened(shard, cursors, 3);
  const { webhook, clock } = setting;
  setting.outcome = () => ({ isDelivered: false, problem: 'dead' });
  for (let index = 0; index < 30; index += 1) webhook.take(0, shard.put(`s-${index}`, index + 1, 1));
  await eventually(() => setting.sent.length >= 3);
  expect(webhook.counts.waiting).toBeLessThanOrEqual(3 + 4);
  await clock.advance(2_000);
  await webhook.close(0);
  shard.reopen();
  const again = await opened(shard, cursors, 3);
  await eventually(() => new Set(again.sent).size === 30);
  expect(again.sent).toHaveLength(30);
  await again.webhook.close(0);
});

test('a cursor that cannot be read is replaced, with what happens from now on', async () => {
  const shard = fakeShard();
  const cursors = disk();
  cursors.text = '{"v":1,';
  const { webhook, sent } = await opened(shard, cursors);
  webhook.take(0, shard.put('a', 1, 1));
  await eventually(() => sent.length === 1);
  await webhook.close(0);
  expect(JSON.parse(cursors.text)).toMatchObject({ v: 1, positions: [1], behind: [] });
});

test('Q2: notices beyond the bound are not held; they are read from the log', () => {
  const queue = new DeliveryQueue();
  const text = 'x'.repeat(16_384);
  for (let seq = 1; seq * text.length < 2 * WEBHOOK_HELD_BYTES_MAX; seq += 1)
    queue.add(0, { key: 1, notice: turn('s', seq, text) });
  const lane = queue.take();
  expect(lane).toMatchObject({ isWhole: false, delivered: 0 });
  expect((lane?.held.length ?? 0) * text.length).toBeLessThanOrEqual(WEBHOOK_HELD_BYTES_MAX);
  if (lane === undefined) throw new Error('no lane');
  queue.hold(lane, [turn('s', 1, text), turn('s', 2, text)]);
  queue.delivered(lane);
  expect(lane).toMatchObject({ delivered: 1, isWhole: false });
  expect(queue.save()).toEqual([{ shard: 0, session: 's', key: 1, delivered: 1, known: lane.known }]);
});

test('W4: positions that never reached the disk are taken again, and their notices are delivered', async () => {
  const shard = fakeShard();
  const cursors = disk();
  const { webhook, clock, sent } = await opened(shard, cursors);
  for (let seq = 1; seq <= 5; seq += 1) webhook.take(0, shard.put('s', 1, seq));
  await eventually(() => sent.length === 5);
  await clock.advance(2_000);
  await webhook.close(0);
  // The store refused the writes after the second one, and the process died.
  shard.log.splice(2);
  shard.reopen();
  for (const [index, session] of ['a', 'b', 'c'].entries()) shard.put(session, 7 + index, 1);
  const again = await opened(shard, cursors);
  await eventually(() => again.sent.length === 3);
  expect(again.sent).toEqual(['a#1', 'b#1', 'c#1']);
  await again.webhook.close(0);
});
