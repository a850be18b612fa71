/** Derives the state of the provider, which all sessions share, from a failed model call. Pure. */
import type { ErrorShape } from '../base/errors.ts';

/** See `outcomeOf`. */
export interface CallOutcome {
  /**
   * `credentials`: refused, so all sessions fail. `model`: not found, so every session that asks for this model fails.
   * `busy`: too many calls. `down`: a lost connection, a timeout or a server error. `answered`: only this request was
   * refused; the provider works. `nothing`: the failure shows nothing about the provider, for example a cancelled call.
   */
  readonly kind: 'credentials' | 'model' | 'busy' | 'down' | 'answered' | 'nothing';
  /** The milliseconds that the provider asked all callers to wait; 0 asks for no pause. Finite. */
  readonly retryAfterMs?: number;
}

const TOO_MANY_REQUESTS = 429;
const OVERLOADED = 529;
const NOT_FOUND = 404;
const CONFLICT = 409;

/** The outcome of a call that ended with `error`. */
export function outcomeOf(error: ErrorShape): CallOutcome {
  const status = error.data?.['status'];
  const asked = error.data?.['retryAfterMs'];
  const isAsked = typeof asked === 'number' && asked >= 0 && Number.isFinite(asked);
  const kind = kindOf(error, status);
  // Server errors are included, because a 503 may say how long the outage lasts.
  return isAsked && (kind === 'busy' || kind === 'down') ? { kind, retryAfterMs: asked } : { kind };
}

function kindOf(error: ErrorShape, status: unknown): CallOutcome['kind'] {
  switch (error.code) {
    case 'model_authentication':
      return 'credentials';
    case 'model_rate_limited':
      return 'busy';
    case 'model_overloaded':
      if (status === CONFLICT) return 'answered';
      return status === OVERLOADED || status === TOO_MANY_REQUESTS ? 'busy' : 'down';
    case 'model_connection':
    case 'model_timeout':
      return 'down';
    case 'model_invalid_request':
      return status === NOT_FOUND ? 'model' : 'answered';
    default:
      return 'nothing';
  }
}
