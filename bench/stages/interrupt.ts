/**
 * `interrupt <inline|isolated> <directory> <sessions>`: sends that many sessions a question each, prints a line when
 * all of them wait for a model that never answers, and waits to be killed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { workerUrl } from '../../src/threads/worker-url.ts';
import { numbers } from '../report/figures.ts';
import { textOf } from '../systems/system.ts';
import { openTroupe } from '../systems/troupe-system.ts';
import stuck from './stuck-model.ts';

const POLL_MS = 10;

const [isolation, directory = '', count = ''] = process.argv.slice(2);
const sessions = Number(count);
const { runtime } = await openTroupe(directory, {
  isolation: isolation === 'isolated' ? 'isolated' : 'inline',
  provider: { value: stuck, url: workerUrl('./stuck-model', import.meta.url) },
});
await Promise.all(numbers(sessions).map((index) => runtime.session(`s${index}`).send(textOf({ a: index, b: 1 }))));
// The model is called once for each even question, and twice for each odd one.
const calls = sessions + Math.floor(sessions / 2);
while (runtime.metrics().modelCalls < calls) await delay(POLL_MS);
await delay(POLL_MS);
process.stdout.write('interrupted\n');
// This input keeps the process alive until it is killed.
setInterval(() => undefined, 1_000);
