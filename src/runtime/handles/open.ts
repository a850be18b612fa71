/** `open`: makes a runtime from a data directory. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { removeUnfinished } from '../../../actors/result-store.ts';
import { defined } from '../../base/defined.ts';
import { asError, ConfigError, describeValue } from '../../base/errors.ts';
import { openManifest } from '../../journal/store/birth.ts';
import { compactAtOpen } from '../../journal/store/compaction.ts';
import { acquireStoreLock } from '../../journal/store/lock.ts';
import { replaceManifest, type StoreManifest } from '../../journal/store/manifest.ts';
import { findWideRights } from '../../journal/store/rights.ts';
import { encryptionRecord, fittingKeys, newEncryption } from '../../journal/store/store-key.ts';
import { createLogger } from '../host/default-logger.ts';
import { type ShardWorker, startWorker } from '../host/shard-threads.ts';
import { type CheckedOptions, checkOptions, type OpenOptions } from '../protocol/options.ts';
import { MOVED_SESSIONS } from '../reading/moved-sessions.ts';
import { keepAnnounced } from './announced-servers.ts';
import { assembleWithModels, checkShares, MEMORY, type Place } from './assemble.ts';
import { handOver, type Runtime } from './runtime.ts';

/**
 * Opens a data directory, or a store in memory (`':memory:'`), and resumes everything that was interrupted. A missing
 * directory is created. Rejects with `ConfigError` (an option, an agent, a tool), `StoreLockedError` (another process
 * has the directory open), `StoreNotWritableError` (no rights, a read-only file system), `StoreCorruptError`,
 * `StoreVersionError`, `StoreKeyError` (the option `encryption` does not fit the store), `StoreFullError`. With the
 * option `cluster`, `StoreLockedError` says that another node has the sessions, and `StoreFullError` that the database
 * cannot be used.
 */
export async function open(directory: string, options: OpenOptions = {}): Promise<Runtime> {
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new ConfigError(`the data directory must be a path or ':memory:', got ${describeValue(directory)}`);
  }
  const checked = checkOptions(options, createLogger(process.env));
  // The thread is started first, because loading its code takes most of the time of `open`.
  const thread = checked.threads.sessions > 0 ? startWorker({ index: 0, usesStore: directory !== MEMORY }) : undefined;
  try {
    return await openAt(directory, checked, thread);
  } catch (error) {
    await thread?.exit();
    throw error;
  }
}

/** `thread`: the thread of the first shard; the caller ends it after an error. */
async function openAt(directory: string, checked: CheckedOptions, thread: ShardWorker | undefined): Promise<Runtime> {
  const opened = await openPlace(directory, checked);
  const place = { ...opened, ...defined({ thread }) };
  try {
    // This check runs before the shards create any file. So it sees only files that existed before this `open`.
    if (place.directory !== undefined) await warnOfWideRights(place.directory, checked);
    const runtime = await assembled(checked, place);
    try {
      await endRotation(place);
    } catch (error) {
      await runtime.close({ deadlineMs: 0 });
      throw error;
    }
    if (place.announce !== undefined) keepAnnounced(runtime, place.announce);
    if (place.cluster !== undefined) {
      const { endWhenLost } = await import('./open-cluster.ts');
      endWhenLost(runtime, place.cluster, checked.logger);
    }
    place.onTakeover?.((takeover) => {
      checked.logger?.info(takeover, `process ${takeover.pid} takes ${directory} over: this runtime ends`);
      handOver(runtime, takeover).catch((error: unknown) => {
        checked.logger?.error({ err: error }, `the runtime did not end as it should: ${asError(error).message}`);
      });
    });
    return runtime;
  } catch (error) {
    await place.release();
    throw error;
  }
}

/**
 * Writes the id of the new key of a store into its manifest. Every shard has wrapped its data keys with the new key by
 * now.
 */
async function endRotation({ directory, encryption }: Place): Promise<void> {
  if (directory === undefined || encryption?.isRotating !== true) return;
  await replaceManifest(directory, { encryption: encryptionRecord(encryption) });
}

async function assembled(checked: CheckedOptions, place: Place): Promise<Runtime> {
  if (checked.definitions === undefined) return assembleWithModels(checked, place);
  // Imported only if needed: the YAML parser is half as large as the rest of the package.
  const { openWithDefinitions } = await import('./open-definitions.ts');
  return openWithDefinitions(checked, checked.definitions, place);
}

/**
 * Logs a warning if other users of the machine have rights to the store, because the store holds what users said. The
 * rights may be intended, so they are not changed.
 */
async function warnOfWideRights(directory: string, { logger }: CheckedOptions): Promise<void> {
  const found = await findWideRights(directory);
  if (found === undefined) return;
  logger?.warn(
    { path: found.path, mode: found.mode },
    `users other than its owner may use the store ${directory}: ${found.path} has mode ${found.mode}. ` +
      `\`chmod -R go= ${directory}\` removes their rights`,
  );
}

/**
 * Acquires the directory: takes the lock first, then reads the manifest. If the option `threads.sessions` asks for
 * another number of shards, moves the sessions of the store to that number of shards (A6).
 */
async function openPlace(directory: string, checked: CheckedOptions): Promise<Place> {
  const { threads, takeoverMs, encryption, cluster } = checked;
  const sessionThreads = threads.sessions;
  const shards = Math.max(1, sessionThreads);
  if (directory === MEMORY) {
    if (cluster !== undefined) {
      throw new ConfigError(`option "cluster": a node needs a data directory for its copies, not ${MEMORY}`, {
        data: { key: 'cluster' },
      });
    }
    if (encryption !== undefined) {
      throw new ConfigError(`option "encryption": a store in memory is not encrypted; give a data directory`, {
        data: { key: 'encryption' },
      });
    }
    const resultStore = await mkdtemp(join(tmpdir(), 'troupe-'));
    return { shards, resultStore, release: () => rm(resultStore, { recursive: true, force: true }) };
  }
  const root = resolve(directory);
  const lock = await acquireStoreLock(root, defined({ takeoverMs }));
  if (sessionThreads === 0) loadShard();
  try {
    if (cluster !== undefined) {
      const { openClusterPlace } = await import('./open-cluster.ts');
      const place = await openClusterPlace(root, cluster, checked);
      await withoutUnfinished(place.resultStore, checked);
      return {
        ...place,
        announce: (server) => lock.announce(server),
        release: () => place.release().finally(() => lock.release()),
      };
    }
    const made = await openManifest(root, shards, encryption && newEncryption(encryption));
    const keys = fittingKeys(root, made.encryption, encryption);
    const manifest = await withShards(root, made, checked);
    const resultStore = join(root, 'results');
    // A process that takes the store over must be ready soon, so it compacts nothing and removes nothing.
    if (takeoverMs === undefined) {
      await compacted(root, manifest.shards, checked);
      await withoutUnfinished(resultStore, checked);
    }
    return {
      ...defined({ encryption: keys }),
      directory: root,
      resultStore,
      shards: manifest.shards,
      announce: (server) => lock.announce(server),
      onTakeover: (found) => lock.onTakeover(found),
      release: () => lock.release(),
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Compacts the files of the store. A failure is only logged, because the store works without a compaction. */
async function compacted(root: string, shards: number, { logger }: CheckedOptions): Promise<void> {
  try {
    const { bytesBefore, bytes } = await compactAtOpen(root, shards);
    if (bytesBefore > 0) logger?.info({ bytesBefore, bytes }, `the files of the store ${root} were compacted`);
  } catch (error) {
    logger?.warn({ err: error }, `the files of the store ${root} were not compacted: ${asError(error).message}`);
  }
}

/** Removes unfinished results. A failure is only logged, because the store works with them. */
async function withoutUnfinished(directory: string, { logger }: CheckedOptions): Promise<void> {
  try {
    await removeUnfinished(directory);
  } catch (error) {
    logger?.warn({ err: error }, `unfinished results stay in ${directory}: ${asError(error).message}`);
  }
}

/** Changes the number of shards of the store, if the options ask for another number. */
async function withShards(directory: string, manifest: StoreManifest, checked: CheckedOptions): Promise<StoreManifest> {
  const { shards, logger } = checked;
  if (shards === undefined || shards === manifest.shards) return manifest;
  if (manifest.encryption !== undefined) {
    throw new ConfigError(
      `option "threads.sessions": ${shards}, but the encrypted store ${directory} was made with ${manifest.shards} ` +
        `session threads. What it has is bound to its place, so its sessions cannot move to other threads: open it with ` +
        `${manifest.shards}, or without the option. Nothing was written`,
      { data: { key: 'threads.sessions', value: shards, expected: manifest.shards, path: directory } },
    );
  }
  // Limits that are too small for the new number are refused before the store is changed.
  checkShares(checked, shards);
  const { changeLayout } = await import('../../journal/layout/change-layout.ts');
  const { movedCursor } = await import('../webhooks/cursor.ts');
  const change = { from: manifest.shards, to: shards };
  logger?.info(change, `${directory}: the number of session threads changes from ${change.from} to ${change.to}`);
  const { sessions, bytes, ms } = await changeLayout({
    directory,
    ...change,
    reading: MOVED_SESSIONS,
    moveCursor: (text, moved) => movedCursor(text, shards, moved),
    report: (copied) => logger?.info({ ...change, bytes: copied }, `${directory}: ${megabytes(copied)} copied`),
  });
  logger?.info(
    { ...change, sessions, bytes, ms: Math.round(ms) },
    `${directory}: ${sessions} sessions were moved to ${shards} session threads, ${megabytes(bytes)} in ` +
      `${(ms / 1_000).toFixed(1)} s`,
  );
  return { ...manifest, shards };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(1)} MB`;
}

/**
 * Begins to load the code of a shard with a store on this thread, while the manifest and the rights are read. The
 * caller must lock the directory first. A process without free file descriptors must fail at the lock and not at this
 * import, because Node never repeats a failed import. Errors are ignored here, because the shard is about to load the
 * same code and reports them.
 */
function loadShard(): void {
  import('../../journal/open-journal.ts').then(({ loadDatabase }) => loadDatabase()).catch(() => undefined);
}
