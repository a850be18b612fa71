/** Goal: the effects of a child's failed turn on its family, end to end. Method: a scripted model that fails on cue. */
import { afterEach, describe, expect, it } from 'vitest';
import { agent, open, type Runtime, type SupervisionOptions, TurnFailedError } from '../../../src/index.ts';
import type { ModelRequest } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';

const runtimes: Runtime[] = [];
afterEach(async () => {
  await Promise.all(runtimes.splice(0).map((runtime) => runtime.close({ deadlineMs: 0 })));
});

/** The model of a family: a child's task says how often it fails before it answers. */
function failing(times: (task: string) => number, error: object = { status: 400, message: 'no' }) {
  const calls = new Map<string, number>();
  const starts: string[] = [];
  const reply = (request: ModelRequest, { session }: { readonly session: string }) => {
    if (!session.includes(':')) return 'parent done';
    const count = (calls.get(session) ?? 0) + 1;
    calls.set(session, count);
    starts.push(session);
    const [first] = request.messages;
    const task = typeof first?.content === 'string' ? first.content : '';
    return count <= times(task) ? { error } : `done after ${count}`;
  };
  return { provider: scripted(reply), calls, starts };
}

async function family(
  model: Pick<ReturnType<typeof failing>, 'provider'>,
  supervision?: SupervisionOptions,
  clock = manualClock(),
  attempts?: number,
) {
  const runtime = await open(':memory:', {
    clock,
    provider: model.provider,
    agents: [agent({ name: 'boss', ...(supervision === undefined ? {} : { supervision }) })],
    settings: { llm: { retry: { attempts } } },
  });
  runtimes.push(runtime);
  return { runtime, session: runtime.session('p'), clock };
}

describe('a child whose turn fails', () => {
  it('is reported to its parent by default', async () => {
    const { session } = await family(failing(() => 9));
    const child = await session.spawn({ task: 'work' });
    await expect(child.reply()).rejects.toBeInstanceOf(TurnFailedError);
    await expect.poll(async () => (await session.messages()).map((message) => message.type)).toContain('tool_response');
    const told = (await session.messages()).find((message) => message.type === 'tool_response');
    expect(told?.content).toContain('could not finish');
  });

  it('under ignore the handle reports the failure, and the parent is not notified', async () => {
    const { session } = await family(
      failing(() => 9),
      { onChildFailure: 'ignore' },
    );
    const child = await session.spawn({ task: 'work' });
    expect(await child.exit()).toEqual({ reason: 'failed' });
    expect(await session.messages()).toEqual([]);
  });

  it('is restarted with its task and a fresh window, and its reply counts', async () => {
    const model = failing(() => 1);
    const { session } = await family(model, { onChildFailure: 'restart' });
    const child = await session.spawn({ task: 'work' });
    expect(await child.reply()).toBe('done after 2');
    expect((await child.request()).messages[0]).toEqual({ role: 'user', content: 'work' });
    expect(await child.exit()).toEqual({ reason: 'completed' });
  });

  it('its siblings restart with it under oneForAll, only the later ones under restForOne', async () => {
    for (const [strategy, restarted] of [
      ['oneForAll', ['p:1', 'p:2', 'p:3']],
      ['restForOne', ['p:2', 'p:3']],
    ] as const) {
      const clock = manualClock();
      const model = failing((task) => (task === 'bad' ? 1 : 0));
      // The siblings answer late, so they still work when the second child fails.
      const slow = scripted(async (request, context) => {
        if (request.messages[0]?.content !== 'bad') {
          await new Promise<void>((resolve) => clock.setTimer(resolve, 1_000));
        }
        model.starts.push(context.session);
        const isBad =
          request.messages[0]?.content === 'bad' && model.starts.filter((id) => id === context.session).length === 1;
        return isBad ? { error: { status: 400, message: 'no' } } : 'done';
      });
      const { session } = await family({ ...model, provider: slow }, { strategy, onChildFailure: 'restart' }, clock);
      const kin = await session.spawnAll([{ task: 'one' }, { task: 'bad' }, { task: 'three' }]);
      await clock.advance(5_000);
      const results = await kin.all();
      expect(results.map(({ reason }) => reason)).toEqual(['completed', 'completed', 'completed']);
      for (const child of kin.children) {
        const events = [];
        for await (const event of child.events({
          until: (each) => each.type === 'turn.finished' && events.length > 0,
        })) {
          if (event.type === 'eviction') events.push(event);
          if ((await child.state()).seq === event.seq) break;
        }
        expect(events.length > 0, `${strategy} ${child.id}`).toBe(restarted.includes(child.id as never));
      }
    }
  });

  it('beyond the intensity the failure escalates: siblings are cancelled and the parent is notified', async () => {
    const model = failing(() => 99);
    const { session } = await family(model, { onChildFailure: 'restart', intensity: 2, periodMs: 60_000 });
    const child = await session.spawn({ task: 'work' });
    expect(await child.exit()).toEqual({ reason: 'failed' });
    expect(model.calls.get(child.id)).toBe(3);
    const notes = (await session.messages()).filter((message) => message.type === 'system_message');
    expect(notes[0]?.content).toContain('was not restarted');
  });

  it('waits until a transient fault is over without using intensity, also across a restart of the process', async () => {
    const model = failing(() => 12, { status: 529, message: 'overloaded' });
    const { session, clock } = await family(model, { onChildFailure: 'restart', intensity: 0 });
    const child = await session.spawn({ task: 'work' });
    const reply = child.reply();
    await clock.advance(60 * 60_000);
    expect(await reply).toBe('done after 13');
  });

  it('a sibling that has completed meanwhile does not hold up the next restart of the group', async () => {
    const clock = manualClock();
    const pause = (delayMs: number) => new Promise<void>((resolve) => clock.setTimer(resolve, delayMs));
    let failures = 0;
    const provider = scripted(async ({ messages: [first] }) => {
      await pause(first?.content === 'bad' ? 2_000 : 3_000);
      if (first?.content !== 'bad' || failures === 2) return 'done';
      failures += 1;
      // The first failure restarts both. The sibling completes before the second.
      if (failures === 2) await pause(2_000);
      return { error: { status: 400, message: 'no' } };
    });
    const supervision = { strategy: 'oneForAll', onChildFailure: 'restart', intensity: 2, periodMs: 60_000 } as const;
    const { session } = await family({ provider }, supervision, clock);
    const kin = await session.spawnAll([{ task: 'good' }, { task: 'bad' }]);
    await clock.advance(60_000);
    expect((await kin.all()).map(({ reason }) => reason)).toEqual(['completed', 'completed']);
    expect(failures).toBe(2);
  });

  it('at an escalation a sibling that waits for its restart is cancelled, and never restarts', async () => {
    const clock = manualClock();
    let failNow = (): void => {};
    const failsNow = new Promise<void>((resolve) => {
      failNow = resolve;
    });
    const starts: string[] = [];
    const provider = scripted(async ({ messages: [first] }, { session }) => {
      if (!session.includes(':')) return 'parent done';
      starts.push(session);
      if (first?.content === 'busy') return { error: { status: 529, message: 'overloaded' } };
      await failsNow;
      return { error: { status: 400, message: 'no' } };
    });
    const supervision = { onChildFailure: 'restart', intensity: 0 } as const;
    const { session } = await family({ provider }, supervision, clock, 1);
    const kin = await session.spawnAll([{ task: 'busy' }, { task: 'bad' }]);
    const [busy, bad] = kin.children;
    if (busy === undefined || bad === undefined) throw new Error('two children were spawned');
    await expect.poll(async () => (await busy.state()).state).toBe('idle');
    failNow();
    expect(await bad.exit()).toEqual({ reason: 'failed' });
    await clock.advance(60 * 60_000);
    expect(starts).toEqual([busy.id, bad.id]);
    expect(await busy.exit()).toEqual({ reason: 'cancelled' });
  });
});
