/**
 * The process groups of a program that leads its own POSIX session, such as a shell or an MCP server. Commands such as
 * `timeout` move their child processes to another group of that session. A signal to the leader's group does not reach
 * these child processes.
 */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { PROCESS_GONE_POLL_MS } from '../../base/bounds.ts';

/** Bytes of a process table as `ps` prints it: enough for 100,000 processes. */
const TABLE_BYTES_MAX: number = 4 * 1024 * 1024;

/**
 * The groups with a living process in the session that `leader` (a process id) leads, including the leader's own group.
 * With `carried` (`NAME=value`), also the groups of processes that have left the session but have this entry in their
 * environment. Without `/proc`: the leader's group and the groups of its descendants. `watcher`: the process id of a
 * watcher (see `watcherCode`); a group in which only the watcher lives does not count. The list is empty when no
 * process is left. Never rejects.
 */
export async function groupsOf(leader: number, carried?: string, watcher?: number): Promise<readonly number[]> {
  try {
    return (await groupsInProc(leader, carried, watcher)) ?? (await groupsOfTree(leader, watcher));
  } catch {
    return isGroupAlive(leader) ? [leader] : [];
  }
}

/**
 * Kills each process that was started with one of these entries (`NAME=value`) in its environment. This function waits
 * for nothing, so that it can run while this process exits. Does nothing without `/proc`.
 */
export function killCarriers(entries: ReadonlySet<string>): void {
  if (process.platform !== 'linux' || entries.size === 0) return;
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0');
      if (environment.some((entry) => entries.has(entry))) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // The process has ended in the meantime, or belongs to another user.
    }
  }
}

/**
 * Ends the groups that `groupsOf` finds: TERM, and KILL for the groups that are left after `killMs`. A `watcher` in the
 * leader's group survives TERM; it is killed last. Resolves when no group is left, or KILL was sent. Never rejects.
 */
export async function endGroups(leader: number, carried: string, killMs: number, watcher?: number): Promise<void> {
  let groups = await groupsOf(leader, carried, watcher);
  for (const group of groups) signalGroup(group, 'SIGTERM');
  // A deadline is used, not a count of rounds: on a machine with many processes a search takes longer than the wait.
  const until = performance.now() + killMs;
  while (groups.length > 0 && performance.now() < until) {
    await delay(PROCESS_GONE_POLL_MS);
    groups = await groupsOf(leader, carried, watcher);
  }
  for (const group of groups) signalGroup(group, 'SIGKILL');
  // This cannot hit a foreign group: while the watcher lives, the system gives the leader's number to no other group.
  if (watcher !== undefined) signalGroup(leader, 'SIGKILL');
}

/**
 * The code of a watcher in the group of a program, for `sh`. The watcher waits until descriptor 3 is closed. Then it
 * kills every other process with the entry `carried` (`NAME=value`) in its environment, and finally its own group. The
 * watcher searches twice, because a process may start another process during the search.
 */
export function watcherCode(carried: string): string {
  const find = `for at in /proc/[0-9]*/environ; do pid=\${at#/proc/}; pid=\${pid%/environ}`;
  const hunt = `${find}; [ "$pid" != "$own" ] && grep -qs '${carried}' "$at" && kill -KILL "$pid"; done`;
  return `read -r line <&3; read -r own rest </proc/self/stat; ${hunt}; ${hunt}; kill -KILL 0`;
}

/** Signals a group. Returns false when the group does not exist or may not be signalled. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal);
  } catch {
    return false;
  }
}

function isGroupAlive(group: number): boolean {
  return signalGroup(group, 0);
}

/** The groups as `/proc` lists them; `undefined` on a system without `/proc`. Format: proc(5), `/proc/pid/stat`. */
async function groupsInProc(
  leader: number,
  carried: string | undefined,
  watcher: number | undefined,
): Promise<readonly number[] | undefined> {
  if (process.platform !== 'linux') return undefined;
  const groups = new Set<number>();
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === watcher) continue;
    // A process that has ended since the directory was read is skipped.
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
    // The name of the program is in parentheses and may hold any character. So the fields are counted from the last
    // closing parenthesis.
    const [state = '', , group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === '' || 'ZX'.includes(state)) continue;
    if (Number(session) === leader || (await carries(pid, carried))) groups.add(Number(group));
  }
  return [...groups];
}

/**
 * True if a process has the entry in the environment that it was started with. The environment of another user's
 * process cannot be read; such a process gives false.
 */
async function carries(pid: string, entry: string | undefined): Promise<boolean> {
  if (entry === undefined) return false;
  const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
  return environment.split('\0').includes(entry);
}

async function groupsOfTree(leader: number, watcher: number | undefined): Promise<readonly number[]> {
  const options = { maxBuffer: TABLE_BYTES_MAX };
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='], options);
  const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/));
  const family = new Set([leader]);
  const groups = new Set<number>();
  // A process is usually listed after its parent, so the first pass finds most processes. The second pass finds nearly
  // all of those that are listed before their parent.
  for (let pass = 0; pass < 2; pass += 1) {
    for (const [pid, parent, group, state = 'Z'] of rows) {
      if (state.startsWith('Z') || Number(pid) === watcher) continue;
      const isOurs = family.has(Number(parent)) || Number(group) === leader || Number(pid) === leader;
      if (!isOurs) continue;
      family.add(Number(pid));
      groups.add(Number(group));
    }
  }
  return [...groups];
}
