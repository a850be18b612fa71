/** The contents of an engine, for comparisons. */
import { createHash } from 'node:crypto';
import type { Engine } from '../../../src/journal/engine.ts';

/** Everything that an engine can be asked, but for the forms of stored bytes. */
export function contentsOf(engine: Engine): unknown {
  const names = engine.names('', false, 1_000);
  const keys = Array.from({ length: engine.state().nextKey }, (_, key) => key);
  return {
    // Only the store itself has its newest compaction.
    state: { ...engine.state(), compacted: 0 },
    rows: engine.rows(0, 1_000).map(({ number, bytes }) => [number, hashOf(bytes)]),
    names,
    sessions: keys.map((key) => ({
      name: engine.nameOf(key),
      lastRow: engine.lastRowOf(key),
      head: engine.head(key),
      draft: engine.draft(key),
      start: engine.startOf(key),
      media: engine.mediaOf(key).map((address) => [address, hashOf(engine.medium(address))]),
      blobs: engine.blobsOf(key).map((address) => [address, engine.blob(address)]),
    })),
    runnable: engine.runnable(),
    draftKeys: [...engine.draftKeys()].sort((a, b) => a - b),
    erasures: [...engine.erasures()].sort(([a], [b]) => a - b),
  };
}

function hashOf(bytes: Buffer = Buffer.alloc(0)): string {
  return createHash('sha256').update(bytes).digest('hex');
}
