/**
 * A logger for the lines that the host thread itself writes, about callbacks, MCP servers and webhooks. Lines of a
 * session thread are redacted on that thread, before they reach the host (`redacted-host.ts`).
 */
import type { GuardedLogger } from '../protocol/options.ts';
import type { RedactOption } from '../protocol/redact-option.ts';
import { redactJson } from './redacted-values.ts';
import { loadRedact, Redactor, redactionError } from './redactor.ts';

/** Fields of a line that name something. */
const NAMES_OF_FIELDS: ReadonlySet<string> = new Set(['session', 'agent', 'provider', 'server', 'code', 'name']);

/**
 * The logger with redaction. A module of the option `redact` is loaded on this thread too. Rejects with `ConfigError`
 * for a module without a function.
 */
export async function redactedLogger(logger: GuardedLogger, redact: RedactOption): Promise<GuardedLogger> {
  const redacts = redact instanceof URL ? await loadRedact(redact.href) : redact;
  return loggerOf(logger, new Redactor(redacts, () => undefined), undefined);
}

function loggerOf(logger: GuardedLogger, redactor: Redactor, session: string | undefined): GuardedLogger {
  const redact = redactor.of(session)('log');
  const lineOf =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: object, message: string): void => {
      let line: readonly [object, string];
      try {
        line = [redactJson(fields, redact, (_, name) => NAMES_OF_FIELDS.has(name)), redact(message)];
      } catch (thrown) {
        // A line that cannot be redacted has only the error of the redaction.
        line = [{}, redactionError(thrown).message];
      }
      logger[level](...line);
    };
  return {
    debug: lineOf('debug'),
    info: lineOf('info'),
    warn: lineOf('warn'),
    error: lineOf('error'),
    child: (fields) => {
      const child = logger.child(fields);
      const of: unknown = Reflect.get(fields, 'session');
      return child && loggerOf(child, redactor, typeof of === 'string' ? of : session);
    },
  };
}
