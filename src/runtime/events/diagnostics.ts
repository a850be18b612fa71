/**
 * Reads the events of all sessions while a channel of `base/diagnostics.ts` has a subscriber, and publishes them there.
 *
 * Owns: its reader of all events, the facts about the sessions of these events. Does not own: the open operations (the
 * tracker), the channels. Host thread.
 *  H1 Without a subscriber nothing is watched: a look costs six property reads.
 *  H2 An event waits until the agent of its session is known. Events of one session keep their order, and a birth is
 *     published before the child's events. Sessions are introduced before their first event. A session that published
 *     before there was a subscriber was not introduced, and is looked up. Other orders between two sessions may shift
 *     by the duration of a look-up.
 *  H3 A tap that falls behind loses events, which ends the open operations of their sessions as `unseen`; it holds up
 *     nothing.
 */
import { DIAGNOSED_LOOKUPS_MAX, DIAGNOSED_SESSIONS_MAX, DIAGNOSED_WAITING_MAX } from '../../base/bounds.ts';
import { isDiagnosed, isSubscribed, publishDiagnostics, type SessionFacts } from '../../base/diagnostics.ts';
import type { Draft } from '../../base/draft.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { EventTap, TapReader } from '../../events/reading/event-tap.ts';
import { RecentMap } from '../../models/recent-map.ts';
import type { SessionIntroduction, SessionSummary } from '../protocol/protocol.ts';
import { DiagnosticsTracker } from './diagnostics-tracker.ts';

/** The parts that diagnostics need. */
export interface DiagnosticsParts {
  /** Reads the events of all sessions. */
  readonly tap: (reader: TapReader) => EventTap;
  /** Turns on or off the introduction of sessions (`introduced`) before their first event. Never throws. */
  readonly introduce: (on: boolean) => void;
  /** Looks up a session that was not introduced. Undefined for a session that is gone. May reject. */
  readonly lookUp: (session: string) => Promise<SessionSummary | undefined>;
  /** The model an agent's requests name; undefined for an agent that is not defined. */
  readonly modelOf: (agent: string, isChild: boolean) => string | undefined;
  readonly provider: string;
  readonly commits: () => { readonly flushes: number; readonly journalTurns: number };
  readonly now: () => number;
  readonly failed: (error: unknown) => void;
}

interface LookUp {
  readonly waiting: SessionEvent[];
  /** After the waiting events, events were lost or the session was deleted. */
  isCutOff: boolean;
  readonly done: Promise<void>;
}

/** One period of reading. */
interface Reading {
  readonly tracker: DiagnosticsTracker;
  /** Missing until it is open; opening may fail. */
  tap?: EventTap;
  /** At least one event was read. */
  hasRead: boolean;
  /** There was a subscriber at the last look. */
  isWanted: boolean;
}

/** See the head of the file. */
export class Diagnostics {
  readonly #parts: DiagnosticsParts;
  readonly #facts = new RecentMap<SessionFacts>(DIAGNOSED_SESSIONS_MAX);
  readonly #lookUps = new Map<string, LookUp>();
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
    if (this.#isReading || this.#isClosed || !isDiagnosed()) return;
    this.#isReading = true;
    this.#read();
  }

  /** Sessions that are about to publish their first event, or names that are used again. */
  introduced(sessions: readonly SessionIntroduction[]): void {
    if (!this.#isReading) return;
    for (const each of sessions) this.#facts.put(each.session, this.#factsOf(each));
  }

  #read(): void {
    const { flushes, journalTurns } = this.#parts.commits();
    this.#published = { flushes, journalTurns };
    // First, so that every session that publishes from now on was introduced.
    this.#parts.introduce(true);
    const tracker = new DiagnosticsTracker(this.#runtime, (at) => this.#publishCommits(at));
    const reading: Reading = { tracker, hasRead: false, isWanted: true };
    try {
      reading.tap = this.#parts.tap({
        take: (events, from) => this.#takeAll(events, from, reading),
        cutOff: (session, isGone) => {
          const lookUp = this.#lookUps.get(session);
          if (lookUp === undefined) tracker.cutOff(session, this.#parts.now());
          else lookUp.isCutOff = true;
          if (isGone) this.#facts.delete(session);
        },
        over: (error) => void this.#ended(reading, error),
      });
    } catch (error) {
      void this.#ended(reading, error);
    }
  }

  async #ended(reading: Reading, error: unknown): Promise<void> {
    if (error !== undefined) this.#parts.failed(error);
    // The tap ended by itself: the runtime is closed.
    else if (reading.isWanted) this.#isClosed = true;
    this.#parts.introduce(false);
    await Promise.all([...this.#lookUps.values()].map(({ done }) => done));
    reading.tracker.end(this.#parts.now());
    this.#isReading = false;
    // A subscriber may have come meanwhile, or the tap fell behind. A period that read nothing waits for the next look.
    if (reading.hasRead) this.look();
  }

  #takeAll(events: readonly SessionEvent[], from: number, reading: Reading): number {
    reading.hasRead = true;
    reading.isWanted = isDiagnosed();
    if (!reading.isWanted) {
      reading.tap?.leave();
      return events.length;
    }
    for (let place = from; place < events.length; place += 1) {
      const event = events[place];
      if (event !== undefined && !this.#take(event, reading)) return place;
    }
    return events.length;
  }

  /** False when the event cannot be taken yet. */
  #take(event: SessionEvent, reading: Reading): boolean {
    const { tracker } = reading;
    if (tracker.takeFollowed(event)) return true;
    const { session } = event;
    const lookUp = this.#lookUps.size === 0 ? undefined : this.#lookUps.get(session);
    if (lookUp !== undefined) {
      if (lookUp.waiting.length >= DIAGNOSED_WAITING_MAX) return false;
      lookUp.waiting.push(event);
      return true;
    }
    const facts = this.#facts.get(session);
    if (facts !== undefined) {
      tracker.take(event, facts);
      return true;
    }
    if (this.#lookUps.size >= DIAGNOSED_LOOKUPS_MAX) return false;
    const waiting = [event];
    this.#lookUps.set(session, { waiting, isCutOff: false, done: this.#learn(session, waiting, reading) });
    return true;
  }

  async #learn(session: string, waiting: readonly SessionEvent[], { tracker, tap }: Reading): Promise<void> {
    const { lookUp, provider } = this.#parts;
    // A session that cannot be looked up is gone, or the runtime closes: its messages have fewer members.
    const found = await lookUp(session).catch(() => undefined);
    // An introduction that came meanwhile is newer than the answer.
    const known = this.#facts.get(session) ?? (found === undefined ? undefined : this.#factsOf({ ...found, session }));
    const isCutOff = this.#lookUps.get(session)?.isCutOff === true;
    if (known !== undefined && !isCutOff) this.#facts.put(session, known);
    const facts = known ?? { session, provider };
    this.#lookUps.delete(session);
    for (const event of waiting) tracker.take(event, facts);
    if (isCutOff) tracker.cutOff(session, this.#parts.now());
    // Events that could not be taken may have waited for this look-up.
    tap?.resume();
  }

  #factsOf({ session, agent, parent }: SessionIntroduction): SessionFacts {
    const { modelOf, provider } = this.#parts;
    const model = modelOf(agent, parent !== undefined);
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
