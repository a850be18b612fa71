/**
 * The last row of each session.
 *
 * Owns: the last rows of sessions that were written since the last checkpoint. Does not own: those before, which the
 * engine has.
 */
import { TroupeError } from '../base/errors.ts';
import type { Engine } from './engine.ts';
import { type LastRow, scanLastRows } from './log-reader.ts';
import type { SessionKey } from './position.ts';

/** See the head of the file. */
export class LastRows {
  readonly #engine: Engine;
  readonly #isThere: (key: SessionKey) => boolean;
  /** `undefined` until they are read from the engine. */
  #touched: Map<SessionKey, LastRow> | undefined;

  /** `isThere`: true for a session that was not removed. */
  constructor(engine: Engine, isThere: (key: SessionKey) => boolean) {
    this.#engine = engine;
    this.#isThere = isThere;
  }

  /** The sessions that were written since the last checkpoint. */
  touched(): Map<SessionKey, LastRow> {
    this.#touched ??= scanLastRows(this.#engine, this.#engine.state().indexedRow);
    return this.#touched;
  }

  /** The newest row of a session, 0 for none. */
  of(key: SessionKey): number {
    return this.touched().get(key)?.row ?? this.#engine.lastRowOf(key);
  }

  /** The last row of a session that is about to be written. Throws `TroupeError` (`unknown_session`). */
  touch(key: SessionKey): LastRow {
    const touched = this.touched();
    const known = touched.get(key);
    if (known !== undefined) return known;
    if (!this.#isThere(key)) {
      throw new TroupeError('unknown_session', `no session has the key ${key}`, { data: { key } });
    }
    const place = { row: this.#engine.lastRowOf(key), previousRow: 0 };
    touched.set(key, place);
    return place;
  }

  /** Called when a session is removed. */
  delete(key: SessionKey): void {
    this.touched().delete(key);
  }

  /** Called when the engine has these rows: an idle session costs no memory here. */
  stored(rows: ReadonlyMap<SessionKey, number | undefined>): void {
    for (const [key, row] of rows) if (this.#touched?.get(key)?.row === row) this.#touched?.delete(key);
  }

  /** Called when rows were refused: the last rows are read from the engine again. */
  forget(): void {
    this.#touched = undefined;
  }
}
