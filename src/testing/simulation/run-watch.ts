/** Watches a simulated run from outside: uncaught errors, complaints in the runtime's log, a run that does not end. */
import type { Logger } from '../../runtime/protocol/options.ts';
import type { Ledger } from './ledger.ts';
import type { SimulatedProcess, World, WorldListener } from './world.ts';

/** Log lines that report a broken invariant that the runtime survived. */
const COMPLAINTS = /turn failed|followed a flush|cannot be resumed/;
/**
 * A log line of this form also reports a broken invariant, unless a device stopped answering: then a thread cannot
 * close in time.
 */
const LATE = /did not close within/;

/** See the file header. Findings go to the ledger. */
export class RunWatch implements WorldListener {
  readonly #ledger: Ledger;
  readonly #note: (text: string) => void;
  #isDeviceSilent = false;

  /** `note`: a function that takes a line of the trace. */
  constructor(ledger: Ledger, note: (text: string) => void) {
    this.#ledger = ledger;
    this.#note = note;
  }

  /** Called when a device stops answering. */
  deviceFellSilent(): void {
    this.#isDeviceSilent = true;
  }

  uncaught(process: SimulatedProcess, thrown: unknown): void {
    const text = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    this.#note(`uncaught in ${process.name}: ${String(thrown)}`);
    this.#ledger.violate('failed', `uncaught in ${process.name}: ${text}`);
  }

  /** The logger of a newly opened runtime. A transition that throws does not end the runtime, and is only logged. */
  logger(): Logger {
    this.#isDeviceSilent = false;
    const write = (fields: object, message: string): void => {
      // Leaves out the stack, which names files and lines, so that the same run has the same trace on every machine.
      const shown = JSON.stringify(fields, (name, value: unknown) => (name === 'stack' ? undefined : value));
      this.#note(`log: ${message} ${shown}`);
      if (COMPLAINTS.test(message) || (LATE.test(message) && !this.#isDeviceSilent))
        this.#ledger.violate('failed', `${message}: ${shown}`);
    };
    return { debug: write, info: write, warn: write, error: write };
  }

  /**
   * Starts `drive` as the process `harness`, and runs the world until `drive` has ended. A run that never ends is a
   * violation.
   */
  async run(world: World, harness: SimulatedProcess, drive: () => Promise<void>): Promise<void> {
    const onRejection = (reason: unknown): void => this.uncaught(harness, reason);
    process.on('unhandledRejection', onRejection);
    let isOver = false;
    try {
      const driven = drive()
        .catch((error: unknown) => this.uncaught(harness, error))
        .finally(() => {
          isOver = true;
        });
      const ended = await world.run(() => isOver);
      if (!ended) this.#ledger.violate('stuck', 'the run went on for ever');
      else if (!isOver) this.#ledger.violate('stuck', 'nothing is going to happen any more, and the run is not over');
      if (isOver) await driven;
    } finally {
      process.off('unhandledRejection', onRejection);
    }
  }
}
