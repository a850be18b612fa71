/**
 * Deleted sessions leave nothing behind (I30 of `invariants.ts`). When a process has ended, every row that still has
 * entries of a deleted session is noted for erasure. At the end of the run no row has such entries, and no result file
 * of a deleted session is left.
 *
 * Owns: nothing. Does not own: the stores and the disk of results, which outlive processes.
 */
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { rowSessions } from '../../../journal/rows/row-codec.ts';
import type { Ledger } from '../ledger.ts';
import type { SimulatedResults } from '../simulated-results.ts';
import type { SimulatedProcess, World } from '../world.ts';
import { checkCuts, type SimulatedRetention } from './retention.ts';

/** Maximum number of times that `untilErased` looks at the stores, and the virtual milliseconds between two looks. */
const LOOKS_MAX = 600;
const LOOK_MS = 100;
const OWNER = /tool_result_(\d+-\d+)_/;

/** The parts of the simulation that the checks read. */
export interface ErasureParts {
  readonly stores: readonly MemoryStore[];
  /** The keys of the stores; missing: they are not encrypted. */
  readonly encryption?: StoreEncryption | undefined;
  readonly results: SimulatedResults;
  readonly ledger: Ledger;
  readonly world: World;
  readonly harness: SimulatedProcess;
}

/** Checks, between two processes, that the stores note all rows that an erasure must still process after a crash. */
export function checkErasures({ stores, ledger }: ErasureParts): void {
  checkCuts({ stores, ledger });
  for (const [shard, store] of stores.entries()) {
    for (const { key, row } of leftovers(store)) {
      if ((store.erasures.get(key)?.row ?? -1) < row)
        ledger.violate('lost', `shard ${shard}: row ${row} has entries of the deleted session ${key}, unnoted (I30)`);
    }
  }
}

/**
 * Waits until old history has left the logs, if the run removes it, and then until the rows are erased. A process
 * without faults needs a bounded time for each of these two steps.
 */
export async function untilErased(parts: ErasureParts, retention: SimulatedRetention | undefined): Promise<void> {
  const { stores, world, harness } = parts;
  await retention?.untilRemoved(parts);
  for (let looks = 0; looks < LOOKS_MAX && !stores.every(isErased); looks += 1) await world.sleep(harness, LOOK_MS);
}

/** Checks that nothing of deleted sessions is left. Only results that living forks share may stay. */
export function checkErased({ stores, results, ledger }: ErasureParts): void {
  for (const [shard, store] of stores.entries()) {
    for (const { key, row } of leftovers(store))
      ledger.violate('stuck', `shard ${shard}: row ${row} still has entries of the deleted session ${key} (I30)`);
    for (const key of store.erasures.keys()) {
      if (!isNeeded(store, key)) ledger.violate('stuck', `shard ${shard}: session ${key} is not erased (I30)`);
    }
  }
  const needed = new Set(stores.flatMap(ownersIn));
  for (const path of results.paths()) {
    const [, owner] = OWNER.exec(path) ?? [];
    if (owner === undefined || needed.has(owner)) continue;
    ledger.violate('stuck', `${path} belongs to a deleted session (I30)`);
  }
}

/** The owners of the results that existing sessions have or share. Names of result files contain such an owner. */
function ownersIn(store: MemoryStore, shard: number): readonly string[] {
  const keys = [...store.names.keys(), ...[...store.erasures.keys()].filter((key) => isNeeded(store, key))];
  return keys.map((key) => store.origins.get(key) ?? `${shard}-${key}`);
}

function isErased(store: MemoryStore): boolean {
  return leftovers(store).length === 0 && ![...store.erasures.keys()].some((key) => !isNeeded(store, key));
}

/** The entries of deleted sessions in the rows. */
function leftovers({ rows, names, state }: MemoryStore): readonly { readonly key: number; readonly row: number }[] {
  return Array.from(rows).flatMap(([row, bytes]) =>
    row > state.lastRow ? [] : rowSessions(bytes, row).flatMap(([key]) => (names.has(key) ? [] : { key, row })),
  );
}

/** True if a living session shares the results of a deleted one. */
function isNeeded(store: MemoryStore, key: number): boolean {
  return (store.erasures.get(key)?.heirs ?? []).some((heir) => store.names.has(heir) || isNeeded(store, heir));
}
