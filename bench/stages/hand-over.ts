/**
 * `hand-over <inline|isolated> <directory> <sessions>`: waits for a word on its input, takes the directory over and
 * keeps that many sessions at work until the next process takes it. Prints as JSON: when it is loaded, its first accepted
 * message with the time at which `open` resolved, and at its end its last accepted message. Times are ms since 1970,
 * so that those of two processes can be compared.
 */
import { once } from 'node:events';
import { TroupeError } from '../../src/index.ts';
import { numbers } from '../report/figures.ts';
import { textOf } from '../systems/system.ts';
import { openTroupe } from '../systems/troupe-system.ts';

const [isolation, directory = '', count = ''] = process.argv.slice(2);
print({ loaded: now() });
await once(process.stdin, 'data');
const { runtime } = await openTroupe(directory, {
  isolation: isolation === 'isolated' ? 'isolated' : 'inline',
  takesOver: true,
});
const openedAt = now();
let acceptedAt: number | undefined;
const work = numbers(Number(count)).map(async (index) => {
  const session = runtime.session(`s${index}`);
  for (let turn = 0; ; turn += 1) {
    const receipt = await session.send(textOf({ a: index, b: turn }));
    if (acceptedAt === undefined) print({ openedAt, firstAt: now() });
    acceptedAt = now();
    await receipt.answer();
  }
});
const ends = await Promise.allSettled(work);
for (const end of ends) {
  if (end.status === 'rejected' && !isEnd(end.reason)) throw end.reason;
}
const { reason } = await runtime.closed;
if (reason !== 'taken_over') throw new Error(`the runtime ended for another reason: ${reason}`);
print({ lastAt: acceptedAt ?? openedAt });

function now(): number {
  return performance.timeOrigin + performance.now();
}

function print(facts: Readonly<Record<string, number>>): void {
  process.stdout.write(`${JSON.stringify(facts)}\n`);
}

/** True for the refusal of a runtime that has handed over. */
function isEnd(error: unknown): boolean {
  return error instanceof TroupeError && error.code === 'cancelled';
}
