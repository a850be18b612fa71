/** Folds the sessions of a store for `troupe doctor`: builds each session from its log, up to the first damage. */
import { TroupeError } from '../../base/errors.ts';
import type { Message } from '../../base/messages.ts';
import type { SalvageShard, SalvageStore } from '../../journal/check/salvage-store.ts';
import { type LogSource, plantFork } from '../../runtime/reading/fork-reader.ts';
import { decodeHead } from '../../runtime/reading/head.ts';
import { beginningOf } from '../../runtime/reading/log-beginning.ts';
import { applyAll } from '../../session/apply/apply.ts';
import { everyMessage } from '../../session/history/branch.ts';
import { publicMessage } from '../../session/state/messages.ts';
import { decodeTransition } from '../../session/state/records.ts';
import { restoreState } from '../../session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../session/state/state.ts';

/** The readable part of a session. */
export interface FoldedSession {
  readonly id: string;
  readonly shard: SalvageShard;
  readonly state: SessionState;
  /** All messages of the session, including messages that left the window, without removed messages. */
  readonly messages: readonly Message[];
  readonly turns: number;
  /** UTF-8 bytes of the session's log entries. */
  readonly bytes: number;
  /** Epoch ms of the first and the last transition in the session's log; 0 if there is none. */
  readonly oldest: number;
  readonly newest: number;
  readonly hasSnapshot: boolean;
  /** The row and the reason of the first damage in the log, where the readable part ends; or else those of the head. */
  readonly damage?: { readonly reason: string; readonly row?: number };
}

/** All sessions of a store, by shard and id, with one at a time in memory. A name without a log is not a session. */
export function* foldedSessions(store: SalvageStore): Iterable<FoldedSession> {
  for (const shard of store.shards) {
    for (const [id, key] of shard.sessions()) {
      const session = fold(shard, id, key);
      if (session.state.agent !== undefined || session.damage !== undefined) yield session;
    }
  }
}

function fold(shard: SalvageShard, id: string, key: number): FoldedSession {
  const state = emptyState(id);
  const messages = new Map<number, Message>();
  const source = sourceOf(shard);
  let [turns, bytes, oldest, newest] = [0, 0, 0, 0];
  let damage: FoldedSession['damage'];
  try {
    const begun = beginningOf(source, id, key, false);
    Object.assign(state, begun.state);
    for (const message of everyMessage(state)) messages.set(message.seq, publicMessage(message));
    for (const { data, position } of shard.entries(key)) {
      // Rows with the removed part of the log may still exist.
      if (position <= begun.position) continue;
      const turn = decodeTransition(data);
      if (turns === 0 && begun.position === 0) {
        plantFork(source, key, state, turn);
        for (const message of state.messages) messages.set(message.seq, publicMessage(message));
      }
      applyAll(state, turn.records, turn.at, {
        event: (event) => {
          if (event.type === 'message.created' || event.type === 'message.updated') {
            messages.set(event.message.seq, event.message);
          } else if (event.type === 'message.removed') messages.delete(event.messageSeq);
        },
      });
      if (turns === 0) oldest = turn.at;
      turns += 1;
      bytes += Buffer.byteLength(data);
      newest = Math.max(newest, turn.at);
    }
  } catch (error) {
    damage = damageOf(error);
  }
  const { head, hasSnapshot } = headOf(shard, key);
  damage ??= head;
  const folded = { id, shard, state, messages: [...messages.values()], turns, bytes, oldest, newest, hasSnapshot };
  return damage === undefined ? folded : { ...folded, damage };
}

/** The source from which a fork reads its beginning, which may be in the log of another session of the shard. */
function sourceOf(shard: SalvageShard): LogSource {
  return {
    keyOf: (name) => shard.sessions().find(([id]) => id === name)?.[1],
    read: function* (key, after) {
      const first = Math.max(after, shard.contents.index.starts.get(key)?.position ?? 0);
      for (const entry of shard.entries(key)) if (entry.position > first) yield entry;
    },
    entry: (key, position) => [...shard.entries(key)].find((entry) => entry.position === position),
    head: (key) => {
      const stored = shard.contents.index.heads.get(key);
      return stored && { ...stored, data: shard.head(key) ?? stored.data };
    },
    blob: (address) => shard.blob(address),
    starts: { of: (key) => shard.startOf(key) },
  };
}

/** Checks that the head and the snapshot of a session can be read. Damage to one of them loses nothing of the log. */
function headOf(
  shard: SalvageShard,
  key: number,
): { readonly head: FoldedSession['damage']; readonly hasSnapshot: boolean } {
  const stored = shard.contents.index.heads.get(key);
  if (stored === undefined) return { head: undefined, hasSnapshot: false };
  try {
    const { snapshot } = decodeHead(shard.head(key) ?? stored.data);
    if (snapshot === undefined) return { head: undefined, hasSnapshot: false };
    const text = shard.blob(snapshot.address);
    if (text === undefined) return { head: { reason: 'its snapshot is lost' }, hasSnapshot: false };
    restoreState(text);
    return { head: undefined, hasSnapshot: true };
  } catch (error) {
    return { head: damageOf(error), hasSnapshot: false };
  }
}

function damageOf(error: unknown): { readonly reason: string; readonly row?: number } {
  const reason = error instanceof Error ? error.message : String(error);
  const row = error instanceof TroupeError ? error.data['row'] : undefined;
  return typeof row === 'number' ? { reason, row } : { reason };
}
