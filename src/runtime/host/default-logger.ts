/** The logger of a runtime whose options have no logger: pino, to stderr. */

import type * as pinoLibrary from 'pino';
import type { Logger as PinoLogger } from 'pino';
import { loadLibrary } from '../../base/load-library.ts';
import { REDACTED, SECRET_PATHS } from '../../base/redaction.ts';
import type { Logger } from '../protocol/options.ts';

/** The environment variable that sets the level. */
const LEVEL_VARIABLE = 'LOG_LEVEL';
const LEVEL_DEFAULT = 'warn';
const STDERR = 2;

/**
 * A logger for warnings and worse, unless `LOG_LEVEL` names another level of pino, or `silent`. `write` takes the
 * lines; default: stderr, synchronously, so that the last line before a crash is not lost.
 *
 * Pino is loaded with the first line, because most runtimes log nothing while they open. `require` loads it
 * synchronously. With `import`, a crash could come before the line is written.
 */
export function createLogger(
  { [LEVEL_VARIABLE]: level }: Readonly<Record<string, string | undefined>>,
  write?: (line: string) => void,
): Required<Logger> {
  let loaded: PinoLogger | undefined;
  const logger = (): PinoLogger => {
    loaded ??= loadPino(level, write);
    return loaded;
  };
  return {
    debug: (fields, message) => logger().debug(fields, message),
    info: (fields, message) => logger().info(fields, message),
    warn: (fields, message) => logger().warn(fields, message),
    error: (fields, message) => logger().error(fields, message),
    child: (fields) => logger().child(fields),
  };
}

function loadPino(level: string | undefined, write: ((line: string) => void) | undefined): PinoLogger {
  const { destination, levels, pino } = loadLibrary('pino') as typeof pinoLibrary;
  const options = { level: levelOf(level, levels), redact: { paths: [...SECRET_PATHS], censor: REDACTED } };
  return pino(options, write === undefined ? destination({ dest: STDERR, sync: true }) : { write });
}

/**
 * The level that the variable names, or the default. Other programs use the same variable, so the runtime must start
 * with a level that pino does not have.
 */
function levelOf(value: string | undefined, levels: typeof pinoLibrary.levels): string {
  const level = value?.trim().toLowerCase() ?? '';
  return level === 'silent' || Object.hasOwn(levels.values, level) ? level : LEVEL_DEFAULT;
}
