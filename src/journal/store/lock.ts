/**
 * Ensures that a data directory has one owner.
 *
 * Owns: one file for each claimant in the data directory, `owner-<pid>-<random>.lock`. The file appears complete and
 * flushed to disk, and no other process writes it. Does not own: the store. A journal's fence (J5) guards the store as
 * well.
 *
 * Invariants:
 *  K1 a claimant owns the directory only if, after its own file was in place, it saw no file of another living
 *     claimant. If two race, the one that puts its file later sees the other's file. So the directory never has two
 *     owners;
 *  K2 a refused claimant has removed its file. If two see each other, the one with the older claim waits for the
 *     younger to leave, so a race has a winner;
 *  K3 a file is stale when its process is gone, or when the process with that id started at another time than the file
 *     says. It is also stale when the machine restarted since the claim. This host never judges a file of another host
 *     as stale. Stale files are removed. No file name is used twice, so the removal cannot race with another claimant;
 *  K4 only the owner replaces its own file, as a whole: to add the server that it runs, or to end its takeover (K6).
 *     Nothing replaces a file after its release, so a released directory stays released;
 *  K5 a claim has the identity of the directory it was made in. A claim in any other directory came there with a copy
 *     of the store, and claims nothing. While the claim's process lives, the copied store is not opened: the process
 *     may have written to the files while they were copied;
 *  K6 a claimant that takes over waits for the owner to release the directory, although its own claim is younger (K2).
 *     Only one such claimant waits: a younger one is refused. The claim asks the owner to end. Once the claimant owns
 *     the directory, its claim no longer asks another owner to end.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { STORE_LOCK_POLL_MS, STORE_LOCK_WAIT_MS, TAKEOVER_GRACE_MS, TAKEOVER_LOOK_MS } from '../../base/bounds.ts';
import { StoreLockedError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { openError } from '../lmdb/errors.ts';
import { putFile } from './durable-file.ts';
import { bootIdentity, processStart } from './process-identity.ts';

const LOCK_FILE = /^owner-\d+-[0-9a-f-]+\.lock$/;

const claimSchema = z.object({
  pid: z.number().int().positive(),
  /** The result of `processStart`. */
  startedAt: z.string().nullable(),
  boot: z.string().nullable(),
  host: z.string(),
  /** Epoch ms at which the claim was made. */
  since: z.number(),
  /** The result of `directoryIdentity`; missing in claims of earlier versions. */
  directory: z.string().optional(),
  /** The server of the process, if it serves the store over HTTP. */
  server: z.object({ url: z.string(), needsToken: z.boolean() }).optional(),
  /** Present if the claimant takes over. The owner then ends, and has `deadlineMs` for its half-steps (K6). */
  takeover: z.object({ deadlineMs: z.number().min(0) }).optional(),
});

type Claim = z.infer<typeof claimSchema>;

interface Claimant {
  readonly file: string;
  readonly claim: Claim;
  /** True for a claim that was made in another directory of this machine (K5). */
  readonly isCopied: boolean;
}

/** The HTTP server through which other processes reach a store that a process has open. */
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

/** A process that takes the directory over, and the milliseconds that it gives the owner for its half-steps. */
export interface Takeover {
  readonly pid: number;
  readonly deadlineMs: number;
}

/** Held while a data directory is in use. */
export interface StoreLock {
  /**
   * Looks for a process that takes the directory over, until `release`, and reports the first one. The owner then ends
   * its work and releases. May be called once.
   */
  onTakeover(found: (takeover: Takeover) => void): void;
  /**
   * Writes the server of this process into the lock; `undefined`: it has none. After `release` this does nothing.
   * Rejects with `StoreFullError` when the system refuses.
   */
  announce(server: StoreServer | undefined): Promise<void>;
  /** Releases the directory. A second call has no further effect. */
  release(): Promise<void>;
}

/**
 * Takes the data directory, and creates it if it is missing. Rejects with `StoreLockedError`, `data: { pid, host,
 * since, path }`, when another process or this one has it. It rejects at once, unless the other claimant is itself
 * about to be refused. With `takeoverMs` it asks the owner to end within that time. It then rejects if the directory is
 * not released soon after, or if another claimant already takes it over. Rejects with `StoreNotWritableError` for
 * missing rights or a read-only file system, and with `StoreFullError` when the system refuses for another reason (no
 * space, no descriptors); the code is in `cause`.
 */
export async function acquireStoreLock(
  directory: string,
  { takeoverMs }: { readonly takeoverMs?: number } = {},
): Promise<StoreLock> {
  let mine: Claimant;
  try {
    await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
    mine = await putClaim(directory, takeoverMs);
  } catch (error) {
    throw await openError(directory, directory, error);
  }
  try {
    await waitUntilAlone(directory, mine);
    if (takeoverMs !== undefined) mine = await withoutTakeover(directory, mine);
  } catch (error) {
    await rm(join(directory, mine.file), { force: true });
    throw await openError(directory, directory, error);
  }
  let released: Promise<void> | undefined;
  /** The last change of the lock file. The next change waits for it. */
  let changed: Promise<void> = Promise.resolve();
  let endLook = (): void => undefined;
  return {
    onTakeover(found) {
      if (released === undefined) endLook = lookForTakeover(directory, mine.file, found);
    },
    announce(server) {
      const change = changed.then(async () => {
        if (released !== undefined) return;
        await replaceClaim(directory, { ...mine, claim: { ...mine.claim, server } });
      });
      changed = change.catch(() => undefined);
      return change;
    },
    release() {
      endLook();
      released ??= changed.then(() => rm(join(directory, mine.file), { force: true }));
      return released;
    },
  };
}

/**
 * The living process that has the directory open; `undefined` if no process has it open. Makes no claim and writes
 * nothing.
 */
export async function storeOwner(directory: string): Promise<StoreOwner | undefined> {
  for (const { claim, isCopied } of await claimants(directory)) {
    if (isCopied || claim.takeover !== undefined || !(await isAlive(claim))) continue;
    const { pid, host, since, server } = claim;
    return { pid, host, since, isLocal: host === hostname(), server };
  }
  return undefined;
}

/** Rejects with `StoreLockedError` while a living process has the directory. Makes no claim and writes nothing. */
export async function refuseIfOwned(directory: string): Promise<void> {
  for (const other of await claimants(directory)) {
    if (!other.isCopied && (await isAlive(other.claim))) throw locked(directory, other);
  }
}

async function replaceClaim(directory: string, { file, claim }: Claimant): Promise<void> {
  try {
    await putFile(join(directory, file), JSON.stringify(claim), '.new');
  } catch (error) {
    throw await openError(directory, directory, error);
  }
}

/** The claim of a new owner. It no longer asks another owner to end (K6). */
async function withoutTakeover(directory: string, { file, claim, isCopied }: Claimant): Promise<Claimant> {
  const { takeover: _asked, ...owned } = claim;
  const mine = { file, claim: owned, isCopied };
  await replaceClaim(directory, mine);
  return mine;
}

/**
 * Looks for a claimant that takes over, every `TAKEOVER_LOOK_MS`. A watch of the directory would need a descriptor, and
 * would report every change of the store's files. Returns the function that ends the looks.
 */
function lookForTakeover(directory: string, mine: string, found: (takeover: Takeover) => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const lookLater = (): void => {
    timer = setTimeout(() => void look(), TAKEOVER_LOOK_MS).unref();
  };
  const look = async (): Promise<void> => {
    const takeover = await takeoverIn(directory, mine);
    if (isOver) return;
    if (takeover === undefined) lookLater();
    else found(takeover);
  };
  lookLater();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

async function takeoverIn(directory: string, mine: string): Promise<Takeover | undefined> {
  try {
    for (const { file, claim, isCopied } of await claimants(directory)) {
      if (file === mine || isCopied || claim.takeover === undefined || !(await isAlive(claim))) continue;
      return { pid: claim.pid, deadlineMs: claim.takeover.deadlineMs };
    }
  } catch {
    // The next look reads the directory again. If the directory is gone, the store itself reports that.
  }
  return undefined;
}

async function putClaim(directory: string, takeoverMs: number | undefined): Promise<Claimant> {
  const claim: Claim = {
    pid: process.pid,
    startedAt: (await processStart(process.pid)) ?? null,
    boot: await bootIdentity(),
    host: hostname(),
    since: Date.now(),
    directory: await directoryIdentity(directory),
    ...(takeoverMs === undefined ? {} : { takeover: { deadlineMs: takeoverMs } }),
  };
  const file = `owner-${process.pid}-${randomUUID()}.lock`;
  try {
    await putFile(join(directory, file), JSON.stringify(claim), '.new');
  } catch (error) {
    // The claim may be in place already, when only the sync of the directory failed (K2).
    await rm(join(directory, file), { force: true });
    throw error;
  }
  return { file, claim, isCopied: false };
}

/** Enforces K1, K2 and K6: returns when no other claimant lives, throws when one remains. */
async function waitUntilAlone(directory: string, mine: Claimant): Promise<void> {
  const { takeover } = mine.claim;
  const waitMs = takeover === undefined ? STORE_LOCK_WAIT_MS : takeover.deadlineMs + TAKEOVER_GRACE_MS;
  const deadline = performance.now() + waitMs;
  for (;;) {
    const others = await livingOthers(directory, mine.file);
    const isAhead = ({ claim }: Claimant): boolean => takeover === undefined || claim.takeover !== undefined;
    const elder = others.find((other) => isElder(other, mine) && isAhead(other));
    const other = elder ?? others[0];
    if (other === undefined) return;
    if (other.isCopied) throw copied(directory, other);
    if (elder !== undefined || performance.now() >= deadline) throw locked(directory, other);
    await delay(STORE_LOCK_POLL_MS);
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
  const files = (await readdir(directory)).filter((file) => LOCK_FILE.test(file));
  if (files.length === 0) return found;
  const identity = await directoryIdentity(directory);
  for (const file of files) {
    const claim = await readClaim(join(directory, file));
    if (claim === undefined) continue;
    // Another machine may number the same directory differently, so only a claim of this machine is compared.
    const isHere = claim.host !== hostname() || claim.directory === undefined || claim.directory === identity;
    found.push({ file, claim, isCopied: !isHere });
  }
  return found;
}

/** Identifies a directory. A copy of the directory has another identity. */
async function directoryIdentity(directory: string): Promise<string> {
  const { dev, ino } = await stat(directory, { bigint: true });
  return `${dev} ${ino}`;
}

/**
 * Reads a claim; `undefined` if the file was removed meanwhile. A file without a readable claim may belong to a living
 * process, so it is refused with `StoreLockedError`.
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

function copied(directory: string, { file, claim }: Claimant): StoreLockedError {
  const { pid, host, since } = claim;
  const path = join(directory, file);
  return new StoreLockedError(
    `${directory} is a copy of a store that process ${pid} has open: files that were copied while they were written do not ` +
      `fit together. \`troupe backup\` makes a copy that does. If nothing was written during the copy, remove ${path}`,
    { data: { pid, host, since, path } },
  );
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
