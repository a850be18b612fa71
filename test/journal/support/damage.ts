/** A store to damage, its content, and damage drawn from a seed. */
import type { Journal } from '../../../src/journal/journal.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { blobAddress } from '../../../src/journal/rows/stored-text.ts';
import { noiseText } from './texts.ts';

/** The answers of a store: a text for each query. */
export type Contents = Readonly<Record<string, string>>;

const SESSIONS = 12;
const TEXTS = [noiseText(10_000, 'blob'), 'a blob of some length '.repeat(500), 'a small one'];

/** An entry with one of two images, which are media of their sessions. */
function image(which: number): string {
  return JSON.stringify({ source: { type: 'base64', data: noiseText(12_000, `image ${which}`) } });
}

/** Makes a store with rows of all sizes, heads, blobs, media, removed sessions and free pages. Resolves to its content. */
export async function makeDamageTemplate(directory: string): Promise<Contents> {
  const journal = await openLmdbJournal({ directory, durability: 'flush' });
  const keys = Array.from({ length: SESSIONS }, (_, index) => journal.intern(`session-${index}`));
  for (let turn = 0; turn < 60; turn += 1) {
    const key = keys[turn % keys.length] ?? 0;
    const position = journal.append([
      { key, data: JSON.stringify({ turn, pad: noiseText((turn * 397) % 9_000, turn) }) },
    ]);
    if (turn % 5 === 0) journal.append([{ key, data: image(turn % 10) }]);
    if (turn % 4 === 0) {
      const head = { key, position, data: JSON.stringify({ turn }), runnable: turn % 8 === 0 };
      journal.checkpoint([head], turn < 40 ? position : 0);
    }
    if (turn % 3 === 0) await journal.flushed();
    if (turn === 30) journal.remove(keys.splice(3, 2));
  }
  for (const text of TEXTS) journal.putBlob(text);
  await journal.flushed();
  const contents = Object.fromEntries(questions(journal).map(([question, ask]) => [question, ask()]));
  await journal.close();
  return contents;
}

/**
 * Every query of a reader; a query throws what the journal throws. The names of a session's queries begin with its
 * name.
 */
export function questions(journal: Journal): readonly (readonly [string, () => string])[] {
  const names = Array.from({ length: SESSIONS }, (_, index) => `session-${index}`);
  return [
    ['names', () => JSON.stringify(journal.names({}))],
    ['runnable', () => JSON.stringify([...journal.runnable()])],
    ['checkpointed', () => String(journal.checkpointed())],
    ['tail', () => JSON.stringify([...journal.tail(0)])],
    ...TEXTS.map((text) => [`blob ${text.length}`, () => String(journal.blob(blobAddress(text)))] as const),
    ...names.flatMap((name) => {
      const key = (): number => journal.keyOf(name) ?? 0;
      return [
        [`${name} key`, () => `${key()} ${journal.nameOf(key())}`],
        [`${name} head`, () => JSON.stringify(journal.head(key()))],
        [`${name} entries`, () => JSON.stringify([...journal.read(key(), 0)])],
      ] as const;
    }),
  ];
}

/** Numbers in [0, 1) from a seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `whole` with one damage, and a description of it. */
export function damaged(whole: Buffer, random: () => number): { readonly bytes: Buffer; readonly what: string } {
  const bytes = Buffer.from(whole);
  const place = Math.floor(random() * bytes.length);
  // The structural parts: half of the damage hits a page's header, its table of entries, or a meta page.
  const page = Math.floor(random() * (bytes.length / 4_096)) * 4_096;
  const head = random() < 0.3 ? (random() < 0.5 ? 0 : 4_096) : page;
  const inHead = head + Math.floor(random() * 200);
  const kind = Math.floor(random() * 8);
  if (kind <= 3) {
    const at = kind <= 1 ? inHead : place;
    const bit = Math.floor(random() * 8);
    bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << bit), at);
    return { bytes, what: `bit ${bit} of byte ${at} turned` };
  }
  if (kind === 4) return { bytes: bytes.subarray(0, place), what: `cut to ${place} bytes` };
  if (kind === 5) {
    const length = Math.ceil(random() * 8_192);
    return {
      bytes: bytes.fill(0, place, Math.min(place + length, bytes.length)),
      what: `${length} bytes at ${place} zeroed`,
    };
  }
  if (kind === 6) {
    const from = Math.floor(random() * (bytes.length / 4_096)) * 4_096;
    bytes.copy(bytes, page, from, from + 4_096);
    return { bytes, what: `page at ${page} replaced by the one at ${from}` };
  }
  for (let at = inHead; at < inHead + 16; at += 1) bytes.writeUInt8(Math.floor(random() * 256), at);
  return { bytes, what: `16 bytes of noise at ${inHead}` };
}
