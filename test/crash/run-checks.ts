/**
 * Compares the model calls and tool runs of all lives with the finished ones in the store. The checks know which life
 * first stored an answer or a result, so they find a repetition in a later life.
 */
import type { Ledger, ToolStory } from './ledger.ts';
import type { SessionFacts } from './session-facts.ts';
import type { Reading } from './store-facts.ts';

type Sessions = ReadonlyMap<string, SessionFacts>;

/** A past life, as the checks see it. */
export interface PastLife {
  readonly number: number;
  /** True if the process was killed, or ended by itself in the middle of its work. */
  readonly wasKilled: boolean;
  /** Set if timeouts were short and the process was stopped for longer: a call may have timed out. */
  readonly toolTimeoutMs?: number;
  /** A claim is durable before its model call. */
  readonly isStrict?: boolean;
  /** True if enrichers ran for the sessions. */
  readonly isEnriched?: boolean;
}

/** See the head of the file. Findings go to the ledger. */
export class RunChecker {
  readonly #ledger: Ledger;
  /** Lives whose last claims may be missing from the log. */
  readonly #mayLoseClaims = new Set<number>();
  /** Lives in which a call may have timed out and been made again. */
  readonly #timedOut = new Set<number>();
  /** Recoveries of each session when the last life ended in good order; undefined if the life ended otherwise. */
  #recoveriesAtRest: ReadonlyMap<string, number> | undefined;
  /** The life after which a half-step's answer was first found durable, by session. */
  readonly #answeredIn = new Map<string, Map<number, number>>();
  /** The life after which a call's result was first found durable, by key. */
  readonly #resultIn = new Map<string, number>();
  /** Model calls checked so far, by session. */
  readonly #callsChecked = new Map<string, number>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Checks the runs of one life after its process is gone. */
  check({ changed, sessions }: Reading, life: PastLife): void {
    // Only `strict` makes a claim durable before its call. Otherwise the process may lose the claim.
    if (life.wasKilled && life.isStrict !== true) this.#mayLoseClaims.add(life.number);
    if (life.toolTimeoutMs !== undefined) this.#timedOut.add(life.number);
    this.#checkModelCalls(sessions);
    this.#checkToolRuns(sessions, life.number);
    this.#checkRest(sessions, changed, !life.wasKilled);
    for (const id of changed) this.#noteDone(sessions.get(id), life.number);
  }

  /**
   * Every request comes from the log. No request is repeated after its answer is durable, and a repeated request has
   * the same bytes.
   */
  #checkModelCalls(sessions: Sessions): void {
    for (const [session, calls] of this.#ledger.calls) {
      if (this.#ledger.sessions.mayBeGone(session)) continue;
      const facts = sessions.get(session);
      for (let index = this.#callsChecked.get(session) ?? 0; index < calls.length; index += 1) {
        const call = calls[index];
        if (call === undefined) break;
        const halfStep = facts?.requests.get(call.digest);
        if (halfStep === undefined) {
          // The claim was lost with the process, together with everything that followed from it, or deleted with its
          // session.
          const wasLost =
            this.#mayLoseClaims.has(call.life) &&
            !calls.slice(index).some((later) => later.life === call.life && facts?.requests.has(later.digest) === true);
          if (!wasLost)
            this.#ledger.violate(
              'illegal',
              `${session} sent a request in life ${call.life} that its log does not have`,
            );
          continue;
        }
        const answeredIn = this.#answeredIn.get(session)?.get(halfStep);
        if (answeredIn !== undefined && answeredIn < call.life) {
          this.#ledger.violate(
            'repeated',
            `half-step ${halfStep} of ${session}, answered in life ${answeredIn}, was asked in ${call.life}`,
          );
        }
        const earlier = calls.slice(0, index).filter((other) => other.digest === call.digest);
        const before = earlier.at(-1);
        const times = earlier.filter((other) => other.life === call.life).length + 1;
        if (times > (this.#timedOut.has(call.life) ? 2 : 1))
          this.#ledger.violate(
            'repeated',
            `half-step ${halfStep} of ${session} was asked ${times} times in life ${call.life}`,
          );
        if (before !== undefined && before.whole !== call.whole) {
          this.#ledger.violate('changed', `half-step ${halfStep} of ${session} was asked again with other bytes`);
        }
      }
      this.#callsChecked.set(session, calls.length);
    }
  }

  /** I4, and the corresponding promise for the other effect classes. */
  #checkToolRuns(sessions: Sessions, life: number): void {
    for (const [key, story] of this.#ledger.tools) {
      if (!story.starts.includes(life)) continue;
      this.#checkToolRun(key, story, life);
      const session = key.slice(0, key.lastIndexOf('#'));
      // Like a claim, the intent of a `pure` call may not be durable yet when the call runs.
      const mayBeLost = (story.tool === 'pure' || story.tool === 'long') && this.#mayLoseClaims.has(life);
      if (sessions.get(session)?.calls.has(key) !== true && !mayBeLost && !this.#ledger.sessions.mayBeGone(session))
        this.#ledger.violate('failed', `${story.tool} ran for ${key}, a call the log does not have`);
    }
  }

  #checkToolRun(key: string, { tool, starts, asks, ends }: ToolStory, life: number): void {
    const inThisLife = starts.filter((each) => each === life).length;
    const isSecond = starts.length > inThisLife;
    if (tool === 'once' && starts.length > 1)
      this.#ledger.violate('repeated', `${tool} started ${starts.length} times for ${key}`);
    if (tool === 'probe' && ends > 1) this.#ledger.violate('repeated', `${tool} took effect ${ends} times for ${key}`);
    if (tool === 'probe' && isSecond && !asks.includes(life))
      this.#ledger.violate('repeated', `${tool} started again for ${key} in life ${life}, its probe was not asked`);
    if (inThisLife > 1) this.#ledger.violate('repeated', `${tool} started twice for ${key} in life ${life}`);
    const resultIn = this.#resultIn.get(key);
    if (resultIn !== undefined && resultIn < life)
      this.#ledger.violate(
        'repeated',
        `${tool} ran for ${key} in life ${life}, its result was there since ${resultIn}`,
      );
  }

  /** F13: an orderly close leaves nothing for the next start to recover. */
  #checkRest(sessions: Sessions, changed: ReadonlySet<string>, isOrderly: boolean): void {
    for (const [session, recoveries] of this.#recoveriesAtRest ?? []) {
      const now = sessions.get(session)?.recoveries ?? 0;
      if (now > recoveries) this.#ledger.violate('redone', `${session} was recovered after an orderly end`);
    }
    this.#recoveriesAtRest = undefined;
    if (!isOrderly) return;
    const atRest = new Map<string, number>();
    for (const { id, state, recoveries } of sessions.values()) {
      // A retry that waits until it is due does not count as running work.
      if (state.current?.retryAt !== undefined) continue;
      const isAtWork = state.state === 'awaiting' || state.openCalls.size > 0;
      // An earlier crash interrupted it, and this life was closed before it resumed (R1 of `interrupted-sessions.ts`).
      if (isAtWork && !changed.has(id)) continue;
      if (isAtWork)
        this.#ledger.violate(
          'redone',
          `${id} is ${state.state} with ${state.openCalls.size} calls after an orderly end`,
        );
      atRest.set(id, recoveries);
    }
    this.#recoveriesAtRest = atRest;
  }

  #noteDone(facts: SessionFacts | undefined, life: number): void {
    if (facts === undefined) return;
    const answered = this.#answeredIn.get(facts.id) ?? new Map<number, number>();
    this.#answeredIn.set(facts.id, answered);
    for (const halfStep of facts.responded) if (!answered.has(halfStep)) answered.set(halfStep, life);
    for (const [key, { results }] of facts.calls) {
      if (results.length > 0 && !this.#resultIn.has(key)) this.#resultIn.set(key, life);
    }
  }
}
