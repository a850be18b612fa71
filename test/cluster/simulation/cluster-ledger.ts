/** The ledger of a cluster. Once its database has lost acknowledged entries for good, only C1 and C2 can still be broken. */
import { CancelledError, ShardMovedError } from '../../../src/base/errors.ts';
import { Ledger, type MessageStory, type ViolationKind } from '../../../src/testing/simulation/ledger.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/world.ts';

/** A request that was refused because it read damaged bytes. */
const READ_DAMAGE =
  /^\w+: StoreCorruptError: the (?:(?:store|log of session) .*cannot be read|content of entry \d+ is not in)/u;

/** An error that says that a request did nothing. */
const NOT_DONE = /nothing was done/iu;

/** A message that was sent once, and whose error said that nothing was done. */
export interface NotDone {
  readonly uid: string;
  readonly session: string;
  /** Entries of the session's log when the error arrived. */
  readonly entries: number;
}

const EFFECTS = /took effect (\d+) times for (\S+) \(I4\)/u;

/** The process of a node that started this one. */
function nodeProcess(process: SimulatedProcess): SimulatedProcess {
  const above = process.parent;
  return above?.parent === undefined ? process : nodeProcess(above);
}

/** See the head of this file. */
export class ClusterLedger extends Ledger {
  /** True once acknowledged entries are lost for good. */
  isForked: () => boolean = () => false;
  /** True if a fault has changed bytes of a copy: a request that reads them is refused, and the copy is built again. */
  isDamaged = false;
  /** The entries of the log of a session's shard. */
  entriesOf: (session: string) => number = () => 0;
  readonly notDone: NotDone[] = [];
  /** True once the effects of all faults have ended: a request that may be repeated is then answered. */
  isCalm = false;
  /** Messages whose acceptance was acknowledged as the first one. */
  readonly #accepted = new Set<string>();

  override violate(kind: ViolationKind, what: string): void {
    if (this.isForked() || (this.isDamaged && READ_DAMAGE.test(what)) || this.#isLateEffect(what)) return;
    super.violate(kind, what);
  }

  /**
   * Two nodes may send the same key at the same time, and the answer to the first may arrive last. Of all answers one
   * at most says that it was the first (C4).
   */
  override acknowledged(uid: string, pendingId: number, duplicate: boolean): void {
    if (!duplicate && this.#accepted.has(uid)) this.violate('duplicated', `${uid} was accepted twice (C4)`);
    if (!duplicate) this.#accepted.add(uid);
    const isKnown = this.messages.get(uid)?.pendingId === pendingId;
    super.acknowledged(uid, pendingId, duplicate || isKnown);
  }

  /** Notes an error that says that nothing was done, for C5. */
  override sendFailed(story: MessageStory, error: unknown): void {
    super.sendFailed(story, error);
    const { uid, session, attempts, key } = story;
    if (this.isCalm && key !== undefined && (error instanceof ShardMovedError || error instanceof CancelledError))
      this.violate('failed', `${uid} of ${session} has a key, and was refused without a fault: ${error.message} (L1)`);
    if (attempts !== 1 || !(error instanceof Error) || !NOT_DONE.test(error.message)) return;
    this.notDone.push({ uid, session, entries: this.entriesOf(session) });
  }

  /**
   * A call that ran on a node when that node fell asleep ends when it wakes up, and has its effect then. The next owner may
   * have asked the probe meanwhile. So its effect happens at most once for each node that started it.
   */
  #isLateEffect(what: string): boolean {
    const [, times, key = ''] = EFFECTS.exec(what) ?? [];
    if (times === undefined) return false;
    const nodes = new Set(this.tools.get(key)?.starts.map(({ process }) => nodeProcess(process)));
    return Number(times) <= nodes.size;
  }

  /** Records a violation of C1 or C2. */
  violateLog(what: string): void {
    super.violate('changed', what);
  }
}
