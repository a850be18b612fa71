/**
 * Answers the methods `session.…` that change a session: messages, decisions, sub-agents, goals, compression, forks. A
 * method answers once its change is durable (A2).
 */
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import { errorShape } from '../../base/errors.ts';
import type { CompressAnswer } from '../../session/decide/compression.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { Entry } from '../../session/state/records.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { HandlersOf, ShardMethods, SpawnAnswer } from '../protocol/protocol.ts';
import { messageBytes, postedMessage } from '../protocol/sent-message.ts';
import { compressionEnd } from '../reading/archived-chunks.ts';
import type { Reply } from '../shard/shard-parts.ts';
import { receiptOf } from './receipt-requests.ts';
import type { SessionReads } from './session-reads.ts';
import { type ShardDoor, settle } from './shard-door.ts';

type Send = ShardMethods['session.send'];

/** The methods `session.…` that are not in `session-reads.ts`. */
type SessionChanges = Omit<HandlersOf<'session'>, keyof SessionReads>;

/** See the head of the file. */
export function sessionChanges(door: ShardDoor): SessionChanges {
  const { shard } = door;
  return {
    'session.send': (request) => send(door, request),
    // Only the parsed message is passed on, so that the bytes of the request can be freed.
    'session.post': ({ session, agent, json }) =>
      send(door, { session, ...(agent === undefined ? {} : { agent }), ...postedMessage(json) }),
    'session.recall': (request) =>
      door.submitIfPresent(request, { type: 'recall', pendingId: request.pendingId }, false),
    'session.interrupt': (request) => {
      const { reason } = request;
      return door.submitIfPresent(request, { type: 'interrupt', ...(reason === undefined ? {} : { reason }) }, false);
    },
    'session.approve': (request) => {
      const { callId, allow, reason, input, by } = request;
      return door.submitIfPresent(
        request,
        {
          type: 'approve',
          callId,
          allow,
          ...(reason === undefined ? {} : { reason }),
          ...(input === undefined ? {} : { input }),
          ...defined({ by }),
        },
        false,
      );
    },
    'session.answer': (request) => {
      const { callId, reply, by } = request;
      return door.submitIfPresent(request, { type: 'answer', callId, reply, ...defined({ by }) }, false);
    },
    'session.budget': (request) => {
      const { tokens } = request;
      return door.submit(request, { type: 'setBudget', ...(tokens === undefined ? {} : { tokens }) });
    },
    'session.pause': (request) => door.submit(request, { type: 'pause' }),
    'session.resume': async (request) => {
      shard.life.liftIsolation(request.session);
      await shard.life.resumeModels(request.session);
      return door.submit(request, { type: 'resume' });
    },
    'session.spawn': async (request) => {
      door.checkOpen();
      // The actor gets all items in one tick, so they share a flush.
      const answers = request.items.map((item) =>
        door
          .submit<SpawnAnswer>(request, { type: 'spawn', request: item })
          .catch((error: unknown): SpawnAnswer => ({ error: errorShape(error) })),
      );
      return Promise.all(answers);
    },
    'session.goal': (request) => door.submitWhileOpen(request, { type: 'goal', change: request.change }),
    'session.attach': (request) => door.submitWhileOpen(request, { type: 'goal', change: request.change }),
    'session.activate': (request) => {
      const { kind, name, content } = request;
      return door.submitWhileOpen(request, { type: 'activate', kind, name, content });
    },
    /** Compresses a conversation now. Answers when the compression has ended and is durable. */
    'session.compress': async (request) => {
      const { session, force } = request;
      const begun = await door.submitWhileOpen<CompressAnswer>(request, { type: 'compress', force });
      if (!('started' in begun)) return begun;
      return door.awaitDurable(
        () => compressionEnd(shard.residency.find(session), begun.started),
        (reply, again) => shard.waiters.onCompression(session, reply, again),
      );
    },
    /** Makes a fork that shares the log of its original. */
    'session.fork': ({ session, id, at, by }) => door.submit({ session }, { type: 'fork', ...defined({ id, at, by }) }),
    /** Makes a fork of a session on another shard, from the record that `session.copy` returned there. */
    'session.plant': ({ session, record, by }) =>
      settle((reply) => shard.transitions.beget(session, [{ type: 'forked', record, ...defined({ by }) }], reply)),
  };
}

function send(door: ShardDoor, request: Send['request']): Promise<Send['answer']> {
  const { session, content, deliver, key, fingerprint, bounceBack, from, replaces, output, follow } = request;
  const bytes = messageBytes(content, output);
  // The members are assigned one by one: almost every message has none of these members, and a thousand messages may
  // arrive at once.
  const entry: Draft<Entry> = { type: 'user_message', content };
  if (deliver !== undefined) entry.deliver = deliver;
  if (key !== undefined) {
    entry.key = key;
    entry.fingerprint = fingerprint ?? '';
  }
  if (bounceBack === true) entry.bounceBack = bounceBack;
  if (from !== undefined) entry.source = { type: 'user', name: from };
  if (output !== undefined) entry.output = output;
  door.checkOpen();
  return new Promise((resolve, reject) => {
    const reply: Draft<Reply> = { resolve: resolve as Reply['resolve'], reject };
    if (follow !== undefined) {
      reply.isDeferrable = true;
      reply.onAccepted = (pendingId) => followReceipt(door, session, pendingId, follow);
    }
    const input: Draft<Extract<Input, { type: 'send' }>> = { type: 'send', entry, bytes };
    if (replaces !== undefined) input.replaces = replaces;
    const created = door.agentFor(request);
    door.shard.transitions.submit(session, [door.redacted(session, input, created)], reply, created);
  });
}

/**
 * Sends a receipt's final state to the follower once the state is durable. If waiting here cannot provide the state,
 * sends `undefined`. Then the follower requests the state itself (`receipt.wait`).
 */
function followReceipt({ shard }: ShardDoor, session: string, pendingId: number, follow: number): void {
  const { host } = shard.parts;
  const letPoll = (): void => host.settled(follow, undefined);
  const actor = shard.residency.find(session);
  // If the session's budget is used up, the transition that accepted the message already ended the turn. No later
  // transition will settle the receipt, so the follower must request its state.
  if (actor?.state.budget !== undefined && receiptOf(shard, actor, pendingId)?.status === 'failed') return letPoll();
  const reply: Reply = { resolve: (state) => host.settled(follow, state as ReceiptState), reject: letPoll };
  shard.waiters.onReceipt(session, { pendingId, until: 'settled' }, reply, letPoll);
}
