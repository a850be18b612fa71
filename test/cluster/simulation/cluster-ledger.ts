/** The ledger of a cluster. Once its database has lost acknowledged entries for good, only C1 and C2 can still be broken. */
import { Ledger, type ViolationKind } from '../../../src/testing/simulation/ledger.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/world.ts';

/** A request that was refused because it read damaged bytes. */
const READ_DAMAGE = /^\w+: StoreCorruptError: the (?:store|log of session) .*cannot be read/u;

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

  override violate(kind: ViolationKind, what: string): void {
    if (this.isForked() || (this.isDamaged && READ_DAMAGE.test(what)) || this.#isLateEffect(what)) return;
    super.violate(kind, what);
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
