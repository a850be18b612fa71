/**
 * Keeps room for the commits of one environment (the LMDB file of one shard). It computes the size of each commit
 * before the commit begins, and lets the file grow (D1 of `data-file.ts`).
 *
 * Owns: the known shapes of the tables, and the last page. Both are read from LMDB from time to time. Between these
 * reads, the pages that commits may have added are counted in addition, so that most commits need only a few sums here.
 * Does not own: the file.
 */
import { z } from 'zod';
import type { StoredChange, StoreUse } from '../engine.ts';
import { ChangeTally, pagesOfCommit, type TableShape } from './commit-size.ts';
import type { LmdbEnvironment } from './environment.ts';
import { TABLE_FLAGS, type TableName } from './tables.ts';

/** Bytes of a short key, and of a sealed number, name or mark; generous. */
const KEY_BYTES = 24;
const SEALED_BYTES = 96;
/** Pages that a table may gain before its shape is read again. They add at most two levels to its tree. */
const SHAPE_PAGES_MAX = 256;
/** The most UTF-8 bytes that one UTF-16 unit takes. */
const UNIT_BYTES = 3;
/** Tables whose texts may have characters beyond ASCII. */
const WIDE_TABLES: ReadonlySet<TableName> = new Set(['heads', 'drafts', 'blobs']);

const shapeSchema = z.object({
  treeDepth: z.number(),
  treeBranchPageCount: z.number(),
  treeLeafPageCount: z.number(),
  overflowPages: z.number(),
});
const stateSchema = z.object({
  pageSize: z.number(),
  lastPageNumber: z.number(),
  lastTxnId: z.number(),
  free: shapeSchema,
  root: shapeSchema,
});

/** Pages that are in no tree: the two meta pages. */
const META_PAGES = 2;

type Changes = ReadonlyMap<TableName, ChangeTally>;

/** See the head of the file. One for each environment. */
export class CommitRoom {
  readonly #environment: LmdbEnvironment;
  readonly #pageBytes: number;
  readonly #shapes = new Map<TableName, TableShape>();
  /** Pages that commits may have written since the shapes were read. */
  #grownPages = 0;
  #free: TableShape;
  /** Bytes LMDB uses, at most. */
  #usedBytes: number;

  constructor(environment: LmdbEnvironment) {
    this.#environment = environment;
    const { pageSize, lastPageNumber, free } = this.#readState();
    this.#pageBytes = pageSize;
    this.#free = shapeOf(free);
    this.#usedBytes = (lastPageNumber + 1) * pageSize;
  }

  /**
   * Makes room for changes of a log whose last row is `lastRow`; undefined if there is room already. `bytesOf`: the
   * stored length of a row. Rejects like `DataFile.grow`, and throws `StoreLostError`.
   */
  forChanges(
    changes: readonly StoredChange[],
    lastRow: number,
    bytesOf: (row: number) => number,
  ): Promise<void> | undefined {
    return this.#make(this.#talliesOf(changes, lastRow, bytesOf));
  }

  /** Makes room for a few small records of the table `meta`. */
  forRecords(count: number): Promise<void> | undefined {
    const meta = this.#tally();
    for (let each = 0; each < count; each += 1) meta.put(KEY_BYTES, SEALED_BYTES);
    return this.#make(new Map([['meta', meta]]));
  }

  /** The number of the newest commit. */
  lastCommit(): number {
    return this.#readState().lastTxnId;
  }

  /** The bytes up to the last page, and the bytes of pages in no tree, as of the newest commit. */
  use(): StoreUse {
    const { pageSize, lastPageNumber, free, root } = this.#readState();
    let used = META_PAGES + pagesOf(shapeOf(free)) + pagesOf(shapeOf(root));
    for (const name of Object.keys(TABLE_FLAGS) as TableName[]) used += pagesOf(this.#readShape(name));
    return { bytes: (lastPageNumber + 1) * pageSize, freeBytes: (lastPageNumber + 1 - used) * pageSize };
  }

  #make(changes: Changes): Promise<void> | undefined {
    const { file } = this.#environment;
    file.checkPresence();
    let bytes = this.#bytesOf(changes);
    if (!file.hasRoom(this.#usedBytes, bytes)) {
      this.#look();
      bytes = this.#bytesOf(changes);
      if (!file.hasRoom(this.#usedBytes, bytes)) {
        return file.grow(this.#usedBytes, bytes).then(() => this.#take(bytes));
      }
      file.growAhead(this.#usedBytes);
    }
    this.#take(bytes);
    return undefined;
  }

  #take(bytes: number): void {
    this.#usedBytes += bytes;
    this.#grownPages += bytes / this.#pageBytes;
  }

  #look(): void {
    const { pageSize, lastPageNumber, free } = this.#readState();
    this.#free = shapeOf(free);
    this.#usedBytes = (lastPageNumber + 1) * pageSize;
    if (this.#grownPages < SHAPE_PAGES_MAX) return;
    this.#grownPages = 0;
    this.#shapes.clear();
  }

  #readState(): z.infer<typeof stateSchema> {
    const { root } = this.#environment;
    root.resetReadTxn();
    return stateSchema.parse(root.getStats());
  }

  #bytesOf(changes: Changes): number {
    const shaped = Array.from(changes, ([name, change]) => ({ change, shape: this.#shape(name) }));
    return pagesOfCommit(shaped, this.#free, this.#grownPages, this.#pageBytes) * this.#pageBytes;
  }

  #shape(name: TableName): TableShape {
    const known = this.#shapes.get(name);
    if (known !== undefined) return known;
    const shape = this.#readShape(name);
    this.#shapes.set(name, shape);
    return shape;
  }

  #readShape(name: TableName): TableShape {
    return shapeOf(shapeSchema.parse(this.#environment[name].getStats()));
  }

  #tally(): ChangeTally {
    return new ChangeTally(this.#pageBytes);
  }

  #talliesOf(changes: readonly StoredChange[], lastRow: number, bytesOf: (row: number) => number): Changes {
    const tallies = new Map<TableName, ChangeTally>();
    let last = lastRow;
    for (const { table, key, value } of changes) {
      const tally = tallies.get(table) ?? this.#tally();
      tallies.set(table, tally);
      if (table === 'log') {
        const row = Number(key);
        // New rows replace no entries.
        if (row > last) tally.put(KEY_BYTES, value?.length ?? 0, true);
        else tally.replace(KEY_BYTES, bytesOf(row), value?.length);
        last = Math.max(last, row);
      } else if (value === undefined) tally.remove();
      else tally.put((typeof key === 'string' ? key.length : 0) + KEY_BYTES, storedBytesMax(table, value));
    }
    return tallies;
  }
}

/** Bytes that a value takes at most. */
function storedBytesMax(table: TableName, value: string | Buffer): number {
  const units = typeof value === 'string' && WIDE_TABLES.has(table) ? UNIT_BYTES : 1;
  return value.length * units + SEALED_BYTES;
}

function pagesOf({ branchPages, leafPages, overflowPages }: TableShape): number {
  return branchPages + leafPages + overflowPages;
}

function shapeOf(stats: z.infer<typeof shapeSchema>): TableShape {
  return {
    depth: stats.treeDepth,
    branchPages: stats.treeBranchPageCount,
    leafPages: stats.treeLeafPageCount,
    overflowPages: stats.overflowPages,
  };
}
