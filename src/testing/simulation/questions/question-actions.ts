/**
 * The persons who reply to questions. They reply in time, late, twice, with a different reply, with a value that does
 * not fit, or not at all. Their replies go to the ledger.
 */
import { ContentError } from '../../../base/errors.ts';
import type { Message } from '../../../base/messages.ts';
import type { Session } from '../../../runtime/handles/session.ts';
import type { Ledger } from '../ledger.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { SimulatedProcess } from '../world.ts';
import { askedForm, replyFor } from './simulated-questions.ts';

/** The parts of the embedder that these persons need. */
export interface PersonParts {
  readonly ledger: Ledger;
  readonly process: SimulatedProcess;
  readonly random: SeededRandom;
  readonly trace: (text: string) => void;
}

/** See the head of the file. */
export class Persons {
  readonly #parts: PersonParts;
  #count = 0;

  constructor(parts: PersonParts) {
    this.#parts = parts;
  }

  /** Replies to a question, even if the question no longer waits. Returns false if the call is not a question. */
  async reply(handle: Session, { seq, toolName = '', toolUseId: callId = '' }: Message): Promise<boolean> {
    const form = askedForm(toolName);
    if (form === undefined) return false;
    const { random, ledger, process, trace } = this.#parts;
    this.#count += 1;
    const n = this.#count;
    if (random.chance(0.25)) await this.#misfit(handle, callId, replyFor(form, { fits: false, n, random }));
    const value = random.chance(0.2) ? undefined : replyFor(form, { fits: true, n, random });
    const give = (given: unknown): Promise<boolean> =>
      given === undefined ? handle.decline(callId) : handle.answer(callId, given);
    const holds = await give(value);
    if (!holds || !process.isAlive || ledger.isDeleted(handle.id)) return true;
    trace(`replied to ${callId} of ${handle.id}: ${JSON.stringify(value)}`);
    ledger.personReplies.set(`${handle.id}#${seq}`, { form, value });
    if (random.chance(0.4)) await this.#repeat(handle, callId, give, value);
    return true;
  }

  /** Checks that the same reply is accepted again, and that a different one is not. */
  async #repeat(
    handle: Session,
    callId: string,
    give: (value: unknown) => Promise<boolean>,
    value: unknown,
  ): Promise<void> {
    const { ledger, process } = this.#parts;
    const isHeld = await give(value);
    const holdsOther = await give(value === undefined ? 'something else' : undefined);
    if (!process.isAlive || ledger.isDeleted(handle.id)) return;
    if (!isHeld) ledger.violate('changed', `the reply to ${callId} of ${handle.id} was not accepted again (I24)`);
    if (holdsOther) ledger.violate('changed', `${callId} of ${handle.id} took a second reply (I24)`);
  }

  async #misfit(handle: Session, callId: string, value: unknown): Promise<void> {
    const { ledger, process } = this.#parts;
    try {
      const holds = await handle.answer(callId, value);
      if (!holds || !process.isAlive) return;
    } catch (error) {
      if (error instanceof ContentError) return;
      throw error;
    }
    ledger.violate('failed', `${callId} of ${handle.id} took ${JSON.stringify(value)}, which does not fit (I24)`);
  }
}
