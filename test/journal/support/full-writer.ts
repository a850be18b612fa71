/**
 * Writes to the store named by the argument until the device refuses, then recovers and writes a little more. Prints
 * one JSON object with the outcome. Run it under a limit of the file size.
 */
import { StoreFullError } from '../../../src/base/errors.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { noiseText } from './texts.ts';

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error('a directory is needed');

const journal = await openLmdbJournal({ directory, durability: 'flush' });
const key = journal.intern('a');
const data = JSON.stringify(noiseText(100_000));
let acknowledged = 0;
let lastPosition = 0;
let refusal: unknown;
while (refusal === undefined) {
  const position = journal.append([{ key, data }]);
  try {
    await journal.flushed();
    acknowledged += 1;
    lastPosition = position;
  } catch (error) {
    refusal = error;
  }
}
if (!(refusal instanceof StoreFullError)) throw refusal;
const readableAfter = [...journal.read(key, 0)].length;
journal.append([{ key, data: '1' }]);
const laterRejects = await journal.flushed().then(
  () => false,
  (error: unknown) => error === refusal,
);
const recoveredTo = await journal.recover();
journal.append([{ key, data: '"small"' }]);
await journal.flushed();
const goesOn = [...journal.read(key, 0)].length === acknowledged + 1;
await journal.close();
const { cause } = refusal;
process.stdout.write(
  JSON.stringify({
    name: refusal.name,
    code: refusal.code,
    cause: cause instanceof Error && 'code' in cause ? cause.code : cause,
    acknowledged,
    lastPosition,
    readableAfter,
    laterRejects,
    recoveredTo,
    goesOn,
  }),
);
