/**
 * The sessions of an index: for each its number, the number of its documents, and their total length in terms.
 *
 * Invariants:
 *  N1 a number is never given to another session, nor to the same session again after its removal. So a document whose
 *     number has no session counts as removed.
 */
import { z } from 'zod';
import { GrowingNumbers } from './growing-numbers.ts';

/** The saved form: the next number, and for each session its number, name, number of documents and their length. */
export const savedNumbersSchema: z.ZodType<SavedNumbers> = z.object({
  next: z.number().int().positive(),
  sessions: z.array(z.tuple([z.number().int(), z.string(), z.number().int(), z.number().int()])).readonly(),
});

/** See `savedNumbersSchema`. */
export interface SavedNumbers {
  readonly next: number;
  readonly sessions: readonly (readonly [number: number, name: string, documents: number, length: number])[];
}

/** See the head of the file. */
export class SessionNumbers {
  readonly #numbers = new Map<string, number>();
  /** Names by number. A removed session has no name. */
  readonly #names = new Map<number, string>();
  /** For each number: 1 while a session has it, otherwise 0. */
  readonly #alive = new GrowingNumbers();
  readonly #documents = new GrowingNumbers();
  readonly #lengths = new GrowingNumbers();
  /** The number of documents of all sessions, and the sum of their lengths. */
  documents = 0;
  length = 0;

  constructor(saved?: SavedNumbers) {
    // No session has the number 0.
    for (let number = 0; number < (saved?.next ?? 1); number += 1) this.#push();
    for (const [number, name, documents, length] of saved?.sessions ?? []) {
      this.#give(number, name);
      this.#documents.set(number, documents);
      this.#lengths.set(number, length);
      this.documents += documents;
      this.length += length;
    }
  }

  /** The number of a session. A session without a number gets a new one. */
  numberOf(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.#push();
    this.#give(number, name);
    return number;
  }

  nameOf(number: number): string | undefined {
    return this.#names.get(number);
  }

  isAlive(number: number): boolean {
    return this.#alive.at(number) === 1;
  }

  /** Counts a document that was added (`by` 1), or that was removed although its session stays (`by` -1). */
  count(number: number, by: 1 | -1, length: number): void {
    this.#documents.set(number, this.#documents.at(number) + by);
    this.#lengths.set(number, this.#lengths.at(number) + by * length);
    this.documents += by;
    this.length += by * length;
  }

  /** Removes a session with its documents; false if the index has no such session. */
  remove(name: string): boolean {
    const number = this.#numbers.get(name);
    if (number === undefined) return false;
    this.#numbers.delete(name);
    this.#names.delete(number);
    this.#alive.set(number, 0);
    this.documents -= this.#documents.at(number);
    this.length -= this.#lengths.at(number);
    return true;
  }

  save(): SavedNumbers {
    return {
      next: this.#alive.length,
      sessions: [...this.#names].map(([number, name]) => [
        number,
        name,
        this.#documents.at(number),
        this.#lengths.at(number),
      ]),
    };
  }

  #give(number: number, name: string): void {
    this.#numbers.set(name, number);
    this.#names.set(number, name);
    this.#alive.set(number, 1);
  }

  #push(): number {
    this.#documents.push(0);
    this.#lengths.push(0);
    return this.#alive.push(0);
  }
}
