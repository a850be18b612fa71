/**
 * Follows in a session's log which models a half-step asked, and checks its moves to another model (I23 of
 * `invariants.ts`).
 *
 * Owns: the models and the attempts of the current half-step. Does not own: the log.
 */
import type { ErrorShape } from '../../../base/errors.ts';
import { parseSettings } from '../../../base/settings.ts';
import { retryWaitMs } from '../../../session/decide/answer.ts';
import type { RecordOf, SessionRecord } from '../../../session/state/records.ts';
import type { SessionState } from '../../../session/state/state.ts';

/** A broken rule of a log. */
export interface TrailFault {
  readonly kind: 'failed' | 'repeated';
  readonly what: string;
}

/** The attempts that each model has, and the waits between them. */
const RETRY = parseSettings({}).llm.retry;
/** With this HTTP status or a higher one, the simulated servers ask for no wait. */
const SERVER_ERROR = 500;

/** See the head of the file. */
export class ModelTrail {
  #halfStep = 0;
  /** The models that the half-step has asked, by their index in the agent's list. */
  #asked = new Set<number>();
  #place = 0;
  /** The index of the model that made the last attempt. */
  #attemptedAt = 0;
  /** Attempts of the half-step before it moved to its current model. */
  #attemptsBefore = 0;

  /** Takes a record before it is applied to the state. */
  before(state: SessionState, record: SessionRecord): TrailFault | undefined {
    const { current } = state;
    if (record.type !== 'failed' || current === undefined || this.#asked.size < 2) return undefined;
    const attempts = current.attempt - this.#attemptsBefore;
    if (record.error.retryable !== true || attempts >= RETRY.attempts) return undefined;
    const what = `half-step ${record.halfStep} of ${state.id} fails after ${attempts} attempts of its last model (I23)`;
    return { kind: 'failed', what };
  }

  /** Takes a record after it was applied to the state. */
  after(state: SessionState, record: SessionRecord): TrailFault | undefined {
    const place = state.fallback?.place ?? 0;
    const { current, id } = state;
    const halfStep = current?.halfStep ?? 0;
    const halfStepBefore = this.#halfStep;
    if (halfStep !== halfStepBefore) {
      this.#halfStep = halfStep;
      this.#asked = new Set([place]);
      this.#attemptsBefore = 0;
      this.#attemptedAt = place;
    }
    const isMoved = place !== this.#place;
    this.#place = place;
    if (current === undefined) return undefined;
    const isAgain = isMoved && halfStepBefore === halfStep && this.#asked.has(place);
    this.#asked.add(place);
    if (isAgain) return { kind: 'repeated', what: `half-step ${halfStep} of ${id} asks model ${place} again (I23)` };
    if (record.type !== 'retried') return undefined;
    const isSame = place === this.#attemptedAt;
    this.#attemptedAt = place;
    if (record.fallsBack === true) this.#attemptsBefore = record.attempt;
    if (isSame !== (record.fallsBack === true)) return this.#wait(state, record);
    const what = isSame ? 'moves on and stays with' : 'moves without a record to';
    return { kind: 'repeated', what: `half-step ${halfStep} of ${id} ${what} model ${place} (I23)` };
  }

  /** Checks that the waits between the attempts of each model begin with the shortest wait. */
  #wait({ id }: SessionState, { halfStep, attempt, waitMs, status = 0 }: RecordOf<'retried'>): TrailFault | undefined {
    const tries = attempt - this.#attemptsBefore;
    if (this.#asked.size < 2 || tries < 1 || status < SERVER_ERROR) return undefined;
    if (waitMs <= retryWaitMs(RETRY, tries, NO_ADVICE, 1)) return undefined;
    const what = `half-step ${halfStep} of ${id} waits ${waitMs} ms after attempt ${tries} of its model (I23)`;
    return { kind: 'failed', what };
  }
}

/** A server's error that asks for no wait. */
const NO_ADVICE: ErrorShape = { name: 'ModelError', code: 'model_overloaded', message: '' };
