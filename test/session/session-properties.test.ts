/**
 * Goal: for any inputs in any order, a session's invariants hold (S1 to S6) and no accepted message is lost or doubled
 * (A7). It never gets stuck (I7), and its state is the fold of its log. Method: random lives of one session. A failing
 * life prints its seed.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isCallId } from '../../src/base/ids.ts';
import { applyAll } from '../../src/session/apply/apply.ts';
import { decodeTransition, encodeTransition } from '../../src/session/state/records.ts';
import { restoreState, snapshotState } from '../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../src/session/state/state.ts';
import { foldedAcrossSnapshot } from '../support/reopen.ts';
import { type Seen, watcher } from '../support/session-kit.ts';
import { Life } from '../support/session-life.ts';
import { type LifeOptions, lifeOptions, steps } from '../support/session-steps.ts';

const lives = steps();

/** `wasHidden`: seqs of messages that some branch hid at an earlier step; those hidden now are added. */
function checkState(state: SessionState, wasHidden: Set<number>): void {
  const seqs = state.messages.map((message) => message.seq);
  expect(seqs, 'S1').toEqual([...new Set(seqs)].sort((a, b) => a - b));
  // Only a message that returned with its branch may be below the floor, because it may have been hidden while its
  // neighbours left.
  expect(
    seqs.filter((seq) => (seq < state.floor && !wasHidden.has(seq)) || seq >= state.nextMessageSeq),
    'S1',
  ).toEqual([]);
  for (const { seq } of state.hidden) wasHidden.add(seq);
  const ids = state.mailbox.map((entry) => entry.id);
  expect(ids, 'S2').toEqual([...new Set(ids)].sort((a, b) => a - b));
  expect(state.current !== undefined, 'S3').toBe(state.state === 'awaiting');
  expect(state.turn !== undefined, 'S3').toBe(state.state !== 'idle');
  expect([...state.openCalls.keys()], 'S4').toEqual(unansweredCalls(state));
  if (state.openCalls.size > 0) expect(state.state, 'S4').toBe('executing');
  expect(state.tokens, 'S6').toBe(state.messages.reduce((sum, message) => sum + message.tokens, 0));
  const waiting = state.mailbox.filter(({ seed }) => seed === undefined);
  expect(state.mailboxBytes, 'S8').toBe(waiting.reduce((sum, { bytes }) => sum + bytes, 0));
  const every = [...state.messages, ...state.hidden];
  const calls = every.flatMap((message) => (message.type === 'tool_call' ? [message.toolUseId] : []));
  expect([...state.callIds].sort(), 'ids of the calls in the log').toEqual(calls.sort());
  expect(state.interruptRequested, 'effect B').toBe(false);
  if (state.blocked !== undefined) expect(state.state, 'Δ12').toBe('idle');
}

/** The contract's `tool_round_complete`, word for word: no response in the log, none in the mailbox. */
function unansweredCalls(state: SessionState): readonly string[] {
  const answered = new Set<string | undefined>(state.mailbox.map((entry) => entry.toolUseId));
  const calls: string[] = [];
  for (const message of state.messages) {
    if (message.type === 'tool_response') answered.add(message.toolUseId);
    else if (message.type === 'tool_call' && message.toolUseId !== undefined) calls.push(message.toolUseId);
  }
  expect(calls.every(isCallId), 'R07').toBe(true);
  expect(new Set(calls).size, 'R05').toBe(calls.length);
  return calls.filter((id) => !answered.has(id));
}

/** A7, from the events alone: each entry was added once, left at most once, and its content is where the events say. */
function checkConservation(state: SessionState, seen: Seen): void {
  const waiting = new Set(state.mailbox.map((entry) => entry.id));
  const left = new Map<number, string>();
  const logged: string[] = [];
  const accepted = new Map<number, string>();
  for (const { body } of seen.events) {
    if (body.type === 'pending.created') {
      expect(accepted.has(body.pending.id), 'A7: accepted twice').toBe(false);
      accepted.set(body.pending.id, JSON.stringify(body.pending.content));
    } else if (body.type === 'pending.removed') {
      expect(left.has(body.pendingId), 'A7: left twice').toBe(false);
      left.set(body.pendingId, body.reason);
    } else if (body.type === 'message.created' && body.message.type !== 'tool_call') {
      logged.push(JSON.stringify(body.message.content));
    }
  }
  for (const [id, content] of accepted) {
    expect(waiting.has(id), `A7: entry ${id}`).toBe(!left.has(id));
    const marker = /<\d+>/.exec(content)?.[0];
    if (marker === undefined) continue;
    const places = logged.filter((text) => text.includes(marker)).length;
    expect(places, `A7: ${marker}`).toBe(left.get(id) === 'promoted' ? 1 : 0);
  }
}

/**
 * Every user entry waits, or belongs to the running turn, or was settled once. So no receipt stays pending for ever.
 */
function checkReceipts(state: SessionState, seen: Seen): void {
  const settled = seen.settled.map(({ id }) => id);
  expect(new Set(settled).size, 'settled twice').toBe(settled.length);
  const open = new Set(settled);
  const add = (id: number): void => {
    expect(open.has(id), `receipt ${id} is open and settled`).toBe(false);
    open.add(id);
  };
  for (const entry of state.mailbox) if (entry.type === 'user_message') add(entry.id);
  for (const id of state.turn?.entries ?? []) add(id);
  const users = seen.events.flatMap(({ body }) =>
    body.type === 'pending.created' && body.pending.type === 'user_message' ? [body.pending.id] : [],
  );
  expect([...open].sort((a, b) => a - b)).toEqual(users);
}

/** An awaiting session has exactly one open answer that continues it. An executing session has all its open calls. */
function checkOwed(life: Life): void {
  const { state, owed } = life;
  const { current } = state;
  const goesOn = owed.filter((effect) => {
    if (effect.type === 'callModel' || effect.type === 'retryLater') {
      return effect.halfStep === current?.halfStep && effect.attempt === current.attempt;
    }
    return effect.type === 'evaluateSystem' && current !== undefined && effect.epoch === state.epoch;
  });
  if (state.state === 'awaiting') {
    const calls = goesOn.filter((effect) => effect.type !== 'evaluateSystem');
    expect(calls.length, 'one call').toBeLessThanOrEqual(1);
    expect(goesOn.length, 'awaiting nothing').toBeGreaterThan(0);
  }
  const running = owed.flatMap((effect) => (effect.type === 'runTool' ? [effect.callId] : []));
  expect(running, 'I4: each open call runs once').toEqual([...state.openCalls.keys()]);
}

/** A life that is checked after each of its steps. */
function checkedLife(options: LifeOptions): Life {
  const wasHidden = new Set<number>();
  return new Life(options, {
    stepped: (life) => {
      const { machine } = life;
      checkState(machine.state, wasHidden);
      checkConservation(machine.state, machine.seen);
      checkReceipts(machine.state, machine.seen);
      checkOwed(life);
      expect(
        machine.seen.events.map(({ seq }) => seq),
        'S5',
      ).toEqual(Array.from({ length: machine.state.eventSeq }, (_, index) => index + 1));
    },
  });
}

describe('any session', () => {
  it('A7, S1-S6, T5: receipts and open answers hold after every step', () => {
    fc.assert(
      fc.property(lifeOptions, lives, (options, all) => {
        checkedLife(options).live(all);
      }),
      { numRuns: 200 },
    );
  });

  it('S1: only messages that a child undid before its restart return from below the floor', () => {
    const options = { tokenBudget: 60, toolRounds: 2, hasSystemFunction: false, thinks: false } as const;
    const life = checkedLife({ ...options, isChild: true, resumeAwaiting: false, supervision: 'later' });
    life.live([
      { do: 'crash', loses: false },
      { do: 'pause' },
      { do: 'task', move: 'undo', which: 0 },
      { do: 'restart' },
    ]);
    const { hidden, floor } = life.state;
    expect(hidden.length).toBeGreaterThan(0);
    expect(hidden.every(({ seq }) => seq < floor)).toBe(true);
    const undone = hidden.map(({ seq }) => seq);
    life.live([{ do: 'task', move: 'switchTask', which: 1 }]);
    expect(life.state.messages.map(({ seq }) => seq).filter((seq) => seq < floor)).toEqual(undone);
  });

  it('I7, T5: once the session is resumed and every call answered, it is idle and no active entry waits', () => {
    fc.assert(
      fc.property(lifeOptions, lives, (options, all) => {
        const life = new Life(options).live(all);
        do {
          life.settle();
          life.live([{ do: 'resume' }]);
        } while (life.owed.length > 0);
        life.settle();
        expect(life.state).toMatchObject({ state: 'idle', paused: false, blocked: undefined });
        expect(life.state.mailbox.filter((entry) => entry.kind === 'active')).toEqual([]);
        expect(life.state.openCalls.size).toBe(0);
        expect(life.state.restartAt, 'a restart for ever').toBeUndefined();
        if (life.state.parent !== undefined) expect(life.state.exit, 'a child ends').toBeDefined();
      }),
      { numRuns: 200 },
    );
  });

  it('A10, T5: the state is the fold of its records, through their text and through a snapshot at any position', () => {
    fc.assert(
      fc.property(lifeOptions, lives, fc.nat(), (options, all, place) => {
        const { machine } = new Life(options).live(all);
        const turns = machine.turns.map((turn) => decodeTransition(encodeTransition(turn)));
        expect(turns).toEqual(machine.turns);
        const folded = foldedAcrossSnapshot(machine, place);
        expect(folded).toStrictEqual(machine.state);
        expect(restoreState(snapshotState(machine.state))).toStrictEqual(machine.state);
        expect(snapshotState(folded)).toBe(snapshotState(machine.state));
      }),
      { numRuns: 150 },
    );
  });

  it('I2, S5, T5: a replay publishes the same events with the same numbers, and settles and promotes the same entries', () => {
    fc.assert(
      fc.property(lifeOptions, lives, (options, all) => {
        const { machine } = new Life(options).live(all.filter((step) => step.do !== 'crash' && step.do !== 'reload'));
        const { observer, seen } = watcher();
        const state = emptyState(machine.state.id);
        for (const turn of machine.turns) applyAll(state, turn.records, turn.at, observer);
        expect(seen).toEqual(machine.seen);
      }),
      { numRuns: 200 },
    );
  });

  it('A10, T5: an observer changes nothing: the state is the same unobserved', () => {
    fc.assert(
      fc.property(lifeOptions, lives, (options, all) => {
        const { machine } = new Life(options).live(all);
        const state = emptyState(machine.state.id);
        for (const turn of machine.turns) applyAll(state, turn.records, turn.at);
        expect(snapshotState(state)).toBe(snapshotState(machine.state));
      }),
      { numRuns: 100 },
    );
  });

  it('I1, T5: a message with a key is accepted once, however often it is sent', () => {
    fc.assert(
      fc.property(lifeOptions, lives, fc.array(fc.nat(3), { minLength: 1, maxLength: 8 }), (options, all, keys) => {
        const { machine } = new Life(options).live(all);
        const ids = new Map<string, unknown>();
        for (const number of keys) {
          const key = `again ${number}`;
          const id = machine.send(`content of ${key}`, { key, fingerprint: key });
          expect(ids.get(key) ?? id).toBe(id);
          ids.set(key, id);
        }
        const sent = machine.records.filter(
          (record) => record.type === 'accepted' && record.entry.key?.startsWith('again') === true,
        );
        expect(sent).toHaveLength(ids.size);
      }),
      { numRuns: 100 },
    );
  });
});
