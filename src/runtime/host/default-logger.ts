/** The logger of a runtime that is given none: pino, to stderr. */
import { destination, type Logger, levels, pino } from 'pino';
import { REDACTED, SECRET_PATHS } from '../../base/redaction.ts';

/** The environment variable that sets the level. */
const LEVEL_VARIABLE = 'LOG_LEVEL';
const LEVEL_DEFAULT = 'warn';
const STDERR = 2;

/**
 * A logger for warnings and worse, unless `LOG_LEVEL` names another level of pino, or `silent`. `write` takes the
 * lines; default: stderr, synchronously, so that the last line before a crash is not lost.
 */
export function createLogger(
  environment: Readonly<Record<string, string | undefined>>,
  write?: (line: string) => void,
): Logger {
  const options = { level: levelOf(environment), redact: { paths: [...SECRET_PATHS], censor: REDACTED } };
  return pino(options, write === undefined ? destination({ dest: STDERR, sync: true }) : { write });
}

/** Other programs use the same variable, so a level that pino does not have must not keep the runtime from starting. */
function levelOf(environment: Readonly<Record<string, string | undefined>>): string {
  const level = environment[LEVEL_VARIABLE]?.trim().toLowerCase() ?? '';
  return level === 'silent' || Object.hasOwn(levels.values, level) ? level : LEVEL_DEFAULT;
}
