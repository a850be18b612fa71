/**
 * The journal of a shard in a cluster, over any log and any engine: nothing here knows a database, a file or a thread,
 * so a simulator runs it too.
 */
import { defined } from '../base/defined.ts';
import { asError, type ErrorCode, errorFromShape, plainMembers, systemCodeOf, TroupeError } from '../base/errors.ts';
import type { StoreEncryption } from '../journal/encryption/master-keys.ts';
import { EngineJournal } from '../journal/engine-journal.ts';
import type { Journal } from '../journal/journal.ts';
import { openReplicatedEngine, type ReplicaParts } from '../journal/replica/replicated-engine.ts';
import type { LogSnapshot, ShardLog } from '../journal/replica/shard-log.ts';
import type { Lease } from './lease.ts';

/** The parts of such a journal. */
interface ShardJournalParts extends Pick<ReplicaParts, 'openCopy' | 'removeCopy' | 'files' | 'damaged'> {
  /** The log under the claim of this node. It is closed if the journal cannot be opened. */
  readonly log: ShardLog;
  readonly lease: Lease;
  /** Milliseconds for which a commit waits for the lease. */
  readonly holdMs: number;
  readonly schedule: (run: () => void) => void;
  readonly shard: number;
  readonly encryption?: StoreEncryption | undefined;
}

/** Opens the journal over its copy. Rejects like `openReplicatedEngine`. */
export async function openShardJournal(parts: ShardJournalParts): Promise<Journal> {
  const { log, lease, holdMs, openCopy, removeCopy, files, damaged, schedule, shard, encryption } = parts;
  try {
    const engine = await openReplicatedEngine({
      log: withOwnErrors(log),
      openCopy,
      removeCopy,
      leased: () => lease.whenValid(holdMs),
      damaged,
      ...defined({ files }),
    });
    return new EngineJournal(engine, { schedule, shard, ...defined({ encryption }) });
  } catch (error) {
    await log.close();
    throw asError(error);
  }
}

/** The codes of the errors that a log rejects with. */
const LOG_CODES: ReadonlySet<string | undefined> = new Set<ErrorCode>([
  'shard_moved',
  'store_full',
  'store_lost',
  'store_corrupt',
  'store_version',
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
