/**
 * Goal: the preparation of a turn as the pure core decides it. One preparation runs at a time and once per turn, stale
 * completions are dropped, and nothing is lost.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ErrorShape } from '../../../src/base/errors.ts';
import type { EnricherFacts } from '../../../src/session/state/inputs.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState } from '../../../src/session/state/state.ts';
import { call, Machine, startedSession, USAGE } from '../../support/session-kit.ts';

const MELETE: EnricherFacts = { melete: { model: 'muse' } };
const BOTH: EnricherFacts = { ...MELETE, mneme: { model: 'muse' } };
const REFUSED: ErrorShape = { name: 'ModelError', code: 'model_authentication', message: 'no' };
const BROKEN: ErrorShape = { name: 'ModelError', code: 'model_invalid_request', message: 'odd' };

function watched(enrichers: EnricherFacts = MELETE): Machine {
  return startedSession({ agent: { enrichers } });
}

function run(machine: Machine): number {
  return machine.state.enrichment?.run ?? 0;
}

function enriched(machine: Machine, error?: ErrorShape, of = run(machine)): void {
  machine.input({ type: 'enriched', run: of, usage: USAGE, ...(error === undefined ? {} : { error }) });
}

function started(machine: Machine): readonly string[] {
  return machine.allOf('startEnricher').map(({ enricher, run: number }) => `${enricher} ${number}`);
}

describe('a preparation', () => {
  it('F122, R12: comes before the claim, and nothing is claimed before it has ended', () => {
    const machine = watched();
    machine.send('first');
    expect(started(machine)).toEqual(['melete 1']);
    machine.send('second');
    machine.input({ type: 'subagentSaid', child: 's:9', content: 'lost' });
    machine.input({ type: 'wake' });
    expect(machine.state).toMatchObject({ state: 'idle', enrichment: { run: 1, stage: 'preparing', entry: 1 } });
    expect(machine.effect('callModel')).toBeUndefined();
    enriched(machine);
    expect(machine.state).toMatchObject({ state: 'awaiting', usage: USAGE });
    expect(machine.log).toEqual(['user_message first']);
    machine.answer('one');
    expect(started(machine)).toEqual(['melete 1', 'melete 2']);
  });

  it('R26: only turns that start from idle are prepared: a message that rides a running turn is not', () => {
    const machine = watched();
    machine.send('go');
    enriched(machine);
    machine.answer([call('a', 'bash')]);
    machine.send('more');
    machine.finish('a');
    expect(machine.log.at(-1)).toBe('user_message more');
    expect(started(machine)).toEqual(['melete 1']);
  });

  it('R20: a completion of an earlier run is stale', () => {
    const machine = watched();
    machine.send('go');
    machine.input({ type: 'recover' });
    expect(run(machine)).toBe(2);
    enriched(machine, undefined, 1);
    expect(machine.effect('stale')).toMatchObject({ what: 'enrichment' });
    expect(machine.state.state).toBe('idle');
    enriched(machine);
    expect(machine.state.state).toBe('awaiting');
    enriched(machine, undefined, 2);
    expect(machine.effect('stale')).toBeDefined();
  });

  it('F123: a new or reworded goal triggers a recall, also if it was set before a crash', () => {
    const machine = watched(BOTH);
    machine.send('go');
    machine.input({ type: 'goal', change: { action: 'create', description: 'bake' } });
    machine.input({ type: 'recover' });
    enriched(machine);
    expect(machine.state.enrichment).toMatchObject({ stage: 'recalling', run: 3, entry: 1 });
    machine.input({ type: 'recover' });
    expect(started(machine)).toEqual(['melete 1', 'melete 2', 'recall 3', 'recall 4']);
    enriched(machine, BROKEN);
    expect(machine.state.state).toBe('awaiting');
    expect(machine.log.some((line) => line.startsWith('system_message'))).toBe(false);
  });

  it('E2: refused credentials fail the turn, and a message sent with bounceBack bounces', () => {
    const machine = watched();
    const id = machine.send('go', { bounceBack: true });
    enriched(machine, REFUSED);
    expect(machine.state).toMatchObject({ state: 'idle', mailbox: [], blocked: REFUSED });
    expect(machine.log).toEqual(['system_message Authentication failed: no']);
    expect(machine.events('bounce_back')).toMatchObject([{ content: 'go' }]);
    expect(machine.events('authentication_required')).toHaveLength(1);
    expect(machine.seen.settled).toMatchObject([{ id, receipt: { status: 'failed' } }]);
    machine.send('next');
    expect(started(machine)).toEqual(['melete 1']);
    machine.input({ type: 'resume' });
    expect(started(machine)).toEqual(['melete 1', 'melete 2']);
  });

  it('E3: a waiting entry that is prepared is not prepared again, whatever goes before it', () => {
    const machine = watched();
    machine.send('calm');
    machine.input({ type: 'pause' });
    enriched(machine);
    machine.send('now', { deliver: 'interrupt' });
    machine.input({ type: 'resume' });
    enriched(machine);
    expect(machine.log).toEqual(['user_message now']);
    machine.answer('one');
    expect(machine.log.at(-1)).toBe('user_message calm');
    expect(started(machine)).toEqual(['melete 1', 'melete 2']);
    expect(machine.state.prepared).toBeUndefined();
  });

  it('a head without preparation fields restores a session without a preparation', () => {
    const {
      enrichment: _e,
      prepared: _p,
      nextMuseRun: _n,
      unnamed: _u,
      ...old
    } = JSON.parse(snapshotState(startedSession({ sent: 'hello' }).state)) as Record<string, unknown>;
    const { enrichment, prepared, nextMuseRun, unnamed } = restoreState(JSON.stringify(old));
    expect({ enrichment, prepared, nextMuseRun, unnamed }).toEqual({
      enrichment: undefined,
      prepared: undefined,
      nextMuseRun: 1,
      unnamed: false,
    });
    expect(emptyState('s')).toMatchObject({ nextMuseRun: 1, unnamed: false });
  });
});

type Step =
  | { readonly do: 'send'; readonly deliver: 'ride' | 'steer' | 'turn' | 'interrupt' | 'latest' | 'merge' }
  | { readonly do: 'enriched'; readonly error: boolean; readonly stale: boolean }
  | { readonly do: 'answer' | 'interrupt' | 'pause' | 'resume' | 'recover' | 'goal' | 'recall' };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('send' as const),
    deliver: fc.constantFrom('ride', 'steer', 'turn', 'interrupt', 'latest', 'merge'),
  }),
  fc.record({ do: fc.constant('enriched' as const), error: fc.boolean(), stale: fc.boolean() }),
  fc.record({ do: fc.constantFrom('answer', 'interrupt', 'pause', 'resume', 'recover', 'goal', 'recall') }),
);

function act(machine: Machine, each: Step): void {
  if (each.do === 'send') machine.send('m', { deliver: each.deliver });
  else if (each.do === 'enriched') {
    enriched(machine, each.error ? BROKEN : undefined, run(machine) - (each.stale ? 1 : 0));
  } else if (each.do === 'answer') {
    if (machine.state.state === 'awaiting') machine.answer('a');
  } else if (each.do === 'goal') machine.input({ type: 'goal', change: { action: 'create', description: 'g' } });
  else if (each.do === 'recall') machine.input({ type: 'recall', pendingId: machine.state.nextPendingId - 1 });
  else machine.input({ type: each.do });
}

it('S7, E1, A10: any schedule has at most one run in flight, folds to the same state, and ends with all answered', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.constantFrom(MELETE, BOTH), (steps, enrichers) => {
      const machine = watched(enrichers);
      const out = new Set<number>();
      for (const each of steps) {
        const ended = run(machine) - (each.do === 'enriched' && each.stale ? 1 : 0);
        act(machine, each);
        // The runs in flight. A crash ends all of them; an outcome or a cancellation ends one.
        if (each.do === 'recover') out.clear();
        if (each.do === 'enriched') out.delete(ended);
        for (const effect of machine.last) {
          if (effect.type === 'startEnricher') out.add(effect.run);
          else if (effect.type === 'cancelEnricher') out.delete(effect.run);
        }
        const { state } = machine;
        const { enrichment } = state;
        expect([...out]).toEqual(enrichment === undefined ? [] : [enrichment.run]);
        if (enrichment !== undefined) {
          expect(state.state).toBe('idle');
          expect(state.mailbox.map(({ id }) => id)).toContain(enrichment.entry);
        }
        const replayed = Machine.replayed(machine.world, 's', machine.turns);
        expect(snapshotState(replayed.state)).toBe(snapshotState(state));
        expect(snapshotState(restoreState(snapshotState(state)))).toBe(snapshotState(state));
      }
      machine.input({ type: 'resume' });
      for (let left = 500; left > 0; left -= 1) {
        if (machine.state.enrichment !== undefined) enriched(machine);
        else if (machine.state.state === 'awaiting') machine.answer('a');
        else break;
      }
      expect(machine.state).toMatchObject({ state: 'idle', enrichment: undefined, prepared: undefined });
      expect(machine.state.mailbox.filter(({ kind }) => kind === 'active')).toEqual([]);
    }),
    { numRuns: 300 },
  );
});
