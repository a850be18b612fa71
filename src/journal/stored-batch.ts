/**
 * The packed form of a write: the entries of tables that one commit puts and removes, as plain data. An engine packs a
 * `WriteBatch` once. The result can be written by another engine, encoded to bytes, or kept and written again into a
 * copy of the store.
 *
 * Invariants:
 *  K1 packing is a function of the batch and of the engine's state. The changes are complete: once another engine at
 *     the same commit has written them, its reads return the same as those of the engine that packed them;
 *  K2 commits have consecutive numbers. An engine writes the number into its table `meta` in the transaction of the
 *     changes. It refuses a batch whose number does not follow its newest commit. So a store says exactly which commits
 *     it holds.
 */
import { TroupeError } from '../base/errors.ts';
import { erasureText, headText, startText } from './check/store-index.ts';
import type { EngineState, StoredBatch, StoredChange, WriteBatch } from './engine.ts';
import type { TableName } from './lmdb/tables.ts';
import { encodeRows } from './rows/row-codec.ts';

/** How an engine stores rows and blobs. */
interface StoredForms {
  /** Packs the plain bytes of rows. */
  readonly rows: (plain: readonly Buffer[]) => Promise<readonly Buffer[]>;
  readonly blob: (text: string) => Buffer;
}

/** Packs the batch that follows `state`, with rows and blobs in their plain forms. */
export function packPlain(batch: WriteBatch, state: EngineState): StoredBatch {
  return assemble(batch, state, encodeRows(batch.rows), rewrittenBytes(batch), (text) => text);
}

/** Packs the batch that follows `state`. */
export async function packBatch(batch: WriteBatch, state: EngineState, forms: StoredForms): Promise<StoredBatch> {
  const rows = await forms.rows(encodeRows(batch.rows));
  const plain = rewrittenBytes(batch);
  const rewritten = plain.length === 0 ? plain : await forms.rows(plain);
  return assemble(batch, state, rows, rewritten, forms.blob);
}

/** Throws unless the batch follows the newest commit of the engine (K2). */
export function checkNext(stored: StoredBatch, state: EngineState): void {
  if (stored.state.commit === state.commit + 1) return;
  throw new TroupeError('internal', `K2: commit ${stored.state.commit} does not follow commit ${state.commit}`);
}

/** The new bytes of stored rows. They are few, see `log-erasure.ts`. */
function rewrittenBytes({ rewrittenRows }: WriteBatch): readonly Buffer[] {
  return [...rewrittenRows.values()].filter((bytes) => bytes !== undefined);
}

function assemble(
  batch: WriteBatch,
  before: EngineState,
  rows: readonly Buffer[],
  rewritten: readonly Buffer[],
  blob: StoredForms['blob'] | ((text: string) => string),
): StoredBatch {
  const changes: StoredChange[] = [];
  const put = (table: TableName, key: string | number, value: string | Buffer | undefined): void => {
    changes.push({ table, key, value });
  };
  const left = rewritten.values();
  for (const [number, bytes] of batch.rewrittenRows) put('log', number, bytes && left.next().value);
  rows.forEach((bytes, index) => {
    const row = batch.rows[index];
    if (row !== undefined) put('log', row.number, bytes);
  });
  for (const [name, key] of batch.names) put('names', name, key?.toString());
  for (const [key, name] of batch.keys) put('keys', key, name);
  for (const [key, head] of batch.heads) {
    put('heads', key, head && headText(head));
    put('runnable', key, head?.runnable === true ? '1' : undefined);
  }
  for (const [key, row] of batch.lastRows) put('lastRows', key, row?.toString());
  for (const [address, value] of batch.blobs) put('blobs', address, typeof value === 'string' ? blob(value) : value);
  for (const [address, bytes] of batch.media) put('media', address, bytes);
  for (const [key, text] of batch.drafts) put('drafts', key, text);
  for (const [key, erasure] of batch.erasures) put('erasures', key, erasure && erasureText(erasure));
  for (const [key, wrapped] of batch.dataKeys) put('dataKeys', key, wrapped);
  for (const [key, start] of batch.starts) put('starts', key, start && startText(start));
  for (const [key, origin] of batch.origins) put('origins', key, origin);
  for (const [number, row] of batch.audit) put('audit', number, row);
  const state: EngineState = {
    commit: before.commit + 1,
    rewrites: before.rewrites + (batch.rewrittenRows.size > 0 ? 1 : 0),
    lastRow: batch.rows.at(-1)?.number ?? before.lastRow,
    nextKey: batch.nextKey ?? before.nextKey,
    checkpointed: batch.checkpoint?.upTo ?? before.checkpointed,
    indexedRow: batch.checkpoint?.indexedRow ?? before.indexedRow,
    erased: batch.isErased ? before.commit + 1 : before.erased,
    compacted: before.compacted,
  };
  put('meta', 'commit', String(state.commit));
  if (state.rewrites !== before.rewrites) put('meta', 'rewrites', String(state.rewrites));
  if (batch.isErased) put('meta', 'erased', String(state.erased));
  if (batch.nextKey !== undefined) put('meta', 'nextKey', String(state.nextKey));
  if (batch.checkpoint !== undefined) put('meta', 'checkpoint', `${state.checkpointed} ${state.indexedRow}`);
  return { state, changes, bytes: batch.bytes };
}
