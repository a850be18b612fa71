/** Keys of the table `log` as lmdb writes them: a double's bits behind the nibble 1, without the zeros at the end. */

const PREFIX = 0x10;
const KEY_BYTES_MIN = 4;
const KEY_BYTES_MAX = 9;

/** The row number in a key; undefined when the key has none. */
export function readRowNumber(key: Buffer): number | undefined {
  if (key.length < KEY_BYTES_MIN || key.length > KEY_BYTES_MAX || ((key[0] ?? 0) & 0xf0) !== PREFIX) return undefined;
  const bytes = Buffer.alloc(KEY_BYTES_MAX);
  key.copy(bytes);
  const bits = (bytes.readBigUInt64BE(0) << 4n) | BigInt((bytes[8] ?? 0) >> 4);
  const double = Buffer.alloc(8);
  double.writeBigUInt64BE(BigInt.asUintN(64, bits));
  const row = double.readDoubleBE(0);
  return Number.isSafeInteger(row) && row > 0 ? row : undefined;
}
