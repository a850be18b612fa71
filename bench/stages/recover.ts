/**
 * `recover <inline|isolated> <directory> <sessions>`: opens a store of interrupted sessions in this new process. Prints
 * the milliseconds from the start of `open` to its end, to the first model call, and to all sessions drained; checks
 * every answer.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { numbers } from '../report/figures.ts';
import { answerOf, MESSAGES_A_TURN } from '../systems/system.ts';
import { openTroupe } from '../systems/troupe-system.ts';

const [isolation, directory = '', count = ''] = process.argv.slice(2);
const startedAt = performance.now();
const { runtime, close } = await openTroupe(directory, { isolation: isolation === 'isolated' ? 'isolated' : 'inline' });
const openedMs = performance.now() - startedAt;
while (runtime.metrics().modelCalls === 0) await turn();
const firstMs = performance.now() - startedAt;
await runtime.drain();
const drainedMs = performance.now() - startedAt;
const { modelCalls } = runtime.metrics();
for (const index of numbers(Number(count))) {
  const messages = await runtime.session(`s${index}`).messages();
  const last = messages.at(-1)?.content;
  if (messages.length !== MESSAGES_A_TURN || last !== answerOf({ a: index, b: 1 })) {
    throw new Error(`s${index} ended with ${messages.length} messages and ${JSON.stringify(last)}`);
  }
}
await close();
process.stdout.write(`${JSON.stringify({ openedMs, firstMs, drainedMs, modelCalls })}\n`);
