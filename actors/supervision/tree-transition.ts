/**
 * One atomic batch of transitions over a session tree (A6). It covers one session and the sessions that its effects
 * reach, such as a newborn child or a notified parent. The whole batch is one append to the journal.
 */
import { defined } from '../../src/base/defined.ts';
import type { ErrorShape } from '../../src/base/errors.ts';
import type { Observer } from '../../src/session/apply/fold.ts';
import { plantSeed } from '../../src/session/history/fork-seed.ts';
import { usedOf } from '../../src/session/rules/budget.ts';
import { hasActive } from '../../src/session/rules/mailbox.ts';
import type { Effect, Environment, Input } from '../../src/session/state/inputs.ts';
import type { SessionRecord } from '../../src/session/state/records.ts';
import type { SessionState } from '../../src/session/state/state.ts';
import { runTurn } from '../../src/session/turn.ts';
import type { SessionActor } from '../session-actor.ts';
import type { FamilyOrder } from './family-supervisor.ts';

/** The services that a batch needs from its host. */
export interface TreeAccess {
  /** The actor of a session; undefined when there is no such session. */
  find(sessionId: string): SessionActor | undefined;
  /** Creates an actor for a session that does not exist yet. */
  create(sessionId: string): SessionActor;
  environment(actor: SessionActor): Environment;
  /** The inputs that a session must handle before any other, such as its recovery. Asked once in each batch. */
  overdue(actor: SessionActor): readonly Input[];
  observer(actor: SessionActor): Observer | undefined;
  /** The inputs for the family after a supervised child's failure, or (`error` undefined) after its back-off. */
  supervise(parent: SessionActor, child: SessionActor, error: ErrorShape | undefined): readonly FamilyOrder[];
  /** A child's text as its parent may store it: shortened, with the whole text in the result store. */
  shorten(parent: string, text: string): string;
}

/** An effect with the session that asks for it. */
export interface ActorEffect {
  readonly actor: SessionActor;
  readonly effect: Effect;
}

/** The records of one session in a batch. */
export interface ActorWrite {
  readonly actor: SessionActor;
  records: readonly SessionRecord[];
}

/** The result of a batch. */
export interface TreeTurnOutcome {
  /** Records by session, in the order the sessions were reached; one entry per session. */
  readonly writes: readonly ActorWrite[];
  /** Effects for the outside, in order. */
  readonly effects: readonly ActorEffect[];
}

interface Step {
  readonly actor: SessionActor;
  readonly input: Input;
}

const NO_STEPS: readonly Step[] = [];

/**
 * Runs inputs of one session and all inputs that follow from them within the tree. Throws only for broken invariants.
 * In that case nothing was journalled, and every actor in `touched` must be dropped and read again from the log.
 * `touched` receives each reached session once, because such a session may have changed. `turn` identifies this batch:
 * no other batch of the same actors has this number.
 *
 * Whichever way a session is reached, its overdue inputs come first. Otherwise an interrupted session could begin new
 * work for a message of its family, and its recovery would treat that new work as lost.
 */
export function runTreeTransition(
  access: TreeAccess,
  actor: SessionActor,
  inputs: readonly Input[],
  touched: SessionActor[],
  turn: number,
): TreeTurnOutcome {
  const writes: ActorWrite[] = [];
  const effects: ActorEffect[] = [];
  const reach = (reached: SessionActor): readonly Step[] => {
    if (reached.touchedIn === turn) return NO_STEPS;
    reached.touchedIn = turn;
    touched.push(reached);
    const overdue = access.overdue(reached);
    return overdue.length === 0 ? NO_STEPS : overdue.map((input) => ({ actor: reached, input }));
  };
  const queue: Step[] = [...reach(actor), ...inputs.map((input) => ({ actor, input }))];
  for (let index = 0; index < queue.length; index += 1) {
    const overdue = reach((queue[index] as Step).actor);
    if (overdue.length > 0) queue.splice(index, 0, ...overdue);
    const { actor: current, input } = queue[index] as Step;
    const { state } = current;
    // A session that joins a shared budget in this step reports all tokens that it has used.
    const used = state.budget?.isShared === true ? usedOf(state) : 0;
    const isFamily = state.children.size > 0;
    const wasAtRest = isFamily && isAtRest(state);
    const outcome = runTurn(state, input, access.environment(current), access.observer(current));
    if (outcome.records.length > 0) write(writes, current, outcome.records);
    if (state.budget?.isShared === true) reportUse(access, queue, current, usedOf(state) - used);
    if (isFamily && outcome.records.length > 0) {
      const isOver = (!wasAtRest && isAtRest(state)) || outcome.records.some(({ type }) => type === 'restarted');
      if (isOver) endQuestions(access, queue, state);
    }
    for (const effect of outcome.effects) {
      const next = followUps(access, current, effect);
      if (next === 'outside') effects.push({ actor: current, effect });
      else queue.push(...next);
    }
  }
  return { writes, effects };
}

/** True for a sub-agent that has ended and has nothing more to do, so that it will not answer its children. */
function isAtRest(state: SessionState): boolean {
  return state.exit !== undefined && state.state === 'idle' && !hasActive(state);
}

/** Lets the children that wait for this session's answer continue without an answer. */
function endQuestions(access: TreeAccess, queue: Step[], { children }: SessionState): void {
  for (const { id } of children.values()) {
    const child = access.find(id);
    const asks = child?.state.approvals?.questions?.some(({ asked }) => asked === 'parent');
    if (child !== undefined && asks === true) queue.push({ actor: child, input: { type: 'parentEnded' } });
  }
}

/** Reports a session's use of a shared budget to its parent, before the steps of its effects. */
function reportUse(access: TreeAccess, queue: Step[], actor: SessionActor, tokens: number): void {
  const parent = tokens === 0 ? undefined : parentOf(access, actor);
  if (parent !== undefined) queue.push({ actor: parent, input: { type: 'childSpent', tokens } });
}

function write(writes: ActorWrite[], actor: SessionActor, records: readonly SessionRecord[]): void {
  const before = writes.length === 0 ? undefined : writes.find((each) => each.actor === actor);
  if (before === undefined) writes.push({ actor, records });
  else before.records = [...before.records, ...records];
}

/**
 * The steps to which an effect leads within the tree: none if its target is gone (R23). `outside`: the effect is not
 * for a session of the tree.
 */
function followUps(access: TreeAccess, actor: SessionActor, effect: Effect): 'outside' | readonly Step[] {
  switch (effect.type) {
    case 'born': {
      const child = access.create(effect.seed.id);
      // The child's first half-step is a separate step, because the child's agent is known only after its birth.
      return [
        { actor: child, input: { type: 'born', seed: effect.seed } },
        { actor: child, input: { type: 'wake' } },
      ];
    }
    case 'forkBorn': {
      const fork = access.create(effect.child);
      // If the record has the fork's beginning, applying the record puts that beginning into the fork's state.
      if (effect.record.seed === undefined) plantSeed(fork.state, effect.seed);
      const { record, by } = effect;
      return [{ actor: fork, input: { type: 'forked', record, ...defined({ by }) } }];
    }
    case 'sendToParent': {
      const parent = parentOf(access, actor);
      if (parent === undefined) return [];
      const input: Input =
        effect.input.type === 'subagentSaid'
          ? { ...effect.input, content: access.shorten(parent.id, effect.input.content) }
          : effect.input;
      return [{ actor: parent, input }];
    }
    case 'sendToChild': {
      const child = access.find(effect.child);
      return child === undefined ? [] : [{ actor: child, input: effect.input }];
    }
    case 'nextStep':
      return [{ actor, input: { type: 'wake' } }];
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
