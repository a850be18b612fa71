/** The option `logger` of `open`. */

/** The methods of a logger that a runtime calls; a pino logger has them. */
export interface Logger
  extends Readonly<Record<'debug' | 'info' | 'warn' | 'error', (fields: object, message: string) => void>> {
  /**
   * Returns a logger that adds these fields to every line. The runtime calls this method for each session that logs,
   * and keeps the loggers of the sessions that logged last.
   */
  readonly child?: (fields: object) => Logger;
}

/** A logger that never throws. */
export interface GuardedLogger extends Omit<Logger, 'child'> {
  /** Returns a logger that adds these fields to every line; undefined when the logger cannot create children. */
  readonly child: (fields: object) => GuardedLogger | undefined;
}

/** The logger of a runtime; undefined when nothing is logged. */
export function loggerOf(given: Logger | false): GuardedLogger | undefined {
  return given === false ? undefined : guarded(given);
}

/**
 * Wraps a logger so that it never throws. A failing logger must not end a transition or the host, so its error is
 * dropped (F65).
 */
function guarded(logger: Logger): GuardedLogger {
  const guardedLine =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: object, message: string): void => {
      try {
        logger[level](fields, message);
      } catch {
        // The logger itself failed, so the failure cannot be reported.
      }
    };
  const child = (fields: object): GuardedLogger | undefined => {
    try {
      return typeof logger.child === 'function' ? guarded(logger.child(fields)) : undefined;
    } catch {
      // Without a child logger each line names its session.
      return undefined;
    }
  };
  return {
    debug: guardedLine('debug'),
    info: guardedLine('info'),
    warn: guardedLine('warn'),
    error: guardedLine('error'),
    child,
  };
}
