/**
 * The store of the victim between two lives: opened as the next life will open it, and every session folded whose log grew.
 * Facts of the others are kept from the reading before.
 */

import type { Journal } from '../../src/journal/journal.ts';
import { openJournal } from '../../src/journal/open-journal.ts';
import { readManifest, shardDirectory } from '../../src/journal/store-manifest.ts';
import { decodeTurn, type RecordTurn } from '../../src/session/records.ts';
import { gatherFacts, type SessionFacts } from './session-facts.ts';

/** What one reading found. */
export interface Reading {
  /** Sessions whose logs grew since the reading before. */
  readonly changed: ReadonlySet<string>;
  readonly sessions: ReadonlyMap<string, SessionFacts>;
}

/** See the head of the file. */
export class StoreFacts {
  readonly #directory: string;
  readonly #sessions = new Map<string, SessionFacts>();
  /** Positions read up to, by shard. */
  readonly #positions = new Map<number, number>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Reads what is new; with `all`, everything anew. No process may have the store open. */
  async read(all: boolean): Promise<Reading> {
    const changed = new Set<string>();
    const manifest = await readManifest(this.#directory);
    for (let shard = 0; shard < (manifest?.shards ?? 0); shard += 1) {
      const journal = await openJournal({ directory: shardDirectory(this.#directory, shard), durability: 'flush' });
      try {
        this.#readShard(journal, shard, all, changed);
      } finally {
        await journal.close();
      }
    }
    return { changed, sessions: this.#sessions };
  }

  #readShard(journal: Journal, shard: number, all: boolean, changed: Set<string>): void {
    const keys = new Set<number>();
    let position = all ? 0 : (this.#positions.get(shard) ?? 0);
    for (const entry of journal.tail(position)) {
      keys.add(entry.key);
      position = entry.position;
    }
    this.#positions.set(shard, position);
    for (const key of keys) {
      const id = journal.nameOf(key);
      if (id === undefined) throw new Error(`key ${key} of shard ${shard} has turns and no name`);
      this.#sessions.set(id, gatherFacts(id, turnsOf(journal, key)));
      changed.add(id);
    }
  }
}

function* turnsOf(journal: Journal, key: number): Iterable<RecordTurn> {
  for (const entry of journal.read(key, 0)) yield decodeTurn(entry.data);
}
