/**
 * What ran, and how often: model calls and tool runs of all lives against what the store says was finished. Knows which life
 * first left an answer or a result behind, so that a repetition in a later one is found.
 */
import type { Ledger } from './ledger.ts';
import type { SessionFacts } from './session-facts.ts';
import type { Reading } from './store-facts.ts';

type Sessions = ReadonlyMap<string, SessionFacts>;

/** See the head of the file. Findings go to the ledger. */
export class RunChecker {
  readonly #ledger: Ledger;
  /** Lives that ended with a kill. */
  readonly #killed = new Set<number>();
  /** The life after which a half-step's answer was first found durable, by session. */
  readonly #answeredIn = new Map<string, Map<number, number>>();
  /** The life after which a call's result was first found durable, by key. */
  readonly #resultIn = new Map<string, number>();
  /** Model calls checked so far, by session. */
  readonly #callsChecked = new Map<string, number>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Checks what ran in one life, when its process is gone. */
  check({ changed, sessions }: Reading, life: { readonly number: number; readonly wasKilled: boolean }): void {
    if (life.wasKilled) this.#killed.add(life.number);
    this.#checkModelCalls(sessions);
    this.#checkToolRuns(sessions, life.number);
    for (const id of changed) this.#noteDone(sessions.get(id), life.number);
  }

  /** Every request is the log's own, none is asked again once its answer is durable, and one asked again has the same bytes. */
  #checkModelCalls(sessions: Sessions): void {
    for (const [session, calls] of this.#ledger.calls) {
      const facts = sessions.get(session);
      for (let index = this.#callsChecked.get(session) ?? 0; index < calls.length; index += 1) {
        const call = calls[index];
        if (call === undefined) break;
        const halfStep = facts?.requests.get(call.digest);
        if (halfStep === undefined) {
          // A claim need not be durable before its call: it was lost with the process, and all that followed from it.
          const wasLost =
            this.#killed.has(call.life) &&
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
        const before = calls.slice(0, index).findLast((other) => other.digest === call.digest);
        if (before?.life === call.life)
          this.#ledger.violate('repeated', `half-step ${halfStep} of ${session} was asked twice in life ${call.life}`);
        if (before !== undefined && before.whole !== call.whole) {
          this.#ledger.violate('changed', `half-step ${halfStep} of ${session} was asked again with other bytes`);
        }
      }
      this.#callsChecked.set(session, calls.length);
    }
  }

  /** I4, and the same for the other effect classes. */
  #checkToolRuns(sessions: Sessions, life: number): void {
    for (const [key, { tool, starts, ends }] of this.#ledger.tools) {
      if (!starts.includes(life)) continue;
      const session = key.slice(0, key.lastIndexOf('#'));
      if (sessions.get(session)?.calls.has(key) !== true) {
        this.#ledger.violate('failed', `${tool} ran for ${key}, a call the log does not have`);
      }
      if (tool === 'once' && starts.length > 1)
        this.#ledger.violate('repeated', `${tool} started ${starts.length} times for ${key}`);
      if (tool === 'probe' && ends > 1)
        this.#ledger.violate('repeated', `${tool} took effect ${ends} times for ${key}`);
      if (starts.filter((each) => each === life).length > 1)
        this.#ledger.violate('repeated', `${tool} started twice for ${key} in life ${life}`);
      const resultIn = this.#resultIn.get(key);
      if (resultIn !== undefined && resultIn < life) {
        this.#ledger.violate(
          'repeated',
          `${tool} ran for ${key} in life ${life}, its result was there since ${resultIn}`,
        );
      }
    }
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
