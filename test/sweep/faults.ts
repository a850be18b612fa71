/**
 * The disk under a sweep. The disk counts every requested operation and lets exactly the planned ones fail.
 *
 * Owns: the number of the next operation. Does not own: how the process handles a failure.
 *
 * O1 Operations are numbered from 1 over all disks, processes and lives of one run: equal runs number them alike.
 * O2 A refusal lasts: the device takes writes again only after `OUTAGE_MS`.
 * O3 A write refused for want of space did not happen; one that fails with an i/o error turns out to have happened.
 */
import type { Journal } from '../../src/journal/journal.ts';
import {
  type DeviceSurroundings,
  refused,
  type SimulatedDevice,
} from '../../src/testing/simulation/simulated-device.ts';
import type { SimulatedDisk } from '../../src/testing/simulation/simulated-machine.ts';
import type { SimulatedProcess } from '../../src/testing/simulation/world.ts';

/**
 * How an operation may fail: the process dies before it, in the middle of it, or after it, or the device refuses it.
 */
export const FAULT_KINDS = ['before', 'torn', 'after', 'ENOSPC', 'EIO'] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

/** One fault at one operation, from 1. */
export interface PlannedFault {
  readonly kind: FaultKind;
  readonly at: number;
}

/**
 * The operations of a disk: a journal is opened, a batch is written, a refused journal is tried again, a compact copy
 * is made, and takes the place of the store.
 */
export type OperationKind = 'open' | 'write' | 'reopen' | 'copy' | 'replace';

interface Operation {
  readonly kind: OperationKind;
  readonly tear: () => void;
  readonly commit: () => void;
  /** Set if the operation was refused and still took effect; calling it makes the effect visible. */
  readonly doubt?: () => void;
}

/** Virtual ms of one operation. */
const OPERATION_MS = 1;
/** Virtual ms for which a device that refused once continues to refuse: longer than one attempt to recover. */
const OUTAGE_MS = 2_500;

/** True for the faults that can happen to such an operation: only a write is long enough to be torn. */
export function canFail(operation: OperationKind, kind: FaultKind): boolean {
  return kind !== 'torn' || operation === 'write';
}

/** See the head of the file. `dies`: the thread or process that a crash ends. */
export class SweepDisk implements SimulatedDisk {
  /** Kinds of the operations so far; index 0 is operation 1. */
  readonly operations: OperationKind[] = [];
  /** Numbers of the planned operations that were reached. */
  readonly struck: number[] = [];
  /** While true every operation is refused: an outage that is part of the story. */
  isFull = false;
  readonly #plan: ReadonlyMap<number, FaultKind>;
  readonly #dies: 'process' | 'thread';
  #refusesUntil = 0;

  constructor(plan: readonly PlannedFault[], dies: 'process' | 'thread') {
    this.#plan = new Map(plan.map(({ at, kind }) => [at, kind]));
    this.#dies = dies;
  }

  async open(process: SimulatedProcess, surroundings: DeviceSurroundings, open: () => Journal): Promise<Journal> {
    const opened: Journal[] = [];
    const commit = (): void => void opened.push(open());
    await this.#operate(process, surroundings, { kind: 'open', tear: () => undefined, commit });
    const [journal] = opened;
    if (journal === undefined) throw new Error('an opening was neither refused nor done');
    return journal;
  }

  device(process: SimulatedProcess, surroundings: DeviceSurroundings): SimulatedDevice {
    // A write that failed with an i/o error may turn out to be done when the device works again.
    let inDoubt: (() => void) | undefined;
    return ({ kind, tear, commit }) =>
      this.#operate(process, surroundings, {
        kind,
        tear,
        commit: () => {
          inDoubt?.();
          inDoubt = undefined;
          commit();
        },
        // Only a write may be found done later. A copy that did not take the place of its store is removed.
        doubt: () => {
          if (kind !== 'replace') inDoubt = commit;
        },
      });
  }

  #operate(process: SimulatedProcess, surroundings: DeviceSurroundings, operation: Operation): Promise<void> {
    return new Promise((resolve, reject) => {
      surroundings.world.schedule(process, OPERATION_MS, () => {
        this.operations.push(operation.kind);
        const number = this.operations.length;
        const fault = this.#plan.get(number);
        if (fault !== undefined) this.struck.push(number);
        surroundings.trace(`operation ${number}: ${operation.kind}${fault === undefined ? '' : `, ${fault}`}`);
        this.#do(process, surroundings, operation, fault).then(resolve, reject);
      });
    });
  }

  /**
   * Resolves when the operation is done and rejects when it is refused. Stays pending if the operation killed the
   * process.
   */
  async #do(
    process: SimulatedProcess,
    surroundings: DeviceSurroundings,
    operation: Operation,
    fault: FaultKind | undefined,
  ): Promise<void> {
    const now = surroundings.world.elapsedMs;
    const die = (): Promise<never> => {
      if (this.#dies === 'process') surroundings.crash(`at a ${operation.kind}`);
      else process.kill();
      return new Promise(() => undefined);
    };
    if (fault === 'before') return die();
    if (fault === 'torn') {
      operation.tear();
      return die();
    }
    if (fault === 'ENOSPC' || fault === 'EIO') this.#refusesUntil = now + OUTAGE_MS;
    if (this.isFull || now < this.#refusesUntil) {
      if (fault === 'EIO') operation.doubt?.();
      surroundings.refused();
      throw fault === 'EIO' ? refused('EIO', 'i/o error') : refused('ENOSPC', 'no space left on device');
    }
    operation.commit();
    if (operation.kind === 'reopen') surroundings.reopened();
    return fault === 'after' ? die() : undefined;
  }
}
