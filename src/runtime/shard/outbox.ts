/**
 * The outbox of one transition: what it publishes after its flush. Each list is created on first use, because most
 * transitions publish little.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { ActorEffect } from '../../../actors/supervision/tree-transition.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { Position } from '../../journal/position.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { KeyedNotice } from '../protocol/notices.ts';
import type { Reply } from './shard-parts.ts';

/** The outcome of an accepted entry. */
export interface Fate {
  readonly session: string;
  readonly pendingId: number;
  readonly receipt: ReceiptState;
}

/** See the head of the file. */
export class Outbox {
  events: SessionEvent[] | undefined;
  /**
   * Sessions whose agent and parent are published before the events. `hasSomething` ignores introductions, because no
   * caller waits for them.
   */
  introduced: SessionActor[] | undefined;
  settled: Fate[] | undefined;
  promoted: Fate[] | undefined;
  /** Ended children whose exit a request waits for. */
  exits: SessionActor[] | undefined;
  /** New messages of sessions that have listeners. */
  said: { readonly session: string; readonly messages: HistoryMessage[] }[] | undefined;

  /** Notices for a follower on the host, and the position of the transition. */
  notices: KeyedNotice[] | undefined;
  position: Position = 0;
  /** Sessions whose compression is over, if a request waits for its end. */
  compressions: string[] | undefined;

  /** True if there is something to publish or to answer. */
  get hasSomething(): boolean {
    return (
      this.events !== undefined ||
      this.settled !== undefined ||
      this.promoted !== undefined ||
      this.exits !== undefined ||
      this.compressions !== undefined ||
      this.said !== undefined ||
      this.notices !== undefined
    );
  }

  publish(event: SessionEvent): void {
    if (this.events === undefined) this.events = [event];
    else this.events.push(event);
  }

  announce(notice: KeyedNotice): void {
    if (this.notices === undefined) this.notices = [notice];
    else this.notices.push(notice);
  }

  introduce(actor: SessionActor): void {
    if (this.introduced === undefined) this.introduced = [actor];
    else this.introduced.push(actor);
  }

  say(session: string, message: HistoryMessage): void {
    this.said ??= [];
    const last = this.said.at(-1);
    if (last?.session === session) last.messages.push(message);
    else this.said.push({ session, messages: [message] });
  }

  settle(fate: Fate): void {
    if (this.settled === undefined) this.settled = [fate];
    else this.settled.push(fate);
  }

  promote(fate: Fate): void {
    if (this.promoted === undefined) this.promoted = [fate];
    else this.promoted.push(fate);
  }

  compress(session: string): void {
    if (this.compressions === undefined) this.compressions = [session];
    else this.compressions.push(session);
  }

  end(child: SessionActor): void {
    if (this.exits === undefined) this.exits = [child];
    else this.exits.push(child);
  }
}

/** True if the commit is deferrable: nothing is published or started after its flush, and no caller waits for it. */
export function isDeferrable(outbox: Outbox, late: readonly ActorEffect[], reply: Reply | undefined): boolean {
  if (reply !== undefined && reply.isDeferrable !== true) return false;
  return !outbox.hasSomething && late.every(({ effect }) => effect.type === 'accepted');
}
