/**
 * One atomic turn over a session tree (A6): the turn of one session and of those it reaches in the same batch, a child that
 * is born, a parent that is told. All of it is one append to the journal.
 */
import type { ErrorShape } from '../../src/base/errors.ts';
import type { Observer } from '../../src/session/apply/fold.ts';
import { plantSeed } from '../../src/session/history/fork-seed.ts';
import { usedOf } from '../../src/session/rules/budget.ts';
import type { Effect, Environment, Input } from '../../src/session/state/inputs.ts';
import type { SessionRecord } from '../../src/session/state/records.ts';
import { runTurn } from '../../src/session/turn.ts';
import type { SessionActor } from '../session-actor.ts';
import type { FamilyOrder } from './family-supervisor.ts';

/** What a tree turn needs of its host. */
export interface TreeAccess {
  /** The actor of a session; undefined when there is no such session. */
  find(sessionId: string): SessionActor | undefined;
  /** An actor for a session that does not exist yet. */
  create(sessionId: string): SessionActor;
  environment(actor: SessionActor): Environment;
  observer(actor: SessionActor): Observer | undefined;
  /** What follows from a supervised child's failure, or the end of its back-off, as inputs of its family. */
  supervise(parent: SessionActor, child: SessionActor, error: ErrorShape | undefined): readonly FamilyOrder[];
  /** A child's words as its parent may store them: shortened, the whole kept beside. */
  shorten(text: string): string;
}

/** An effect with the session that asks for it. */
export interface ActorEffect {
  readonly actor: SessionActor;
  readonly effect: Effect;
}

/** What one session wrote in a tree turn. */
export interface ActorWrite {
  readonly actor: SessionActor;
  records: readonly SessionRecord[];
}

/** What a tree turn did. */
export interface TreeTurnOutcome {
  /** Records by session, in the order the sessions were reached; one entry a session. */
  readonly writes: readonly ActorWrite[];
  /** Effects for the outside, in order. */
  readonly effects: readonly ActorEffect[];
}

interface Step {
  readonly actor: SessionActor;
  readonly input: Input;
}

/**
 * Runs inputs of one session and all that follows from them within the tree. Throws only for broken invariants, after which every actor in
 * `touched` is to be dropped and read again from the log; nothing was journalled then. `touched` takes each session that was
 * looked at and perhaps changed, once; `turn` is a number no other turn of the same actors has, by which it knows them.
 */
export function runTreeTurn(
  access: TreeAccess,
  actor: SessionActor,
  inputs: readonly Input[],
  touched: SessionActor[],
  turn: number,
): TreeTurnOutcome {
  const writes: ActorWrite[] = [];
  const effects: ActorEffect[] = [];
  const queue: Step[] = [];
  for (const input of inputs) queue.push({ actor, input });
  for (let index = 0; index < queue.length; index += 1) {
    const { actor: current, input } = queue[index] as Step;
    if (current.touchedIn !== turn) {
      current.touchedIn = turn;
      touched.push(current);
    }
    const { state } = current;
    const used = state.budget === undefined ? 0 : usedOf(state);
    const outcome = runTurn(state, input, access.environment(current), access.observer(current));
    if (outcome.records.length > 0) write(writes, current, outcome.records);
    if (state.budget?.isShared === true) reportUse(access, queue, current, usedOf(state) - used);
    for (const effect of outcome.effects) {
      const next = followUps(access, current, effect);
      if (next === 'outside') effects.push({ actor: current, effect });
      else queue.push(...next);
    }
  }
  return { writes, effects };
}

/** What a session used of a budget is told to the one that spawned it, before anything else that follows. */
function reportUse(access: TreeAccess, queue: Step[], actor: SessionActor, tokens: number): void {
  const parent = tokens === 0 ? undefined : parentOf(access, actor);
  if (parent !== undefined) queue.push({ actor: parent, input: { type: 'childSpent', tokens } });
}

function write(writes: ActorWrite[], actor: SessionActor, records: readonly SessionRecord[]): void {
  const before = writes.length === 0 ? undefined : writes.find((each) => each.actor === actor);
  if (before === undefined) writes.push({ actor, records });
  else before.records = [...before.records, ...records];
}

/** The steps an effect is within the tree, none where its target is gone (R23), or `outside`. */
function followUps(access: TreeAccess, actor: SessionActor, effect: Effect): 'outside' | readonly Step[] {
  switch (effect.type) {
    case 'born': {
      const child = access.create(effect.seed.id);
      // Its first half-step is a step of its own: only once it is born is it known what agent it is made of.
      return [
        { actor: child, input: { type: 'born', seed: effect.seed } },
        { actor: child, input: { type: 'wake' } },
      ];
    }
    case 'forkBorn': {
      const fork = access.create(effect.child);
      // Where the record itself has what the fork begins with, folding it plants that.
      if (effect.record.seed === undefined) plantSeed(fork.state, effect.seed);
      return [{ actor: fork, input: { type: 'forked', record: effect.record } }];
    }
    case 'tellParent': {
      const parent = parentOf(access, actor);
      if (parent === undefined) return [];
      const told: Input =
        effect.input.type === 'subagentSaid'
          ? { ...effect.input, content: access.shorten(effect.input.content) }
          : effect.input;
      return [{ actor: parent, input: told }];
    }
    case 'tellChild': {
      const child = access.find(effect.child);
      return child === undefined ? [] : [{ actor: child, input: { type: 'parentSaid', content: effect.content } }];
    }
    case 'tellChildName': {
      const child = access.find(effect.child);
      return child === undefined ? [] : [{ actor: child, input: { type: 'nicknamed', name: effect.name } }];
    }
    case 'childFailed':
      return supervised(access, actor, effect.error);
    case 'restartDue':
      return supervised(access, actor, undefined);
    default:
      return 'outside';
  }
}

function parentOf(access: TreeAccess, actor: SessionActor): SessionActor | undefined {
  return actor.state.parent === undefined ? undefined : access.find(actor.state.parent);
}

function supervised(access: TreeAccess, actor: SessionActor, error: ErrorShape | undefined): readonly Step[] {
  const parent = parentOf(access, actor);
  if (parent === undefined) return [];
  return access.supervise(parent, actor, error).flatMap(({ session, input }) => {
    const member = access.find(session);
    return member === undefined ? [] : [{ actor: member, input }];
  });
}
