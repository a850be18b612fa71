/**
 * The device under a memory journal, with a device's faults: it answers late, refuses, stops answering, or stops in the
 * middle of a write.
 */
import { StoreFullError } from '../../base/errors.ts';
import type { DeviceOperation } from '../../journal/memory-journal.ts';
import type { Faults } from './faults.ts';
import type { SimulatedProcess, World } from './world.ts';

/** The parts of the simulation a device needs. */
export interface DeviceSurroundings {
  readonly world: World;
  readonly faults: Faults;
  readonly trace: (text: string) => void;
  /** Ends the process, or only its session thread, as a power cut or a kill at this very operation would. */
  readonly crash: (why: string) => void;
  /** Called when an operation was refused, so that its data is lost. */
  readonly refused: () => void;
  /** Called when a device that had refused works again. By then the shard has noticed the refusal. */
  readonly reopened: () => void;
  /** Called when the device stops answering. */
  readonly fellSilent: () => void;
}

/** The device a memory journal writes to. */
export type SimulatedDevice = (operation: DeviceOperation) => Promise<void>;

/** A process whose device stopped answering is killed from outside after this number of milliseconds. */
const SILENCE_MS = 30_000;
/** Maximum milliseconds an operation takes, one number each for a fast, a usual and a slow device. */
const USUAL_MS = [3, 30, 300] as const;
/** The most milliseconds from the death of a process to the arrival of its late write. */
const LATE_MS = 200;
/**
 * The probability of a crash before an operation, and of a crash after the operation. Compactions are rare, so a step
 * of a compaction crashes with a higher probability than a write.
 */
const CRASHES = { write: 0.01, reopen: 0.01, copy: 0.06, replace: 0.15 } as const;

/** A device for the journal of a process. */
export function createSimulatedDevice(
  process: SimulatedProcess,
  { world, faults, trace, crash, refused: noteRefused, reopened, fellSilent }: DeviceSurroundings,
): SimulatedDevice {
  const { random } = world;
  // On a slow device, many other tasks run during a write.
  const usualMs = random.pick(USUAL_MS);
  let refusesUntil = 0;
  const refusal = (): StoreFullError | undefined => {
    if (faults.strikes('store.full', 0.02)) return refuseFor('ENOSPC', 'no space left on device');
    if (faults.strikes('store.failed', 0.02)) return refuseFor('EIO', 'i/o error');
    if (world.elapsedMs >= refusesUntil || !faults.isOn) return undefined;
    return refused('ENOSPC', 'no space left on device');
  };
  const refuseFor = (code: string, message: string): StoreFullError => {
    refusesUntil = world.elapsedMs + random.between(0, 20_000);
    return refused(code, message);
  };
  let underWay: DeviceOperation | undefined;
  process.onDeath(() => {
    const late = underWay;
    if (late === undefined) return;
    // A journal that was opened meanwhile must refuse the late write (J5). If no journal was opened, the write has the
    // same effect as if the process had died a little later.
    world.schedule(machineOf(process), random.between(0, LATE_MS), () => {
      trace('a write arrives late');
      try {
        late.commit();
      } catch {
        trace('and is refused');
      }
    });
  });
  return (operation) =>
    new Promise((resolve, reject) => {
      if (operation.kind === 'write') underWay = operation;
      const latencyMs = faults.strikes('store.slow', 0.05) ? random.between(100, 5_000) : random.number() * usualMs;
      world.schedule(process, latencyMs, () => {
        if (operation.kind === 'write' && faults.strikes('store.late', 0.01)) return crash('during a write');
        underWay = undefined;
        if (faults.strikes('crash.before', CRASHES[operation.kind])) return crash(`before a ${operation.kind}`);
        if (operation.kind === 'write' && faults.strikes('crash.torn', 0.01)) {
          operation.tear();
          return crash('in the middle of a write');
        }
        const error = refusal();
        if (error !== undefined) {
          trace(`${operation.kind} refused: ${error.message}`);
          noteRefused();
          reject(error);
          return;
        }
        try {
          operation.commit();
        } catch (fenced) {
          reject(fenced);
          return;
        }
        if (operation.kind === 'reopen') reopened();
        if (faults.strikes('crash.after', CRASHES[operation.kind])) return crash(`after a ${operation.kind}`);
        if (faults.strikes('store.silent', 0.003)) {
          trace('the device falls silent');
          fellSilent();
          world.schedule(process, SILENCE_MS, () => crash('while its device was silent'));
          return;
        }
        resolve();
      });
    });
}

/** The root process, which outlives the process and all its threads. */
function machineOf(process: SimulatedProcess): SimulatedProcess {
  return process.parent === undefined ? process : machineOf(process.parent);
}

/** The error with which a journal reports that its device refused an operation. */
export function refused(code: string, message: string): StoreFullError {
  return new StoreFullError(`the journal cannot be written: ${message}`, {
    cause: Object.assign(new Error(`${code}: ${message}`), { code }),
  });
}
