/**
 * Answers the methods `session.…` that change nothing: state, messages, pages, the request, events. A method answers
 * once the data that it read is durable (A2).
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { AnswerDraft } from '../../base/answer-draft.ts';
import { defined } from '../../base/defined.ts';
import { type ErrorShape, errorShape, TroupeError } from '../../base/errors.ts';
import { addUsage, type Message, NO_USAGE, type Usage } from '../../base/messages.ts';
import { renderSession } from '../../context/render.ts';
import { dumpRequest } from '../../context/request-dump.ts';
import type { ModelRequest } from '../../models/provider.ts';
import { copiedFork } from '../../session/decide/fork.ts';
import { type Explanation, explain } from '../../session/explain.ts';
import { bySeq, everyMessage } from '../../session/history/branch.ts';
import { messagesShown } from '../../session/history/transient.ts';
import { budgetOf } from '../../session/rules/budget.ts';
import { viewport } from '../../session/rules/eviction.ts';
import { goalsOf } from '../../session/rules/goals.ts';
import { hasActive } from '../../session/rules/mailbox.ts';
import { isPreparing } from '../../session/rules/memory.ts';
import { isRefusedRequest, waitingPhase } from '../../session/rules/run-loop.ts';
import { statusOf } from '../../session/rules/status.ts';
import { type LoggedMessage, publicMessage } from '../../session/state/messages.ts';
import { emptyState, type SessionState } from '../../session/state/state.ts';
import type { OfSession } from '../protocol/addresses.ts';
import type { ForkedRecord, SessionSnapshot, ShardHandlers, ShardMethods } from '../protocol/protocol.ts';
import { archivedChunks, chunkMessages } from '../reading/archived-chunks.ts';
import { contentReader } from '../reading/content-reader.ts';
import { messagePage, pageByPlace, pendingOf, pendingPage, requestPage } from '../reading/session-pages.ts';
import { foldWhole } from '../reading/session-reader.ts';
import type { Shard } from '../shard/shard.ts';
import { type ShardDoor, undefinedAgent } from './shard-door.ts';

/** The methods of this file; all others of `session.…` are in `session-changes.ts`. */
export type SessionReads = Pick<
  ShardHandlers,
  | 'session.state'
  | 'session.usage'
  | 'session.explain'
  | 'session.messages'
  | 'session.pending'
  | 'session.page'
  | 'session.viewport'
  | 'session.request'
  | 'session.goals'
  | 'session.chunks'
  | 'session.chunk'
  | 'session.copy'
  | 'session.events'
  | 'session.watch'
>;

/** See the head of the file. */
export function sessionReads(door: ShardDoor): SessionReads {
  const { shard } = door;
  const { journal, clock } = shard.parts;
  return {
    'session.state': async ({ session }) => {
      const isolation = shard.life.isolationOf(session);
      if (isolation !== undefined)
        return blockedBy(snapshotOf(emptyState(session), clock.now()), errorShape(isolation));
      return door.read(
        session,
        (actor) => {
          const snapshot = snapshotOf(actor.state, clock.now(), shard.drafts.of(actor));
          const refusal = shard.life.callWaitOf(session)?.refusal ?? shard.residency.blockOf(actor.state);
          return refusal === undefined ? snapshot : blockedBy(snapshot, refusal);
        },
        () => snapshotOf(emptyState(session), clock.now()),
      );
    },
    'session.usage': ({ session, tree }) => usageOf(door, session, tree),
    'session.explain': async ({ session }) => {
      const isolation = shard.life.isolationOf(session);
      if (isolation !== undefined) return { reason: 'blocked', detail: isolation.message };
      return door.read<Explanation>(
        session,
        ({ state }) => {
          const explained = explanationOf(shard, state);
          const isRefused = explained.reason === 'blocked' && isRefusedRequest(state.blocked);
          const request = isRefused ? render(shard, state) : undefined;
          return request === undefined ? explained : { ...explained, request: dumpRequest(request) };
        },
        () => explanationOf(shard, emptyState(session)),
      );
    },
    /** Answers with the messages, oldest first. Messages that are no longer in memory are read from the log. */
    'session.messages': ({ session, after = 0, limit = Number.POSITIVE_INFINITY }) =>
      door.read<readonly Message[]>(
        session,
        (actor) => {
          const { floor, hiddenFloor } = actor.state;
          const isInMemory = after + 1 >= Math.max(floor, hiddenFloor);
          const known = isInMemory ? everyMessage(actor.state) : allMessages(shard, actor);
          const found: Message[] = [];
          for (const message of bySeq(known)) {
            if (found.length >= limit) break;
            if (message.seq > after) found.push(publicMessage(message));
          }
          return found;
        },
        () => [],
      ),
    'session.pending': ({ session }) =>
      door.read(
        session,
        (actor) => pendingOf(actor.state, contentReader(journal, actor.key)),
        () => [],
      ),
    'session.page': (request) => {
      const { session, of } = request;
      if (of === 'request') return readRequest(door, request, (whole) => requestPage(whole, request));
      return door.read<ShardMethods['session.page']['answer']>(
        session,
        (actor) => {
          if (of === 'messages') return messagePage(journal, actor, request);
          if (of === 'pending') return pendingPage(actor.state, request, contentReader(journal, actor.key));
          const { items, ...rest } = pageByPlace(viewportOf(shard, actor), request);
          return { ...rest, items: items.map(publicMessage) };
        },
        () => ({ items: [] }),
      );
    },
    'session.viewport': ({ session }) =>
      door.read<readonly Message[]>(
        session,
        (actor) => viewportOf(shard, actor).map(publicMessage),
        () => [],
      ),
    'session.request': (request) => readRequest(door, request, (whole) => whole),
    'session.goals': ({ session }) =>
      door.read(
        session,
        (actor) => goalsOf(actor.state),
        () => [],
      ),
    'session.chunks': ({ session }) =>
      door.read(
        session,
        (actor) => archivedChunks(journal, actor),
        () => [],
      ),
    'session.chunk': ({ session, number }) =>
      door.read(
        session,
        (actor) => chunkMessages(journal, actor, number),
        () => undefined,
      ),
    'session.copy': ({ session, at }) =>
      door.read<ForkedRecord>(
        session,
        ({ state }) => copiedFork(state, at),
        () => {
          throw new TroupeError('unknown_session', `there is no session ${JSON.stringify(session)}`);
        },
      ),
    'session.events': (request) => {
      const key = journal.keyOf(request.session);
      if (key === undefined) return Promise.resolve({ events: [], isComplete: true });
      // The log is read now, and the answer follows the flush. A read after the flush could return transitions that
      // were appended in the meantime and are not durable yet: the journal shows them too.
      return door.readDurable(() => shard.replays.page(request.session, key, request.after, request));
    },
    'session.watch': ({ session, on }) => {
      shard.subscribers.watch(session, on);
      return undefined;
    },
  };
}

/**
 * The tokens of a session, with `tree` also of all sessions below it. Each session is read in a separate tick, so that
 * the thread serves other requests in between.
 */
async function usageOf(door: ShardDoor, session: string, tree: boolean): Promise<Usage> {
  let sum = NO_USAGE;
  const open = [session];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const { usage, children } = await door.read(
      id,
      ({ state }) => ({ usage: state.usage, children: tree ? [...state.children.keys()] : [] }),
      () => ({ usage: NO_USAGE, children: [] }),
    );
    if (!tree) return usage;
    sum = addUsage(sum, usage);
    open.push(...children);
    await new Promise<void>((resolve) => door.shard.parts.soon(resolve));
  }
  return sum;
}

function explanationOf(shard: Shard, state: SessionState): Explanation {
  const { clock } = shard.parts;
  return explain(state, {
    now: clock.now(),
    block: shard.residency.blockOf(state),
    isMoving: shard.isMoving(state.id),
    isQueued: shard.life.isQueued(state.id),
    isHandingOver: shard.life.startsNothing,
    governorWait: shard.life.callWaitOf(state.id)?.detail,
    approvalsMs: shard.approvalsMs(state),
  });
}

/** The request of a session; undefined if its agent is not defined. `shown`: the messages, with transient ones. */
function render(shard: Shard, state: SessionState, shown?: readonly LoggedMessage[]): ModelRequest | undefined {
  const agent = shard.parts.catalog.of(state);
  if (agent === undefined) return undefined;
  const container = state.container === undefined ? {} : { container: state.container.id };
  const isSent = state.current !== undefined;
  return { ...agent.header(state), ...container, messages: renderSession(state, agent.renderOptions, shown, isSent) };
}

/** Reads the request that a model would receive now. */
function readRequest<T>(door: ShardDoor, request: OfSession, look: (whole: ModelRequest) => T): Promise<T> {
  const { shard } = door;
  const { catalog } = shard.parts;
  const renderKnown = (state: SessionState, shown?: readonly LoggedMessage[]): ModelRequest => {
    const rendered = render(shard, state, shown);
    if (rendered !== undefined) return rendered;
    throw undefinedAgent(state, shard.parts);
  };
  return door.read(
    request.session,
    ({ state, transients }) =>
      look(renderKnown(state, transients === undefined ? undefined : messagesShown(state, transients))),
    () =>
      look(
        renderKnown({
          ...emptyState(request.session),
          agent: door.agentFor(request) ?? [...catalog.versions.names][0] ?? '',
        }),
      ),
  );
}

/** Every message that was not removed: the log is folded without evictions and with every branch. */
function allMessages(shard: Shard, actor: SessionActor): SessionState['messages'] {
  return foldWhole(shard.parts.journal, actor, { keepsAll: true }).messages;
}

function viewportOf(shard: Shard, actor: SessionActor): readonly LoggedMessage[] {
  const budget = shard.residency.agentOf(actor)?.facts.tokenBudget ?? shard.parts.settings.llm.tokenBudget;
  return viewport(actor.state.messages, budget);
}

/**
 * The snapshot of a state, for `session.state`. `draft`: the draft of a call whose end is not in the log; missing: the
 * state's draft of a lost answer.
 */
function snapshotOf(state: SessionState, now: number, draft: AnswerDraft | undefined = state.draft): SessionSnapshot {
  // A retry whose time has come counts as an ordinary call.
  const isRetrying = (state.current?.retryAt ?? 0) > now;
  const phase = phaseOf(state, isRetrying);
  return {
    state: state.state,
    status: statusOf(state),
    ...defined({
      phase,
      blocked: state.blocked,
      lastOutcome: state.last?.outcome,
      lastError: state.last?.error,
      draft,
      removed: state.removed,
    }),
    mailbox: state.mailbox.length,
    seq: state.eventSeq,
    children: [...state.children.values()].map(({ id, name, exited }) => ({
      id,
      name,
      ...defined({ exited }),
    })),
    ...(state.active === undefined || state.active.skills.length === 0 ? {} : { skills: state.active.skills }),
    ...(state.active?.workflow == null ? {} : { workflow: state.active.workflow }),
    usage: state.usage,
    ...defined({ budget: budgetOf(state) }),
  };
}

/** The snapshot of a session that is blocked for a reason outside its log. */
function blockedBy(snapshot: SessionSnapshot, blocked: ErrorShape): SessionSnapshot {
  return { ...snapshot, status: 'blocked', blocked };
}

function phaseOf(state: SessionState, isRetrying: boolean): SessionSnapshot['phase'] {
  if (state.paused) return 'paused';
  const waiting = waitingPhase(state);
  if (waiting !== undefined) return waiting;
  if (state.suspended !== undefined) return 'suspended';
  if (state.enrichment !== undefined) return 'preparing';
  if (state.state !== 'awaiting' && isPreparing(state.memory) && hasActive(state)) return 'preparing';
  return isRetrying ? 'retrying' : undefined;
}
