import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { agent, type Session, tool } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply, ReplyMessage } from '../../src/models/script/script.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { eventually, failure, history, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const NOW_MS = Date.parse('2026-11-23T06:00:00Z');
const add = tool({ name: 'add', description: 'Adds.', input: z.object({}), effect: 'pure', run: () => 'added' });

function called(container: unknown): ReplyMessage {
  const caller = { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' };
  return { content: [{ type: 'tool_use', id: 't1', name: 'add', input: {}, caller, toolset_name: 'sums' }], container };
}

interface Stage {
  readonly session: Session;
  readonly requests: ModelRequest[];
  readonly clock: ManualClock;
  readonly directory: string;
}

async function stage(replies: readonly Reply[], threads = MATRIX[0]): Promise<Stage> {
  const requests: ModelRequest[] = [];
  const provider = scripted((request) => {
    requests.push(request);
    return replies[requests.length - 1] ?? 'Done.';
  });
  const clock = manualClock(NOW_MS);
  const directory = await kit.directory();
  const agents = [agent({ name: 'a', tools: [add] })];
  const runtime = await kit.open({ provider, clock, agents, directory, threads: { ...threads, models: 0 } });
  return { session: runtime.session('s'), requests, clock, directory };
}

const containers = ({ requests }: Stage): unknown[] => requests.map((request) => request.container);

describe('the container of an answer', () => {
  it('R38: the next request names it, and repeats the call with its caller and toolset', async () => {
    const s = await stage([called({ id: 'container_1', expires_at: '2026-11-23T07:00:00Z' })]);
    expect(await s.session.ask('Hi')).toBe('Done.');
    expect(containers(s)).toEqual([undefined, 'container_1']);
    expect(s.requests[1]?.messages[1]).toEqual({ role: 'assistant', content: called(undefined).content });
    expect(await s.session.ask('More')).toBe('Done.');
    expect(containers(s).at(-1)).toBe('container_1');
  });

  it('A8: it is read from the log after a restart, and the newest one counts', async () => {
    const s = await stage([
      called({ id: 'container_1' }),
      { ...called({ id: 'container_2' }), content: [{ type: 'text', text: 'Ok.' }] },
    ]);
    expect(await s.session.ask('Hi')).toBe('Ok.');
    const requests: ModelRequest[] = [];
    const provider = scripted((request) => {
      requests.push(request);
      return 'Again.';
    });
    const copy = await kit.crashed(s.directory);
    const again = await kit.open({ provider, agents: [agent({ name: 'a', tools: [add] })], directory: copy });
    expect(await again.session('s').ask('More')).toBe('Again.');
    expect(requests[0]?.container).toBe('container_2');
  });

  it('is not named after it expired', async () => {
    const s = await stage([called({ id: 'container_1', expires_at: '2026-11-23T07:00:00Z' })]);
    await s.session.ask('Hi');
    await s.clock.advance(3_600_000);
    await s.session.ask('More');
    expect(containers(s)).toEqual([undefined, 'container_1', undefined]);
  });

  it('F35: is not named again after the API refused a request', async () => {
    const s = await stage([called({ id: 'container_1' }), { error: { status: 400, message: 'no such container' } }]);
    await failure(s.session.ask('Hi'));
    await s.session.resume();
    await s.session.ask('More');
    expect(containers(s)).toEqual([undefined, 'container_1', undefined]);
  });

  it.each([7, '', {}, { id: 3 }, { id: '' }, { id: 'x'.repeat(300) }])(
    'a container of any other form is none: %j',
    async (container) => {
      const s = await stage([called(container)]);
      expect(await s.session.ask('Hi')).toBe('Done.');
      expect(containers(s)).toEqual([undefined, undefined]);
    },
  );
});

it.each(MATRIX)('a refusal says why, in the event that ends its turn ($sessions session threads)', async (threads) => {
  const stop_details = { type: 'refusal', category: 'cyber', explanation: 'It may do harm.' };
  const s = await stage([{ content: [{ type: 'text', text: 'No.' }], stop_reason: 'refusal', stop_details }], threads);
  await s.session.ask('Hi');
  await eventually(async () => (await history(s.session)).some(({ type }) => type === 'turn.finished'));
  const ended = (await history(s.session)).find(({ type }) => type === 'turn.finished');
  expect(ended).toMatchObject({ reason: 'refusal', outcome: 'content_filter', stopDetails: stop_details });
});
