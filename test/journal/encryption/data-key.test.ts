import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { SEALED_PACKED_BYTES_MIN } from '../../../src/base/bounds.ts';
import { DataKey, isSealed, Opening } from '../../../src/journal/encryption/data-key.ts';
import { MasterKeys } from '../../../src/journal/encryption/master-keys.ts';
import { openedFile, sealedFile } from '../../../src/journal/encryption/sealed-file.ts';
import { SealedSegmentStore } from '../../../src/search/sealed-segment-store.ts';
import { MemorySegmentStore } from '../../../src/search/segment-store.ts';

describe('a data key', () => {
  const bytes = randomBytes(32);
  const key = new DataKey(bytes);

  test('opens what it sealed, text or bytes, small or compressed, in this opening and another', () => {
    const opening = new Opening();
    for (const text of ['', 'é🦊', 'x'.repeat(SEALED_PACKED_BYTES_MIN), JSON.stringify({ a: 'word '.repeat(5_000) })]) {
      const sealed = key.seal(opening, 'a place', text, true);
      expect(isSealed(sealed)).toBe(true);
      expect(new DataKey(bytes).open('a place', sealed)?.toString()).toBe(text);
      expect(key.open('a place', key.seal(opening, 'a place', Buffer.from(text), false))?.toString()).toBe(text);
    }
    const packed = key.seal(opening, 'a place', 'word '.repeat(5_000), true);
    expect(packed.length).toBeLessThan(1_000);
  });

  test('D2: refuses a changed byte anywhere, a cut value, another place and another key', () => {
    const sealed = key.seal(new Opening(), 'a place', 'the text', true);
    for (let at = 0; at < sealed.length; at += 1) {
      const changed = Buffer.from(sealed);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      expect(key.open('a place', changed)).toBeUndefined();
    }
    for (let length = 0; length < sealed.length; length += 1) {
      expect(key.open('a place', sealed.subarray(0, length))).toBeUndefined();
    }
    expect(key.open('another place', sealed)).toBeUndefined();
    expect(new DataKey(randomBytes(32)).open('a place', sealed)).toBeUndefined();
  });

  test('D1: no two values have the same opening and number, and openings differ', () => {
    const openings = [new Opening(), new Opening()];
    const headers = openings.flatMap((opening) =>
      Array.from({ length: 300 }, () => key.seal(opening, 'a place', 'same', true).subarray(1, 19).toString('hex')),
    );
    expect(new Set(headers).size).toBe(600);
  });
});

test('a wrapped data key opens with its master key, for its session, and not once it was changed', () => {
  const [first, second] = [randomBytes(32), randomBytes(32)];
  const masters = new MasterKeys({ key: first, previousKeys: [], isRotating: false });
  const dataKey = randomBytes(32);
  const wrapped = masters.wrap(7, dataKey);
  expect(masters.unwrap(7, wrapped)).toEqual(dataKey);
  expect(masters.unwrap(8, wrapped)).toBeUndefined();
  expect(masters.unwrap(7, `${wrapped.slice(0, -8)}AAAAAAAA`)).toBeUndefined();
  expect(masters.unwrap(7, 'no key')).toBeUndefined();
  const later = new MasterKeys({ key: second, previousKeys: [first], isRotating: true });
  expect(later.isCurrent(wrapped)).toBe(false);
  expect(later.unwrap(7, wrapped)).toEqual(dataKey);
  const other = new MasterKeys({ key: second, previousKeys: [], isRotating: false });
  expect(() => other.unwrap(7, wrapped)).toThrow(/key that was not given/);
});

test('G44: a wrapped data key opens in its own store alone, and where the id of the store is not known', () => {
  const keys = { key: randomBytes(32), previousKeys: [], isRotating: false };
  const [one, two] = [randomUUID(), randomUUID()];
  const dataKey = randomBytes(32);
  const masters = new MasterKeys({ ...keys, storeId: one });
  const wrapped = masters.wrap(7, dataKey);
  const earlier = new MasterKeys(keys).wrap(7, dataKey);
  expect(masters.unwrap(7, wrapped)).toEqual(dataKey);
  expect(masters.unwrap(8, wrapped)).toBeUndefined();
  expect(masters.unwrap(7, earlier)).toBeUndefined();
  const other = new MasterKeys({ ...keys, storeId: two });
  expect(other.unwrap(7, wrapped)).toBeUndefined();
  // A text that names another store than it was wrapped for.
  expect(other.unwrap(7, wrapped.replace(one, two))).toBeUndefined();
  const old = new MasterKeys(keys);
  expect(old.unwrap(7, earlier)).toEqual(dataKey);
  expect(old.unwrap(7, wrapped)).toBeUndefined();
  const reader = new MasterKeys({ ...keys, isAnyStore: true });
  expect([wrapped, earlier].map((each) => reader.unwrap(7, each))).toEqual([dataKey, dataKey]);
});

test('a sealed file opens with its key and name alone', () => {
  const key = randomBytes(32);
  const bytes = sealedFile(key, 'a.txt', 'the text');
  expect(bytes.includes('the text')).toBe(false);
  expect(openedFile(key, 'a.txt', bytes)?.toString()).toBe('the text');
  expect(openedFile(key, 'b.txt', bytes)).toBeUndefined();
  expect(openedFile(randomBytes(32), 'a.txt', bytes)).toBeUndefined();
  expect(openedFile(key, 'a.txt', bytes.subarray(0, 40))).toBeUndefined();
});

describe('the storage of an encrypted index', () => {
  test('reads every range of a segment, and refuses a changed, a cut and a foreign one', () => {
    const memory = new MemorySegmentStore();
    const key = randomBytes(32);
    const store = new SealedSegmentStore(memory, key);
    const plain = randomBytes(10_000);
    const { name, bytes } = store.put([plain.subarray(0, 3_000), plain.subarray(3_000)]);
    expect(bytes.length).toBe(plain.length);
    for (const [at, length] of [
      [0, 10_000],
      [0, 0],
      [4_095, 2],
      [4_096, 4_096],
      [9_999, 1],
      [100, 9_000],
    ] as const) {
      expect(bytes.read(at, length).equals(plain.subarray(at, at + length))).toBe(true);
    }
    expect(() => bytes.read(9_999, 2)).toThrow();
    const stored = memory.open(name);
    const raw = stored.read(0, stored.length);
    const changed = Buffer.from(raw);
    changed.writeUInt8(changed.readUInt8(5_000) ^ 1, 5_000);
    for (const wrong of [changed, raw.subarray(0, 32 + 2 * 4_112)]) {
      const other = memory.put([wrong]);
      expect(() => store.open(other.name).read(4_096, 10)).toThrow(/decrypted/);
    }
    expect(() => new SealedSegmentStore(memory, randomBytes(32)).open(name).read(0, 1)).toThrow(/decrypted/);
  });

  test('E2: a state of another key, or of an index that was not encrypted, counts as missing', () => {
    const memory = new MemorySegmentStore();
    const store = new SealedSegmentStore(memory, randomBytes(32));
    expect(store.loadState()).toBeUndefined();
    store.saveState('{"a":"the state"}');
    expect(memory.loadState()).not.toContain('state');
    expect(store.loadState()).toBe('{"a":"the state"}');
    expect(new SealedSegmentStore(memory, randomBytes(32)).loadState()).toBeUndefined();
    memory.saveState('{"segments":[]}');
    expect(store.loadState()).toBeUndefined();
  });
});
