/**
 * `reopen <inline|isolated> <directory> <session>`: opens a store in this new process with the built package, reads the
 * first message of a session and makes its next turn. Prints the milliseconds of each, and the anonymous memory that
 * the open took.
 */
import { statusKib } from '../cost.ts';
import { answerOf, textOf } from '../systems/system.ts';
import { type Isolation, troupeOptions } from '../systems/troupe-system.ts';
import { builtTools, importBuilt } from './built-package.ts';

const QUESTION = { a: 3, b: 4 };

const [isolation, directory = '', session = ''] = process.argv.slice(2);
const { agent, open } = await importBuilt();
const kind: Isolation = isolation === 'isolated' ? 'isolated' : 'inline';
const options = troupeOptions({ isolation: kind, tools: await builtTools() }, agent);
const anonBefore = statusKib('RssAnon') ?? 0;
const startedAt = performance.now();
const runtime = await open(directory, options);
const openedAt = performance.now();
const anonAfter = statusKib('RssAnon') ?? 0;
const first = await runtime.session(session).messages({ limit: 1 });
const readAt = performance.now();
const answer = await runtime.session(session).ask(textOf(QUESTION));
const answeredAt = performance.now();
await runtime.close();
if (first.length !== 1 || answer !== answerOf(QUESTION)) throw new Error(`${session} is not what it was`);
const figures = {
  openMs: openedAt - startedAt,
  readMs: readAt - openedAt,
  turnMs: answeredAt - readAt,
  openAnonKib: anonAfter - anonBefore,
};
process.stdout.write(`${JSON.stringify(figures)}\n`);
