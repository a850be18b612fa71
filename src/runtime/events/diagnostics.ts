/**
 * Reads the events of all sessions while somebody listens on a channel of `base/diagnostics.ts`, and has them published there.
 *
 * Owns: its reader of all events, what is known of the sessions it reads of. Does not own: what is under way in them (the
 * tracker), the channels. Host thread.
 *  H1 Without a subscriber nothing is watched: a look costs six property reads.
 *  H2 An event waits until the agent of its session is known: events of one session keep their order, and a birth is told before
 *     what the child does. Sessions are introduced before they tell anything; one that was not, since it had told something before
 *     somebody listened, is asked for. Other orders between two sessions are as loose as a look-up takes.
 *  H3 What falls behind loses events, which ends what was under way in their sessions as `unseen`; nobody is held up.
 */
import { DIAGNOSED_LOOKUPS_MAX, DIAGNOSED_SESSIONS_MAX, DIAGNOSED_WAITING_MAX } from '../../base/bounds.ts';
import { isDiagnosed, isSubscribed, publishDiagnostics, type SessionFacts } from '../../base/diagnostics.ts';
import type { Draft } from '../../base/draft.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { EventTap, TapReader } from '../../events/reading/event-tap.ts';
import { RecentMap } from '../../models/recent-map.ts';
import type { SessionIntroduction, SessionSummary } from '../protocol/protocol.ts';
import { DiagnosticsTracker } from './diagnostics-tracker.ts';

/** What diagnostics stand on. */
export interface DiagnosticsParts {
  /** Reads the events of all sessions. */
  readonly tap: (reader: TapReader) => EventTap;
  /** Has sessions introduced (`introduced`) before they tell anything, or not any more. Never throws. */
  readonly introduce: (on: boolean) => void;
  /** For one that was not introduced. Undefined for a session that is gone. May reject. */
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
  /** Behind what waits, events were lost, or the session was deleted. */
  isCutOff: boolean;
  readonly done: Promise<void>;
}

/** A time of reading. */
interface Reading {
  readonly tracker: DiagnosticsTracker;
  /** Missing until it is open, which it may refuse. */
  tap?: EventTap;
  /** Something was read. */
  hasRead: boolean;
  /** Somebody listened when it was last looked. */
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
  #told = { flushes: 0, journalTurns: 0 };

  constructor(parts: DiagnosticsParts) {
    this.#parts = parts;
  }

  /** Names the runtime in the messages; reads at once where somebody listens already. */
  begin(runtime: object): void {
    this.#runtime = runtime;
    this.look();
  }

  /** Begins to read where somebody listens and nobody reads. Never throws. */
  look(): void {
    if (this.#isReading || this.#isClosed || !isDiagnosed()) return;
    this.#isReading = true;
    this.#read();
  }

  /** Sessions that are about to tell something for the first time, or a session anew. */
  introduced(sessions: readonly SessionIntroduction[]): void {
    if (!this.#isReading) return;
    for (const each of sessions) this.#facts.put(each.session, this.#factsOf(each));
  }

  #read(): void {
    const { flushes, journalTurns } = this.#parts.commits();
    this.#told = { flushes, journalTurns };
    // First: what is told from then on is told by sessions that were introduced.
    this.#parts.introduce(true);
    const tracker = new DiagnosticsTracker(this.#runtime, (at) => this.#tellCommits(at));
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
    // Ended by itself: the runtime is closed.
    else if (reading.isWanted) this.#isClosed = true;
    this.#parts.introduce(false);
    await Promise.all([...this.#lookUps.values()].map(({ done }) => done));
    reading.tracker.end(this.#parts.now());
    this.#isReading = false;
    // Somebody may have come meanwhile, or it fell behind. One that read nothing waits for the next look.
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
    // A session that cannot be asked for is gone, or the runtime closes: its messages say less.
    const found = await lookUp(session).catch(() => undefined);
    // Introduced meanwhile, it is newer than the answer.
    const known = this.#facts.get(session) ?? (found === undefined ? undefined : this.#factsOf({ ...found, session }));
    const isCutOff = this.#lookUps.get(session)?.isCutOff === true;
    if (known !== undefined && !isCutOff) this.#facts.put(session, known);
    const facts = known ?? { session, provider };
    this.#lookUps.delete(session);
    for (const event of waiting) tracker.take(event, facts);
    if (isCutOff) tracker.cutOff(session, this.#parts.now());
    // What could not be taken may have waited for this.
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

  #tellCommits(at: number): void {
    if (!isSubscribed('commit')) return;
    const { flushes, journalTurns } = this.#parts.commits();
    const before = this.#told;
    if (flushes === before.flushes) return;
    this.#told = { flushes, journalTurns };
    publishDiagnostics('commit', {
      runtime: this.#runtime,
      at,
      flushes: flushes - before.flushes,
      turns: journalTurns - before.journalTurns,
    });
  }
}
