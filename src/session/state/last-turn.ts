/** The end of a session's last turn, as its state remembers it. Plain data. */
import { LAST_ERROR_CHARACTERS_MAX } from '../../base/bounds.ts';
import type { ErrorShape } from '../../base/errors.ts';
import { wellFormed } from '../../base/json.ts';
import type { LastError, LastOutcome } from '../../events/event.ts';

/** The end of the last turn. */
export interface LastTurn {
  readonly outcome: LastOutcome;
  /** Only if the turn failed. */
  readonly error?: LastError;
}

/** The end of a turn that failed. */
export function failedTurn({ name, code, message, retryable }: ErrorShape): LastTurn {
  const text =
    message.length > LAST_ERROR_CHARACTERS_MAX
      ? `${wellFormed(message.slice(0, LAST_ERROR_CHARACTERS_MAX - 1))}…`
      : message;
  return { outcome: 'failed', error: { name, code, message: text, ...(retryable === true ? { retryable } : {}) } };
}
