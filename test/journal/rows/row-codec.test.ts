import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ROW_TURN_HELD_BYTES_MIN } from '../../../src/base/bounds.ts';
import { StoreCorruptError } from '../../../src/base/errors.ts';
import {
  decodeRow,
  encodeRows,
  entryOf,
  heldData,
  positionOf,
  type Row,
  type RowEntry,
  rowOf,
  rowSessions,
  rowTurns,
  sliceRow,
} from '../../../src/journal/rows/row-codec.ts';
import { blobAddress, decodeBlob, encodeBlob, storedJson } from '../../../src/journal/rows/stored-text.ts';

const entryArbitrary: fc.Arbitrary<RowEntry> = fc
  .record({
    key: fc.integer({ min: 1, max: 0xffff_ffff }),
    turn: fc.nat(63),
    previousRow: fc.maxSafeNat(),
    json: fc.json(),
  })
  .map(({ json, ...place }) => {
    const { text, bytes } = storedJson(json);
    return { ...place, data: text, dataBytes: bytes };
  });

const rowArbitrary: fc.Arbitrary<Row> = fc
  .record({ number: fc.maxSafeNat(), entries: fc.array(entryArbitrary, { maxLength: 20 }) })
  .map(({ number, entries }) => ({
    number,
    turns: 64,
    bytes: entries.reduce((sum, entry) => sum + entry.dataBytes, 0),
    entries,
  }));

describe('rows', () => {
  test('J1: an encoded row is decoded completely, by session and by its table', () => {
    fc.assert(
      fc.property(fc.array(rowArbitrary, { maxLength: 5 }), (rows) => {
        encodeRows(rows).forEach((bytes, index) => {
          const row = rows[index];
          if (row === undefined) throw new Error('one value a row');
          expect(decodeRow(bytes, row.number)).toEqual(row.entries);
          expect(rowTurns(bytes, row.number)).toBe(row.turns);
          expect(rowSessions(bytes, row.number)).toEqual(row.entries.map((e) => [e.key, e.previousRow]));
          for (const { key } of row.entries) {
            const own = row.entries.filter((entry) => entry.key === key);
            expect(sliceRow(bytes, row.number, key)?.entries).toEqual(own.map(({ turn, data }) => ({ turn, data })));
          }
        });
      }),
    );
  });

  test('a large transition waits for its flush as bytes, is read as its text, and is written unchanged', () => {
    for (const unit of ['x', 'é', '🦊']) {
      const { text, bytes } = storedJson(JSON.stringify(unit.repeat(ROW_TURN_HELD_BYTES_MIN)));
      const entry = { key: 7, turn: 0, previousRow: 3, data: text, dataBytes: bytes };
      const held = { ...entry, data: heldData(text, bytes) };
      expect(held.data).toBeInstanceOf(Buffer);
      expect(entryOf(held, 5, undefined)).toEqual(entry);
      const row = { number: 5, turns: 1, bytes };
      expect(encodeRows([{ ...row, entries: [held] }])).toEqual(encodeRows([{ ...row, entries: [entry] }]));
    }
    expect(heldData('{}', 2)).toBe('{}');
  });

  test('F08: a flipped bit anywhere in a row is detected, and so is a row cut at any length', () => {
    const entry = { key: 7, turn: 0, previousRow: 3, data: '{"a":"é"}', dataBytes: 10 };
    const row: Row = { number: 5, turns: 1, bytes: 20, entries: [entry, { ...entry, key: 8 }] };
    const [bytes] = encodeRows([row]);
    if (bytes === undefined) throw new Error('one value a row');
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      expect(() => decodeRow(damaged, 5), `bit ${bit}`).toThrow(StoreCorruptError);
    }
    for (let length = 0; length < bytes.length; length += 1) {
      expect(() => decodeRow(bytes.subarray(0, length), 5), `length ${length}`).toThrow(StoreCorruptError);
    }
    expect(() => decodeRow(bytes, 6)).toThrow(StoreCorruptError);
  });

  test('damage of one session does not fail a reader of another', () => {
    const entry = { key: 7, turn: 0, previousRow: 3, data: '12345678', dataBytes: 8 };
    const [bytes] = encodeRows([{ number: 5, turns: 1, bytes: 16, entries: [entry, { ...entry, key: 8 }] }]);
    if (bytes === undefined) throw new Error('one value a row');
    bytes.writeUInt8(0, bytes.length - 1);
    expect(sliceRow(bytes, 5, 7)?.entries).toEqual([{ turn: 0, data: '12345678' }]);
    expect(() => sliceRow(bytes, 5, 8)).toThrow(StoreCorruptError);
  });

  test('J1: a position names one transition of one row', () => {
    expect(rowOf(positionOf(1, 0))).toBe(1);
    expect(rowOf(positionOf(8_000_000_000_000, 1_023))).toBe(8_000_000_000_000);
    expect(Number.isSafeInteger(positionOf(8_000_000_000_000, 1_023))).toBe(true);
  });
});

describe('texts', () => {
  const unitString = fc.array(fc.nat(0xffff), { maxLength: 50 }).map((units) => String.fromCharCode(...units));

  test('F57: JSON with lone surrogates is stored as valid UTF-8, and parses to the same value', () => {
    fc.assert(
      fc.property(unitString, (text) => {
        // Another encoder may write unit by unit, with raw surrogates.
        const raw = `"${text
          .split('')
          .map((unit) => (isSurrogate(unit) ? unit : JSON.stringify(unit).slice(1, -1)))
          .join('')}"`;
        const stored = storedJson(raw);
        const bytes = Buffer.from(stored.text);
        expect(bytes.length).toBe(stored.bytes);
        expect(JSON.parse(bytes.toString())).toBe(text);
      }),
    );
  });

  test('F57: a blob is read back as the same text, and equal addresses mean equal texts', () => {
    fc.assert(
      fc.property(unitString, unitString, (one, other) => {
        expect(decodeBlob(encodeBlob(one))).toBe(one);
        expect(blobAddress(one) === blobAddress(other)).toBe(one === other);
      }),
    );
    expect(decodeBlob(Buffer.from([9, 1]))).toBeUndefined();
  });
});

function isSurrogate(unit: string): boolean {
  return unit >= '\ud800' && unit <= '\udfff';
}
