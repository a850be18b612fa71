/** `Intake`: says whether a server takes new work. A closed intake never opens again. */
import { SERVER_FULL_RETRY_MS } from '../base/bounds.ts';
import { CancelledError } from '../index.ts';

/** See the file header. */
export class Intake {
  #isOpen = true;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  close(): void {
    this.#isOpen = false;
  }

  /** Throws `CancelledError` (503) if the server takes no new work. */
  check(): void {
    if (this.#isOpen) return;
    throw new CancelledError('the server is closing: it accepts nothing new', {
      retryable: true,
      data: { retryAfterMs: SERVER_FULL_RETRY_MS },
    });
  }
}
