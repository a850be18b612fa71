/**
 * The invariants of model calls (I3 and I4 of `../invariants.ts`).
 *
 * Owns: for each half-step, the incarnations of its shard (`SimulatedMachine.incarnationOf`) when a check first found
 * its claim and its answer in the store; the number of checked calls. Does not own: the calls, which are in the ledger.
 */
import type { CallStory, Ledger } from '../ledger.ts';
import type { Stories } from '../store-reading.ts';

/** See the head of the file. */
export class ModelCallInvariants {
  readonly #ledger: Ledger;
  readonly #incarnationOf: (session: string) => number;
  readonly #changesAgents: boolean;
  /** The incarnation of the shard when a check first found a half-step's answer, by session and half-step. */
  readonly #answeredIn = new Map<string, Map<number, number>>();
  /** The incarnation of the shard when a check first found a half-step's claim, by session and half-step. */
  readonly #claimedIn = new Map<string, Map<number, number>>();
  readonly #callsChecked = new Map<string, number>();

  /** See `Invariants`. */
  constructor(ledger: Ledger, incarnationOf: (session: string) => number, changesAgents: boolean) {
    this.#ledger = ledger;
    this.#incarnationOf = incarnationOf;
    this.#changesAgents = changesAgents;
  }

  /**
   * Checks that every request follows from the log. Once the answer to a request is durable, no later incarnation may
   * send the request again. A repeated request must have the same bytes.
   */
  check(stories: Stories): void {
    for (const [session, calls] of this.#ledger.calls) {
      const story = stories.get(session);
      for (let index = this.#callsChecked.get(session) ?? 0; index < calls.length; index += 1) {
        const call = calls[index];
        if (call === undefined) break;
        const halfStep = story?.requests.get(call.digest);
        // A restarted child sends its first request again. The log has that request since the first start, so it does
        // not show that the restart is in the log.
        const first = session.includes(':') ? story?.requests.keys().next().value : undefined;
        const isInLog = (digest: string): boolean => digest !== first && story?.requests.has(digest) === true;
        // A model call may start before its claim is durable. A crash may lose the claim, together with all that
        // followed the claim. If the log has a later call of the same incarnation, the claim was not lost.
        const mayBeLost = (from: number, { incarnation }: CallStory = call): boolean =>
          !calls.slice(from).some((later) => later.incarnation === incarnation && isInLog(later.digest));
        if (halfStep === undefined) {
          // A request may be on its way to a model thread when its incarnation ends. It then arrives in the next
          // incarnation: as the first call there, or soon after the beginning.
          const isStraggler = call.isStraggler === true || calls[index - 1]?.incarnation !== call.incarnation;
          if (!isStraggler && !mayBeLost(index))
            this.#ledger.violate('illegal', `${session} sent a request that its log does not have: ${call.digest}`);
          continue;
        }
        const answeredIn = this.#answeredIn.get(session)?.get(halfStep);
        const isLostRestart = call.digest === first && mayBeLost(index + 1);
        if (answeredIn !== undefined && answeredIn < call.incarnation && !isLostRestart) {
          this.#ledger.violate('repeated', `half-step ${halfStep} of ${session} was answered and is asked again`);
        }
        const isSame = ({ digest, isSummary }: CallStory): boolean =>
          digest === call.digest && isSummary === call.isSummary;
        const asked = calls.slice(0, index).findLastIndex(isSame);
        const before = calls[asked];
        if (before === undefined || before.whole === call.whole) continue;
        // A changed agent sends other requests.
        if (this.#changesAgents && before.incarnation !== call.incarnation) continue;
        // A session moves to another version between two turns. If the turn before ended without a new message, both
        // requests have the same messages and different system prompts.
        if (before.version !== call.version) continue;
        // Work that was lost together with the claim, such as a summary, may have been repeated with another result.
        const claimedIn = this.#claimedIn.get(session)?.get(halfStep) ?? Number.POSITIVE_INFINITY;
        const isLost = before.incarnation < claimedIn && mayBeLost(asked + 1, before);
        if (before.incarnation === call.incarnation || !isLost)
          this.#ledger.violate('unstable', `half-step ${halfStep} of ${session} was asked again with other bytes`);
      }
      this.#callsChecked.set(session, calls.length);
    }
  }

  /** Notes the claims and answers that a reading found durable, for the next checks. */
  noteDone(stories: Stories): void {
    for (const story of stories.values()) {
      const incarnation = this.#incarnationOf(story.id);
      const answered = this.#answeredIn.get(story.id) ?? new Map<number, number>();
      this.#answeredIn.set(story.id, answered);
      for (const halfStep of story.responded) if (!answered.has(halfStep)) answered.set(halfStep, incarnation);
      const claimed = this.#claimedIn.get(story.id) ?? new Map<number, number>();
      this.#claimedIn.set(story.id, claimed);
      for (const halfStep of story.requests.values()) if (!claimed.has(halfStep)) claimed.set(halfStep, incarnation);
    }
  }
}
