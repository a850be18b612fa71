import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ROW_PACKED_BYTES_MIN, ROWS_PACKED_HERE_BYTES_MAX } from '../../../src/base/bounds.ts';
import { StoreCorruptError } from '../../../src/base/errors.ts';
import { decodeRow, encodeRows, type Row, rowSessions } from '../../../src/journal/rows/row-codec.ts';
import { packRow, packRows, unpackRow, unpackTable } from '../../../src/journal/rows/row-packing.ts';
import { decodeBlob, encodeBlob, storedJson } from '../../../src/journal/rows/stored-text.ts';
import { noiseText } from '../support/texts.ts';

function rowOf(number: number, texts: readonly string[]): Row {
  const entries = texts.map((text, turn) => {
    const { text: data, bytes: dataBytes } = storedJson(JSON.stringify(text));
    return { key: turn + 1, turn, previousRow: number - 1, data, dataBytes };
  });
  const bytes = entries.reduce((sum, { dataBytes }) => sum + dataBytes, 0);
  return { number, turns: texts.length, bytes, entries };
}

function plainRow(number: number, texts: readonly string[]): Buffer {
  const [bytes] = encodeRows([rowOf(number, texts)]);
  if (bytes === undefined) throw new Error('one value a row');
  return bytes;
}

const WORDS = ['to be or not to be, that is the question; '.repeat(30), 'é ∑ 𝄞 '.repeat(40)];

describe('packed rows', () => {
  test('J1: an unpacked row equals the packed one, whatever its content, and is never larger on disk', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1 }),
        fc.array(fc.string({ unit: 'binary' }), { maxLength: 20 }),
        (number, texts) => {
          const plain = plainRow(number, texts);
          const packed = packRow(plain);
          expect(packed.length).toBeLessThanOrEqual(plain.length);
          expect(unpackRow(packed, number).equals(plain)).toBe(true);
        },
      ),
    );
  });

  test('rows of text shrink to a fraction; random bytes and small rows are stored unchanged', async () => {
    const words = plainRow(1, WORDS);
    const small = plainRow(2, ['small']);
    const noise = plainRow(3, [noiseText(2_000)]);
    const [packed, ...others] = await packRows([words, small, noise]);
    expect(packed?.length).toBeLessThan(words.length / 4);
    expect(small.length).toBeLessThan(ROW_PACKED_BYTES_MIN);
    expect(others[0]).toBe(small);
    expect(unpackRow(others[1] ?? small, 3).equals(noise)).toBe(true);
  });

  test('a flush beyond the packing bound of this thread is packed on another thread: all rows, in their order', async () => {
    const rows = Array.from({ length: 5 }, (_, index) =>
      plainRow(index + 1, [noiseText(ROWS_PACKED_HERE_BYTES_MAX / 3, index)]),
    );
    const packed = await packRows(rows);
    packed.forEach((bytes, index) => {
      const plain = rows[index];
      expect(bytes.length).toBeLessThan((plain?.length ?? 0) * 0.8);
      // Compared as bytes: the matcher would walk megabytes one by one.
      expect(plain !== undefined && unpackRow(bytes, index + 1).equals(plain)).toBe(true);
    });
  });

  test('F08: a flipped bit anywhere is detected or changes nothing, and a row cut at any length is detected', () => {
    const plain = plainRow(5, WORDS);
    const packed = packRow(plain);
    const entries = decodeRow(plain, 5);
    let harmless = 0;
    for (let bit = 0; bit < packed.length * 8; bit += 1) {
      const damaged = Buffer.from(packed);
      damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      try {
        expect(decodeRow(unpackRow(damaged, 5), 5), `bit ${bit}`).toEqual(entries);
        harmless += 1;
      } catch (error) {
        expect(error, `bit ${bit}`).toBeInstanceOf(StoreCorruptError);
      }
    }
    // Bits of the stream without meaning: the window's size, and the padding of its last byte.
    expect(harmless).toBeLessThan(16);
    for (let length = 0; length < packed.length; length += 1) {
      expect(() => decodeRow(unpackRow(packed.subarray(0, length), 5), 5), `length ${length}`).toThrow(
        StoreCorruptError,
      );
    }
    expect(() => unpackRow(packed, 6)).toThrow(StoreCorruptError);
  });

  test('back pointers can be read even if the data cannot', () => {
    const packed = packRow(plainRow(5, WORDS));
    packed.fill(0xff, packed.length - 20);
    expect(() => unpackRow(packed, 5)).toThrow(/unpacked|length/);
    expect(rowSessions(unpackTable(packed, 5), 5)).toEqual([
      [1, 4],
      [2, 4],
    ]);
  });
});

test('blobs: a long text is packed, and a damaged one gives no text', () => {
  const text = WORDS.join(' ');
  const bytes = encodeBlob(text);
  expect(bytes.length).toBeLessThan(text.length / 4);
  expect(decodeBlob(bytes)).toBe(text);
  expect(decodeBlob(bytes.subarray(0, 20))).toBeUndefined();
});
