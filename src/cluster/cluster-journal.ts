/**
 * The journal of a shard in a cluster: the log outside this machine, under the claim of this node, and a copy in LMDB
 * that is not synced. Runs on the shard's thread.
 */
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { defined } from '../base/defined.ts';
import { asError, type ErrorCode, errorFromShape, plainMembers, systemCodeOf, TroupeError } from '../base/errors.ts';
import { EngineJournal } from '../journal/engine-journal.ts';
import type { Journal, JournalOptions } from '../journal/journal.ts';
import { type CopyFault, openReplicatedEngine } from '../journal/replica/replicated-engine.ts';
import type { LogSnapshot, ShardLog } from '../journal/replica/shard-log.ts';
import { Lease } from './lease.ts';
import { type ClusterPlan, loadCluster, type ShardClaim } from './plan.ts';

/** The place of one shard in a cluster. Plain data. */
export interface ShardPlace {
  readonly plan: ClusterPlan;
  readonly claim: ShardClaim;
  /** The memory of the node's lease. */
  readonly memory: SharedArrayBuffer;
}

/** The parts of which the journal of a shard in a cluster is made. */
export interface ClusterJournalParts {
  readonly place: ShardPlace;
  readonly options: JournalOptions & { readonly directory: string };
  /** Called when the copy is found damaged. The next write is refused, and `recover` builds the copy again. */
  readonly damaged: (error: Error) => void;
  readonly log: (message: string) => void;
}

/**
 * Opens the journal of a shard. Rejects with `ShardMovedError` if another node has claimed the shard since, and with
 * `StoreFullError` if the database does not answer. Rejects with `StoreCorruptError` if the log itself is damaged, and
 * like `openLmdbJournal`.
 */
export async function openClusterJournal({ place, options, damaged, log }: ClusterJournalParts): Promise<Journal> {
  const { plan, claim, memory } = place;
  const { directory, gate, encryption, shard = 0 } = options;
  const lease = new Lease(memory);
  const { openShardLog } = await loadCluster(plan);
  const shardLog = openShardLog(plan.data, { claim, holdMs: plan.holdMs, isLost: () => lease.isLost });
  try {
    const [{ openLmdbEngine }, { lmdbSnapshotFiles }] = await Promise.all([
      import('../journal/lmdb/engine.ts'),
      import('../journal/lmdb/snapshot-file.ts'),
    ]);
    const engine = await openReplicatedEngine({
      log: withOwnErrors(shardLog),
      openCopy: (onLost) =>
        openLmdbEngine({ directory, durability: 'os', onLost, shard, ...defined({ gate, encryption }) }),
      removeCopy: async (fault) => log(await removeCopy(directory, fault)),
      files: lmdbSnapshotFiles(directory),
      leased: () => lease.whenValid(plan.holdMs),
      damaged,
    });
    return new EngineJournal(engine, { schedule: (run) => void setImmediate(run), shard, ...defined({ encryption }) });
  } catch (error) {
    await shardLog.close();
    throw asError(error);
  }
}

/** The errors that a log rejects with. */
const LOG_CODES: ReadonlySet<string | undefined> = new Set<ErrorCode>([
  'shard_moved',
  'store_full',
  'store_lost',
  'store_corrupt',
  'cancelled',
]);

/**
 * Converts the errors of a log to the classes of this copy of the library. The module of a plan may have loaded another
 * copy, whose errors are not instances of these classes.
 */
function withOwnErrors(log: ShardLog): ShardLog {
  const own = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      return await answer;
    } catch (thrown) {
      const code = systemCodeOf(thrown);
      if (thrown instanceof TroupeError || !LOG_CODES.has(code)) throw thrown;
      const { name, message, cause } = asError(thrown);
      const member = (key: string): unknown => (thrown instanceof Error ? Reflect.get(thrown, key) : undefined);
      const data = plainMembers(member('data'));
      const shape = { name, code: code as ErrorCode, message, retryable: member('retryable') === true };
      throw errorFromShape({ ...shape, ...defined({ data }) }, cause);
    }
  };
  const { snapshots } = log;
  return {
    epoch: log.epoch,
    ...defined({
      snapshots: snapshots && {
        history: () => own(snapshots.history()),
        piece: (id: string, number: number) => own(snapshots.piece(id, number)),
        putPiece: (id: string, number: number, bytes: Buffer) => own(snapshots.putPiece(id, number, bytes)),
        put: (snapshot: LogSnapshot) => own(snapshots.put(snapshot)),
        trim: (upTo: number) => own(snapshots.trim(upTo)),
        rest: () => snapshots.rest(),
        close: () => snapshots.close(),
      },
    }),
    append: (entry) => own(log.append(entry)),
    reclaim: () => own(log.reclaim()),
    fetch: (after) => own(log.fetch(after)),
    digestOf: (number) => own(log.digestOf(number)),
    close: () => log.close(),
  };
}

/**
 * Removes a copy, or puts it aside if it has commits that the log does not have. A database may have acknowledged these
 * commits and then lost them. At most one copy of each shard is kept aside. Resolves to a line for the log.
 */
async function removeCopy(directory: string, fault: CopyFault): Promise<string> {
  if (fault !== 'diverged') {
    await rm(directory, { recursive: true, force: true });
    const is = fault === 'damaged' ? 'is damaged' : 'is older than the first entry of the log';
    return `the copy ${directory} ${is}; it is built again`;
  }
  const aside = join(dirname(directory), `diverged-${basename(directory)}`);
  await rm(aside, { recursive: true, force: true });
  await rename(directory, aside);
  return `the copy ${directory} has commits that the log has not; it was put aside as ${aside}`;
}
