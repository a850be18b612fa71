/** The logger of the runtimes that commands open. It writes warnings to stderr; `LOG_LEVEL` sets another level. */
import type { Logger } from '../index.ts';
import { createLogger } from '../runtime/host/default-logger.ts';
import type { Surroundings } from './surroundings.ts';
import { printableJsonText } from './text-layout.ts';

/** See the head of the file. */
export function commandLogger({ environment, stderr }: Surroundings): Logger {
  return createLogger(environment, (line) => stderr.write(`${printableJsonText(line.trimEnd())}\n`));
}
