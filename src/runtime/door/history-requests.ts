/** Answers the methods `history.…`: operations on a session's history, queries of it, and its subscriptions. */
import { fitOf } from '../../../actors/answer-forms.ts';
import { isRunnable, type SessionActor } from '../../../actors/session-actor.ts';
import { TRANSIENT_SESSIONS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { InvalidArgumentError, LimitError } from '../../base/errors.ts';
import { planEdit } from '../../session/history/edit-plan.ts';
import { answerQuery } from '../../session/history/history-query.ts';
import type { Environment, Input } from '../../session/state/inputs.ts';
import { emptyState } from '../../session/state/state.ts';
import type { HandlersOf, ShardMethods } from '../protocol/protocol.ts';
import type { Shard } from '../shard/shard.ts';
import type { Reply } from '../shard/shard-parts.ts';
import type { ShardDoor } from './shard-door.ts';

/** See the head of the file. */
export function historyRequests(door: ShardDoor): HandlersOf<'history'> {
  const { shard } = door;
  return {
    'history.edit': (request) => {
      door.checkOpen();
      return editHistory(door, request);
    },
    'history.read': ({ session, query }) =>
      door.read(
        session,
        (actor) => answerQuery(actor.state, actor.transients, query),
        () => answerQuery(emptyState(session), undefined, query),
      ),
    'history.watch': ({ session, on }) => {
      shard.subscribers.listen(session, on);
      return undefined;
    },
    'history.gate': ({ session, on }) => {
      shard.subscribers.gate(session, on);
      return undefined;
    },
  };
}

/**
 * Runs one operation. Resolves with the operation's value once the operation is durable. While a model call of the
 * session is in flight, the operation waits for the answer. A session that does not exist is created only if the
 * operation puts something into its history.
 */
function editHistory(door: ShardDoor, request: ShardMethods['history.edit']['request']): Promise<unknown> {
  const { shard } = door;
  const { session, edit, key, fingerprint, incarnation, by } = request;
  const keyed = key === undefined ? {} : { key, fingerprint: fingerprint ?? '' };
  const given: Input = { type: 'edit', request: edit, ...keyed, ...defined({ by }) };
  // The answer to `append` names the edited session and its incarnation, which are known before the edit is done.
  let edited: SessionActor | undefined;
  return new Promise((resolve, reject) => {
    const reply: Reply = { resolve, reject };
    const actor = shard.residency.find(session);
    if (incarnation !== undefined && incarnation !== actor?.key)
      throw otherIncarnation(session, incarnation, actor?.key);
    if (actor === undefined && changesNothing(shard, session, edit)) {
      resolve(planEdit(emptyState(session), edit, environmentOf(shard)).value);
      return;
    }
    const agent = door.agentFor(request);
    const input = door.redacted(session, given, agent);
    // An interrupted session continues before the operation. If the session then makes a model call, the operation
    // waits for the answer.
    if (actor !== undefined && isRunnable(actor.state)) shard.transitions.submit(session, []);
    const isFirst = actor?.transients === undefined || actor.transients.length === 0;
    if (isFirst && 'message' in edit && edit.message['transient'] === true) checkTransients(shard);
    if (actor?.state.state === 'awaiting') shard.edits.add(actor, { input, reply });
    else shard.transitions.submit(session, [input], reply, agent);
    edited = actor ?? shard.residency.find(session);
  }).then((value) =>
    edit.operation !== 'append' || edited === undefined || typeof value !== 'object'
      ? value
      : { ...value, session, incarnation: edited.key },
  );
}

function otherIncarnation(session: string, wanted: number, found: number | undefined): InvalidArgumentError {
  const there =
    found === undefined ? 'no session has this id now' : `the session of this id is now incarnation ${found}`;
  return new InvalidArgumentError(
    'invalid_argument',
    `the handle is of incarnation ${wanted} of session ${JSON.stringify(session)}, which was deleted; ${there}`,
    { data: { session, incarnation: wanted } },
  );
}

function checkTransients(shard: Shard): void {
  if (shard.residency.transientSessions < TRANSIENT_SESSIONS_MAX) return;
  throw new LimitError(`at most ${TRANSIENT_SESSIONS_MAX} sessions of a thread have transient messages`, {
    data: { limit: 'transientSessions', value: shard.residency.transientSessions },
  });
}

/** True if the operation would write nothing into an empty history; throws the error that would refuse it. */
function changesNothing(shard: Shard, session: string, edit: ShardMethods['history.edit']['request']['edit']): boolean {
  const plan = planEdit(emptyState(session), edit, environmentOf(shard));
  return plan.record === undefined && plan.transients === undefined;
}

function environmentOf(shard: Shard): Environment {
  const { settings, limits, catalog, clock } = shard.parts;
  return {
    now: clock.now(),
    random: 0,
    limits,
    settings,
    agent: catalog.missing(''),
    toolNamesOf: () => undefined,
    agentNames: () => [],
    versionOf: () => undefined,
    admits: false,
    exists: () => false,
    fitOf,
  };
}
