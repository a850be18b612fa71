/**
 * Checks how the last turn of a session ended: the session's state must agree with its events (I28 of `invariants.ts`).
 *
 * Owns: the last end that the events reported, kept apart from the session's own state. Does not own: the log.
 */
import type { EventBody, LastOutcome } from '../../events/event.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { decodeHead } from '../../runtime/reading/head.ts';
import type { LastTurn } from '../../session/state/last-turn.ts';
import type { SessionRecord } from '../../session/state/records.ts';
import type { SessionState } from '../../session/state/state.ts';

/** A broken rule of a log. */
export interface EndFault {
  readonly kind: 'failed';
  readonly what: string;
}

/** See the head of the file. */
export class EndTrail {
  #ended: Extract<EventBody, { type: 'turn.finished' | 'turn.failed' }> | undefined;
  #last = 'no turn';

  /** Takes an event of the record that is applied now. */
  note(body: EventBody): void {
    if (body.type === 'turn.finished' || body.type === 'turn.failed') this.#ended = body;
  }

  /** Compares the state after a record with the events up to it. */
  after(state: SessionState, record: SessionRecord): EndFault | undefined {
    if (this.#ended?.type === 'turn.failed') this.#last = textOf('failed', this.#ended.error.code);
    else if (this.#ended !== undefined) this.#last = textOf(outcomeOf(this.#ended.reason, record));
    this.#ended = undefined;
    const remembered = endText(state.last);
    if (remembered === this.#last) return undefined;
    return {
      kind: 'failed',
      what: `${state.id} remembers ${remembered} after ${record.type}, its events say ${this.#last} (I28)`,
    };
  }
}

/**
 * Returns a sentence if a session's head and its log report different ends of the last turn. A head is the stored
 * summary of a session; lists are made from heads. Returns nothing if the session has no head. The head must be as new
 * as the log. `state`: the state that the whole log gives.
 */
export function misstatedEnd(journal: Pick<Journal, 'head'>, key: SessionKey, state: SessionState): readonly string[] {
  const head = journal.head(key);
  if (head === undefined) return [];
  const { lastOutcome, lastError } = decodeHead(head.data).summary;
  const listed = lastOutcome === undefined ? 'no turn' : textOf(lastOutcome, lastError?.code);
  const logged = endText(state.last);
  return listed === logged ? [] : [`${state.id} is listed with ${listed}, its log says ${logged} (I28)`];
}

function outcomeOf(reason: string, record: SessionRecord): LastOutcome {
  if (record.type === 'suspended') return 'suspended';
  return reason === 'cancelled' ? 'interrupted' : 'answered';
}

function endText(last: LastTurn | undefined): string {
  return last === undefined ? 'no turn' : textOf(last.outcome, last.error?.code);
}

function textOf(outcome: LastOutcome, code?: string): string {
  return code === undefined ? outcome : `${outcome} (${code})`;
}
