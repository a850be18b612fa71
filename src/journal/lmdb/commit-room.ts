/**
 * Room for the commits of one environment (the LMDB file of one shard). It computes the size of each commit before the
 * commit begins, and lets the file grow (D1 of `data-file.ts`).
 *
 * Owns: the known shapes of the tables, and the last page. Both are read from LMDB from time to time. Between these
 * reads, the pages that commits may have added are counted in addition, so that most commits need only a few sums here.
 * Does not own: the file.
 */
import { z } from 'zod';
import { headText } from '../check/store-index.ts';
import type { WriteBatch } from '../engine.ts';
import { ChangeTally, pagesOfCommit, type TableShape } from './commit-size.ts';
import type { LmdbEnvironment } from './environment.ts';
import type { TableName } from './tables.ts';

/** Bytes of a short key, and of a sealed number, name or mark; generous. */
const KEY_BYTES = 24;
const SEALED_BYTES = 96;
/** The most bytes of one earlier part in a note about a removed session or part. */
const EARLIER_BYTES = 42;
/** Pages that a table may gain before its shape is read again. They add at most two levels to its tree. */
const SHAPE_PAGES_MAX = 256;
/** Most UTF-8 bytes that a UTF-16 unit takes. */
const UNIT_BYTES = 3;

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
});

/** A stored row with new bytes, or without (it is removed). */
export interface RewrittenRow {
  readonly number: number;
  /** Length of the bytes that are stored now. */
  readonly oldBytes: number;
  readonly bytes: Buffer | undefined;
}

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
   * Makes room for a batch whose rows are stored as `rows` and `rewritten`; undefined if there is room already. Rejects like
   * `DataFile.grow`, and throws `StoreLostError`.
   */
  forBatch(batch: WriteBatch, rows: readonly Buffer[], rewritten: readonly RewrittenRow[]): Promise<void> | undefined {
    return this.#make(this.#changesOf(batch, rows, rewritten));
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
    const shape = shapeOf(shapeSchema.parse(this.#environment[name].getStats()));
    this.#shapes.set(name, shape);
    return shape;
  }

  #tally(): ChangeTally {
    return new ChangeTally(this.#pageBytes);
  }

  #changesOf(batch: WriteBatch, rows: readonly Buffer[], rewritten: readonly RewrittenRow[]): Changes {
    const changes = new Map<TableName, ChangeTally>();
    const tally = (name: TableName): ChangeTally => {
      const known = changes.get(name) ?? this.#tally();
      changes.set(name, known);
      return known;
    };
    for (const { oldBytes, bytes } of rewritten) tally('log').replace(KEY_BYTES, oldBytes, bytes?.length);
    for (const start of batch.starts.values()) {
      if (start === undefined) tally('starts').remove();
      else tally('starts').put(KEY_BYTES, start.base.length + SEALED_BYTES);
    }
    for (const erasure of batch.erasures.values()) {
      if (erasure === undefined) tally('erasures').remove();
      else
        tally('erasures').put(
          KEY_BYTES,
          erasure.name.length +
            erasure.heirs.length * KEY_BYTES +
            (erasure.earlier ?? []).length * EARLIER_BYTES +
            SEALED_BYTES,
        );
    }
    for (const text of batch.drafts.values()) {
      if (text === undefined) tally('drafts').remove();
      else tally('drafts').put(KEY_BYTES, text.length * UNIT_BYTES + SEALED_BYTES);
    }
    // New rows replace no entries.
    for (const row of rows) tally('log').put(KEY_BYTES, row.length, true);
    for (const [name, key] of batch.names) {
      if (key === undefined) tally('names').remove();
      else tally('names').put(name.length + KEY_BYTES, SEALED_BYTES);
    }
    for (const name of batch.keys.values()) {
      if (name === undefined) tally('keys').remove();
      else tally('keys').put(KEY_BYTES, name.length + SEALED_BYTES);
    }
    for (const head of batch.heads.values()) {
      if (head === undefined) tally('heads').remove();
      else tally('heads').put(KEY_BYTES, headText(head).length * UNIT_BYTES + SEALED_BYTES);
      tally('runnable').put(KEY_BYTES, SEALED_BYTES);
    }
    for (const row of batch.lastRows.values()) {
      if (row === undefined) tally('lastRows').remove();
      else tally('lastRows').put(KEY_BYTES, SEALED_BYTES);
    }
    for (const [address, text] of batch.blobs) {
      if (text === undefined) tally('blobs').remove();
      else tally('blobs').put(address.length + KEY_BYTES, storedBytesMax(text) + SEALED_BYTES);
    }
    for (const wrapped of batch.dataKeys.values()) {
      if (wrapped === undefined) tally('dataKeys').remove();
      else tally('dataKeys').put(KEY_BYTES, wrapped.length + SEALED_BYTES);
    }
    for (const [address, bytes] of batch.media) {
      if (bytes === undefined) tally('media').remove();
      else tally('media').put(address.length + KEY_BYTES, bytes.length);
    }
    for (const origin of batch.origins.values()) {
      if (origin === undefined) tally('origins').remove();
      else tally('origins').put(KEY_BYTES, origin.length + SEALED_BYTES);
    }
    for (const row of batch.audit.values()) {
      if (row === undefined) tally('audit').remove();
      else tally('audit').put(KEY_BYTES, row.length * UNIT_BYTES + SEALED_BYTES);
    }
    if (batch.nextKey !== undefined) tally('meta').put(KEY_BYTES, SEALED_BYTES);
    if (batch.checkpoint !== undefined) tally('meta').put(KEY_BYTES, SEALED_BYTES);
    if (rewritten.length > 0) tally('meta').put(KEY_BYTES, SEALED_BYTES);
    return changes;
  }
}

/** Bytes that a blob takes at most. */
function storedBytesMax(blob: string | Buffer): number {
  return typeof blob === 'string' ? blob.length * UNIT_BYTES : blob.length;
}

function shapeOf(stats: z.infer<typeof shapeSchema>): TableShape {
  return {
    depth: stats.treeDepth,
    branchPages: stats.treeBranchPageCount,
    leafPages: stats.treeLeafPageCount,
    overflowPages: stats.overflowPages,
  };
}
