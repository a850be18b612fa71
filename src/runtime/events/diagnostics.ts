/**
 * Reads the events of all sessions while a channel of `base/diagnostics.ts` has a subscriber, and publishes operations
 * on the channels.
 *
 * Owns: the reader of all events (a tap), the facts about the sessions of these events. Does not own: the open
 * operations (the tracker), the channels. Lives on the host thread.
 *  H1 Without a subscriber nothing is watched: a check costs six property reads.
 *  H2 A shard introduces a session (its agent and parent) before the session's first event of a reading. An event of a
 *     session that was not introduced was published before the reading began, and is dropped. Events are taken in the
 *     order they were published. The facts of a session are dropped when 65,536 others were introduced or ended a turn
 *     since its last turn. By then the session has left memory. It is introduced again when it returns.
 *  H3 A tap that falls behind loses events, and the open operations of their sessions end as `unseen`. The tap delays
 *     no other reader.
 *
 * Introductions are separate from events, because the first event of a stored session is long past. Also, no event may
 * depend on whether its session was in memory: a replay of the log must show the same event.
 */
import { DIAGNOSED_SESSIONS_MAX } from '../../base/bounds.ts';
import { isDiagnosed, isSubscribed, publishDiagnostics, type SessionFacts } from '../../base/diagnostics.ts';
import type { Draft } from '../../base/draft.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { EventTap, TapReader } from '../../events/reading/event-tap.ts';
import { RecentMap } from '../../models/recent-map.ts';
import type { SessionIntroduction } from '../protocol/protocol.ts';
import { DiagnosticsTracker } from './diagnostics-tracker.ts';

/** The parts that diagnostics need. */
export interface DiagnosticsParts {
  /** True while other nodes of the cluster have all sessions: they publish the operations of their sessions. */
  readonly isElsewhere: () => boolean;
  /** True if another node of the cluster has this session; missing: this node has all. */
  readonly isAway?: (session: string) => boolean;
  /** Reads the events of all sessions. */
  readonly tap: (reader: TapReader) => EventTap;
  /** Turns on or off the introduction of sessions (`introduced`) before their first event. Never throws. */
  readonly introduce: (on: boolean) => void;
  /**
   * The model that an agent's requests name, and its provider (`SessionFacts`). Without `model`: the agent is not
   * defined.
   */
  readonly modelOf: (agent: string, isChild: boolean) => Pick<SessionFacts, 'model' | 'provider'>;
  readonly commits: () => { readonly flushes: number; readonly journalTurns: number };
  readonly now: () => number;
  readonly failed: (error: unknown) => void;
}

/** One period of reading. */
interface Reading {
  readonly tracker: DiagnosticsTracker;
  /** The open tap; missing until it is open, and opening may fail. */
  tap?: EventTap;
  /** True if at least one event was read. */
  hasRead: boolean;
  /** True if there was a subscriber at the last check. */
  isWanted: boolean;
}

/** See the head of the file. */
export class Diagnostics {
  readonly #parts: DiagnosticsParts;
  readonly #facts = new RecentMap<SessionFacts>(DIAGNOSED_SESSIONS_MAX);
  #runtime: object = this;
  #isReading = false;
  #isClosed = false;
  #published = { flushes: 0, journalTurns: 0 };

  constructor(parts: DiagnosticsParts) {
    this.#parts = parts;
  }

  /** Names the runtime in the messages; starts to read at once if there is a subscriber. */
  begin(runtime: object): void {
    this.#runtime = runtime;
    this.look();
  }

  /** Starts to read if there is a subscriber and no reading. Never throws. */
  look(): void {
    if (this.#isReading || this.#isClosed || !isDiagnosed() || this.#parts.isElsewhere()) return;
    this.#isReading = true;
    this.#read();
  }

  /**
   * Notes the sessions that are about to publish their first event. An id may belong to another session than before.
   */
  introduced(sessions: readonly SessionIntroduction[]): void {
    if (!this.#isReading) return;
    for (const each of sessions) this.#facts.put(each.session, this.#factsOf(each));
  }

  #read(): void {
    const { flushes, journalTurns } = this.#parts.commits();
    this.#published = { flushes, journalTurns };
    // Introductions come first, so that every session that publishes from now on was introduced.
    this.#parts.introduce(true);
    const tracker = new DiagnosticsTracker(this.#runtime, (facts, at) => {
      this.#keep(facts);
      this.#publishCommits(at);
    });
    const reading: Reading = { tracker, hasRead: false, isWanted: true };
    try {
      reading.tap = this.#parts.tap({
        take: (events) => this.#takeAll(events, reading),
        cutOff: (session) => tracker.cutOff(session, this.#parts.now()),
        over: (error) => this.#ended(reading, error),
      });
    } catch (error) {
      this.#ended(reading, error);
    }
  }

  #ended(reading: Reading, error: unknown): void {
    if (error !== undefined) this.#parts.failed(error);
    // The tap ended without an error although there is a subscriber, so the runtime is closed.
    else if (reading.isWanted) this.#isClosed = true;
    this.#parts.introduce(false);
    reading.tracker.end(this.#parts.now());
    this.#isReading = false;
    // A subscriber may have arrived, or the tap may have fallen behind, so reading starts again. After a period without
    // events, only the next call of `look` starts it.
    if (reading.hasRead) this.look();
  }

  #takeAll(events: readonly SessionEvent[], reading: Reading): void {
    reading.hasRead = true;
    reading.isWanted = isDiagnosed();
    if (!reading.isWanted) {
      reading.tap?.leave();
      return;
    }
    for (const event of events) {
      // The node that has the session publishes its operations, also those that were open when the session left.
      if (this.#parts.isAway?.(event.session) === true) {
        reading.tracker.cutOff(event.session, this.#parts.now());
        continue;
      }
      if (reading.tracker.takeFollowed(event)) continue;
      const facts = this.#facts.get(event.session);
      if (facts !== undefined) reading.tracker.take(event, facts);
    }
  }

  /**
   * Keeps the facts of a session and makes them the last to be dropped. If the id was introduced again meanwhile, the
   * new facts stay, because another session may have the id now.
   */
  #keep(facts: SessionFacts): void {
    this.#facts.put(facts.session, this.#facts.get(facts.session) ?? facts);
  }

  #factsOf({ session, agent, parent }: SessionIntroduction): SessionFacts {
    const { model, provider } = this.#parts.modelOf(agent, parent !== undefined);
    const facts: Draft<SessionFacts> = { session, agent, provider };
    if (parent !== undefined) facts.parent = parent;
    if (model !== undefined) facts.model = model;
    return facts;
  }

  #publishCommits(at: number): void {
    if (!isSubscribed('commit')) return;
    const { flushes, journalTurns } = this.#parts.commits();
    const before = this.#published;
    if (flushes === before.flushes) return;
    this.#published = { flushes, journalTurns };
    publishDiagnostics('commit', {
      runtime: this.#runtime,
      at,
      flushes: flushes - before.flushes,
      turns: journalTurns - before.journalTurns,
    });
  }
}
