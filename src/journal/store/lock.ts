/**
 * Ensures that a data directory has one owner.
 *
 * Owns: one file for each claimant in the data directory, `owner-<pid>-<random>.lock`. The file appears complete and
 * flushed to disk, and no other process writes it. Does not own: the store; a journal's fence (J5) guards that as well.
 *
 * Invariants:
 *  K1 a claimant owns the directory only if, after its own file was in place, it saw no file of another living
 *     claimant. If two race, the one that puts its file later sees the other's file. So the directory never has two
 *     owners;
 *  K2 a refused claimant has removed its file. If two see each other, the one with the older claim waits for the
 *     younger to leave, so a race has a winner;
 *  K3 a file is stale when its process is gone, or started at another time than the file says. It is also stale when
 *     the machine restarted since. This host never judges a file of another host as stale. Stale files are removed.
 *     No file name is used twice, so the removal cannot race with another claimant;
 *  K4 only the owner replaces its own file, whole, to name the server that it runs. Nothing replaces a file after its
 *     release, so a released directory stays released.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { STORE_LOCK_WAIT_MS } from '../../base/bounds.ts';
import { StoreLockedError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { openError } from '../lmdb/errors.ts';
import { putFile } from './durable-file.ts';
import { bootIdentity, processStart } from './process-identity.ts';

const LOCK_FILE = /^owner-\d+-[0-9a-f-]+\.lock$/;
const POLL_MS = 10;

const claimSchema = z.object({
  pid: z.number().int().positive(),
  /** The result of `processStart`. */
  startedAt: z.string().nullable(),
  boot: z.string().nullable(),
  host: z.string(),
  /** Epoch ms at which the directory was taken. */
  since: z.number(),
  /** The server of the process, if it serves the store over HTTP. */
  server: z.object({ url: z.string(), needsToken: z.boolean() }).optional(),
});

type Claim = z.infer<typeof claimSchema>;

interface Claimant {
  readonly file: string;
  readonly claim: Claim;
}

/** The HTTP server through which others reach a store that a process has open. */
export interface StoreServer {
  readonly url: string;
  readonly needsToken: boolean;
}

/** The living process that has a data directory open. */
export interface StoreOwner {
  readonly pid: number;
  readonly host: string;
  /** Epoch ms. */
  readonly since: number;
  /** True if the process runs on this machine. */
  readonly isLocal: boolean;
  readonly server?: StoreServer | undefined;
}

/** Held while a data directory is in use. */
export interface StoreLock {
  /**
   * Names the server of this process in the lock; `undefined`: it has none. After `release` this does nothing. Rejects
   * with `StoreFullError` when the system refuses.
   */
  announce(server: StoreServer | undefined): Promise<void>;
  /** Releases the directory. A second call has no further effect. */
  release(): Promise<void>;
}

/**
 * Takes the data directory, made when missing. Rejects with `StoreLockedError`, `data: { pid, host, since, path }`,
 * when another process or this one has it. It rejects at once, unless the other claimant is itself about to be refused.
 * Rejects with `StoreNotWritableError` for missing rights or a read-only file system, and with `StoreFullError` when
 * the system refuses otherwise (no space, no descriptors); the code is in `cause`.
 */
export async function acquireStoreLock(directory: string): Promise<StoreLock> {
  let mine: Claimant;
  try {
    await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
    mine = await putClaim(directory);
  } catch (error) {
    throw await openError(directory, directory, error);
  }
  try {
    await waitUntilAlone(directory, mine);
  } catch (error) {
    await rm(join(directory, mine.file), { force: true });
    throw await openError(directory, directory, error);
  }
  let released: Promise<void> | undefined;
  /** The last change of the lock file. The next change waits for it. */
  let changed: Promise<void> = Promise.resolve();
  return {
    announce(server) {
      const change = changed.then(async () => {
        if (released !== undefined) return;
        await replaceClaim(directory, { ...mine, claim: { ...mine.claim, server } });
      });
      changed = change.catch(() => undefined);
      return change;
    },
    release() {
      released ??= changed.then(() => rm(join(directory, mine.file), { force: true }));
      return released;
    },
  };
}

/** The living process that has the directory open; `undefined`: no process has. Takes nothing, writes nothing. */
export async function storeOwner(directory: string): Promise<StoreOwner | undefined> {
  for (const { claim } of await claimants(directory)) {
    if (!(await isAlive(claim))) continue;
    const { pid, host, since, server } = claim;
    return { pid, host, since, isLocal: host === hostname(), server };
  }
  return undefined;
}

/** Rejects with `StoreLockedError` while a living process has the directory. Takes nothing, writes nothing. */
export async function refuseIfOwned(directory: string): Promise<void> {
  for (const other of await claimants(directory)) if (await isAlive(other.claim)) throw locked(directory, other);
}

async function replaceClaim(directory: string, { file, claim }: Claimant): Promise<void> {
  try {
    await putFile(join(directory, file), JSON.stringify(claim), '.new');
  } catch (error) {
    throw await openError(directory, directory, error);
  }
}

async function putClaim(directory: string): Promise<Claimant> {
  const claim: Claim = {
    pid: process.pid,
    startedAt: (await processStart(process.pid)) ?? null,
    boot: await bootIdentity(),
    host: hostname(),
    since: Date.now(),
  };
  const file = `owner-${process.pid}-${randomUUID()}.lock`;
  await putFile(join(directory, file), JSON.stringify(claim), '.new');
  return { file, claim };
}

/** Enforces K1 and K2: returns when no other claimant lives, throws when one remains. */
async function waitUntilAlone(directory: string, mine: Claimant): Promise<void> {
  const deadline = performance.now() + STORE_LOCK_WAIT_MS;
  for (;;) {
    const others = await livingOthers(directory, mine.file);
    const elder = others.find((other) => isElder(other, mine));
    const other = elder ?? others[0];
    if (other === undefined) return;
    if (elder !== undefined || performance.now() >= deadline) throw locked(directory, other);
    await delay(POLL_MS);
  }
}

async function livingOthers(directory: string, mine: string): Promise<readonly Claimant[]> {
  const others: Claimant[] = [];
  for (const other of await claimants(directory)) {
    if (other.file === mine) continue;
    if (await isAlive(other.claim)) others.push(other);
    else await rm(join(directory, other.file), { force: true });
  }
  return others;
}

async function claimants(directory: string): Promise<readonly Claimant[]> {
  const found: Claimant[] = [];
  for (const file of await readdir(directory)) {
    const claim = LOCK_FILE.test(file) ? await readClaim(join(directory, file)) : undefined;
    if (claim !== undefined) found.push({ file, claim });
  }
  return found;
}

/**
 * Reads a claim; `undefined` if the file was removed meanwhile. A file without a readable claim counts as a living
 * claim of an unknown process.
 */
async function readClaim(path: string): Promise<Claim | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return claimSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new StoreLockedError(`the lock file ${path} cannot be read; remove it when no process uses its directory`, {
      cause,
      data: { path },
    });
  }
}

async function isAlive(claim: Claim): Promise<boolean> {
  if (claim.host !== hostname()) return true;
  const boot = await bootIdentity();
  if (claim.boot !== null && boot !== null && claim.boot !== boot) return false;
  const startedAt = await processStart(claim.pid);
  if (startedAt === undefined) return false;
  return startedAt === null || claim.startedAt === null || startedAt === claim.startedAt;
}

function isElder(other: Claimant, mine: Claimant): boolean {
  if (other.claim.since !== mine.claim.since) return other.claim.since < mine.claim.since;
  return other.file < mine.file;
}

function locked(directory: string, { file, claim }: Claimant): StoreLockedError {
  const { pid, host, since } = claim;
  const path = join(directory, file);
  const advice = host === hostname() ? '' : `; if that host no longer exists, remove ${path}`;
  return new StoreLockedError(
    `the store ${directory} is in use by process ${pid} on ${host} since ${new Date(since).toISOString()}${advice}`,
    { data: { pid, host, since, path } },
  );
}
