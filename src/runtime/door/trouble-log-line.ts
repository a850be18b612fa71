/**
 * Makes one log line for provider trouble that affects all sessions on a provider key, however many there are. Pure.
 */
import type { Trouble } from '../../models/governor/governor.ts';
import type { LogLine } from '../protocol/protocol.ts';

/**
 * The log line of a trouble. A pause, and fewer calls in flight (`window`), are normal for a provider. Any other
 * trouble needs a person. `provider`: the name of the provider; empty if it has none.
 */
export function troubleLogLine({ kind, waitMs, error }: Trouble, provider: string): LogLine {
  const fields = {
    error,
    ...(waitMs === undefined ? {} : { ms: waitMs }),
    ...(provider === '' ? {} : { provider }),
  };
  const subject = provider === '' ? 'the provider' : `provider ${provider}`;
  const possessor = provider === '' ? '' : ` of provider ${provider}`;
  switch (kind) {
    case 'pause':
      return { level: 'info', message: `${subject} asks for less: model calls of all sessions pause`, ...fields };
    case 'window':
      return {
        level: 'info',
        message: `${subject} refuses model calls: fewer are in flight for all sessions`,
        ...fields,
      };
    case 'circuit':
      return { level: 'warn', message: `${subject} does not answer: model calls of all sessions pause`, ...fields };
    case 'credentials':
      return {
        level: 'error',
        message: `the credentials${possessor} were refused: no session calls${provider === '' ? '' : ' it'} until resume()`,
        ...fields,
      };
    case 'model':
      return {
        level: 'error',
        message: `a model${possessor} was not found: no session calls it until resume()`,
        ...fields,
      };
  }
}
