/**
 * The whole texts of shortened results in a simulated cluster: the tool `read_file` of its agents, and the checks.
 *  C10 the log has the whole text of each shortened result that it names;
 *  C11 a call of `read_file` with the path in a shortened result finds the file on its node, whichever node ran the tool.
 */
import type { MemoryStore } from '../../../src/journal/memory-store.ts';
import { parseResultAddress, resultHash } from '../../../src/journal/rows/result-address.ts';
import type { Ledger } from '../../../src/testing/simulation/ledger.ts';
import type { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import type { Stories } from '../../../src/testing/simulation/store-reading.ts';
import { savedTo } from '../../../src/testing/simulation/tool-invariants.ts';
import { READ_FILE_URL } from '../../../src/tools/built-in/read-file.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import { withOrigin } from '../../../src/tools/tool-origin.ts';

/** Lines of a long result: more than a result that is not shortened has. */
const LONG_LINES = 1_000;
const NAMED = /\/tool_result_(\d+)-(\d+)_([0-9a-f]{32})\.txt$/;

/** The tool as it runs on a thread. `reads`: true if the node of the thread has the file. */
export function fileReader(reads: (path: string, session: string) => boolean): AnyTool {
  return {
    name: 'read_file',
    description: 'Reads a file.',
    input: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    effect: 'pure',
    run: async (input, { session }) => {
      const { path } = input as { readonly path: string };
      if (!NAMED.test(path)) return { error: `${path} is no result` };
      return reads(path, session) ? `read ${path}` : { error: `there is no ${path}` };
    },
  };
}

/** Tools that the agents of a cluster have beside the others: one with long results, and `read_file` as a value. */
export function resultTools(): readonly AnyTool[] {
  const reader = fileReader(() => false);
  return [LONG, withOrigin(reader, READ_FILE_URL, 'readFile', {})];
}

const LONG: AnyTool = {
  name: 'long',
  description: 'Returns much.',
  input: { type: 'object' },
  effect: 'pure',
  run: async (_input, { key }) => `much for ${key}\n`.repeat(LONG_LINES),
};

/** Checks C10. `stores`: what the logs stand for. */
export function checkWholeResults(ledger: Ledger, stories: Stories, stores: readonly MemoryStore[]): void {
  for (const story of stories.values()) {
    for (const path of savedTo(story)) {
      const [, shard, key, hash = ''] = NAMED.exec(path) ?? [];
      const text = textOf(stores[Number(shard)], Number(key), hash);
      if (text === undefined || resultHash(text) !== hash)
        ledger.violate('lost', `a result of ${story.id} is saved to ${path}, and its log does not have it (C10)`);
    }
  }
}

/** Changes a character of a whole text in a copy. False if the copy has none. */
export function damageResult({ blobs }: MemoryStore, random: SeededRandom): boolean {
  const addresses = [...blobs.keys()].filter((address) => parseResultAddress(address) !== undefined);
  if (addresses.length === 0) return false;
  const address = random.pick(addresses);
  const text = String(blobs.get(address));
  blobs.set(address, `${text.slice(0, -1)}${text.endsWith('?') ? '!' : '?'}`);
  return true;
}

function textOf(store: MemoryStore | undefined, key: number, hash: string): string | undefined {
  for (const [address, text] of store?.blobs ?? []) {
    const found = parseResultAddress(address);
    if (found?.owner === key && found.hash === hash) return String(text);
  }
  return undefined;
}
