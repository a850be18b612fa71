/**
 * Provider trouble that affects all sessions on a provider key, as one line for the logger of the embedder. There is
 * one line however many sessions there are. Pure.
 */
import type { Trouble } from '../../models/governor/governor.ts';
import type { LogLine } from '../protocol/protocol.ts';

/**
 * The log line of a trouble. A pause and a smaller window are normal for a provider; any other trouble needs a person.
 */
export function troubleLogLine({ kind, waitMs, error }: Trouble): LogLine {
  const wait = waitMs === undefined ? {} : { ms: waitMs };
  switch (kind) {
    case 'pause':
      return {
        level: 'info',
        message: 'the provider asks for less: model calls of all sessions pause',
        error,
        ...wait,
      };
    case 'window':
      return {
        level: 'info',
        message: 'the provider refuses model calls: fewer are in flight for all sessions',
        error,
      };
    case 'circuit':
      return {
        level: 'warn',
        message: 'the provider does not answer: model calls of all sessions pause',
        error,
        ...wait,
      };
    case 'credentials':
      return { level: 'error', message: 'the credentials were refused: no session calls until resume()', error };
    case 'model':
      return { level: 'error', message: 'a model was not found: no session calls it until resume()', error };
  }
}
