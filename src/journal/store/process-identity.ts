/** The identity of a process. A pid alone is not enough, because pids are reused. */
import { readFile } from 'node:fs/promises';

/** Positions, after the command name, of fields 3 (state) and 22 (start time) of `/proc/<pid>/stat` (proc(5)). */
const STATE_FIELD = 0;
const START_FIELD = 19;
/** States of a process that has ended, though its entry remains. */
const DEAD_STATES: ReadonlySet<string> = new Set(['Z', 'X', 'x']);

/**
 * The start time of a process as the system counts it (text, for comparison only). `undefined`: no such process, or it
 * is a zombie. `null`: the system does not say.
 */
export async function processStart(pid: number): Promise<string | null | undefined> {
  let text: string;
  try {
    text = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return signalReaches(pid) ? null : undefined;
  }
  // The command name is in parentheses and may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  if (DEAD_STATES.has(fields[STATE_FIELD] ?? '')) return undefined;
  return fields[START_FIELD] ?? null;
}

/** An id of this run of the machine, which changes at a restart; `null` when the system does not provide one. */
export async function bootIdentity(): Promise<string | null> {
  try {
    return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
  } catch {
    return null;
  }
}

function signalReaches(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // If signalling a process is refused, the process exists.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
