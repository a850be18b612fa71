/**
 * Goal: no reader of `basic` or `verbose` receives raw content (F021), in the process or over HTTP. Method: a session
 * does everything that publishes events with content. Each text has a distinct word after a marker. The session's
 * events are read in each mode, also live, and searched for these words.
 */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { agent, type Runtime, type Session, type SessionEvent, tool, type ViewedEvent } from '../../src/index.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { type EventReader, readEvents } from '../support/event-reader.ts';
import { cellsIn, holdsMarker, MARKER, outsideRendered } from '../support/markers.ts';
import { type Deferred, deferred, type GatedModel, gatedModel } from '../support/runtime-kit.ts';
import { serverKit } from './support.ts';

const kit = serverKit();

const word = (name: string): string => `${MARKER} ${name}.`;
/** More text than a preview of a line or two shows. */
const below = (name: string): string => `one\ntwo\nthree\n${word(name)}`;
const input = { a: 'first', b: 'second', c: word('input') };
const shape = z.object({ a: z.string(), b: z.string(), c: z.string() });
const pay = tool({ name: 'pay', description: 'Pays.', input: shape, run: () => below('paid') });

async function until<Event extends ViewedEvent>(events: AsyncIterable<Event>): Promise<readonly Event[]> {
  const found: Event[] = [];
  for await (const event of events) {
    found.push(event);
    if (event.type === 'turn.failed') break;
  }
  return found;
}

async function untilOver(reader: EventReader): Promise<readonly ViewedEvent[]> {
  const found: ViewedEvent[] = [];
  for (let event = await reader.nextEvent(); event !== undefined; event = await reader.nextEvent()) {
    found.push(event);
    if (event.type === 'turn.failed') break;
  }
  reader.kill();
  return found;
}

/** Reads up to the first event of a type. */
async function first<Type extends SessionEvent['type']>(
  session: Session,
  type: Type,
): Promise<SessionEvent & { readonly type: Type }> {
  const isIt = (event: SessionEvent): event is SessionEvent & { readonly type: Type } => event.type === type;
  for await (const event of session.events()) if (isIt(event)) return event;
  throw new Error(`there was no ${type}`);
}

/** Everything that publishes events with content; a failed turn comes last. */
async function live(runtime: Runtime, session: Session, model: GatedModel, isTold: Deferred<void>): Promise<void> {
  const answers = async (...replies: readonly Reply[]): Promise<void> => {
    for (const reply of replies) (await model.next()).answer(reply);
  };
  const noted = await session.send(word('said'));
  const held = await model.next();
  await session.send(word('steered'), { deliver: 'steer' });
  const progress = first(session, 'tool.progress');
  held.answer({ thinking: word('thought'), text: word('noting'), toolUse: { name: 'note', input } });
  await progress;
  isTold.resolve();
  await answers({ thinking: word('thought'), text: word('answered') });
  await noted.answer();

  const paid = await session.send('Pay.');
  await answers({ toolUse: { name: 'pay', input } });
  await session.approve((await first(session, 'approval.required')).toolUseId, { allow: true });
  await answers('Paid.');
  await paid.answer();

  const child = await session.spawn({ task: word('task') });
  await answers(below('reply'), 'Thanks.');
  await child.exit();
  await runtime.drain();

  await session.history.replaceAll([
    { role: 'user', content: word('replaced') },
    { role: 'assistant', content: word('imported') },
    { role: 'user', content: word('replaced') },
    { role: 'assistant', content: word('imported') },
  ]);
  const compressed = session.history.compress({ force: true });
  await answers(`<topics>${word('topics')}</topics>\n${word('summary')}`);
  await compressed;

  await session.send(word('bounced'), { bounceBack: true });
  await answers({ error: { status: 400, message: 'no such luck' } });
}

/** The words that cells show, with their positions. */
function shown(events: readonly ViewedEvent[]): readonly string[] {
  const found = events.flatMap((event) =>
    [...JSON.stringify(cellsIn(event)).matchAll(new RegExp(`${MARKER} (\\w+)`, 'g'))].map(
      ([, name]) => `${event.type} ${name}`,
    ),
  );
  return [...new Set(found)].sort();
}

test('F021: in basic and verbose, events hold message text only where their cells show it, in the process and over HTTP', async () => {
  const model = gatedModel();
  const isTold = deferred();
  const note = tool({
    name: 'note',
    description: 'Notes.',
    input: shape,
    run: async (_input, { progress }) => {
      progress({ step: word('progress') });
      await isTold.promise;
      return below('result');
    },
  });
  const compression = { messages: 200, keepRecent: 2, idleMinMessages: 1, idleMinTokens: 0 };
  const agents = [
    agent({ name: 'main', tools: [note, pay], approve: ['pay'], compression, subagents: { spawn: true } }),
  ];
  const { runtime, url } = await kit.serve({ agents, provider: model.provider });
  const session = runtime.session('s');
  await session.goals.create({ description: word('goal') });
  const addresses = ['?mode=basic', '?mode=verbose', ''].map((query) => `${url}/sessions/s/events${query}`);
  const readers = await Promise.all(addresses.map((address) => readEvents(address)));
  const reading = {
    whole: until(session.events()),
    debug: until(session.events({ mode: 'debug' })),
    verbose: until(session.events({ mode: 'verbose' })),
    basic: until(session.events({ mode: 'basic' })),
    http: Promise.all(readers.map(untilOver)),
  };
  await live(runtime, session, model, isTold);
  const [whole, debug, verbose, basic] = await Promise.all([
    reading.whole,
    reading.debug,
    reading.verbose,
    reading.basic,
  ]);
  const [basicHttp = [], verboseHttp = [], plainHttp = []] = await reading.http;
  const all = [
    ...['answered', 'bounced', 'goal', 'imported', 'input', 'noting', 'paid', 'progress', 'replaced', 'reply'],
    ...['result', 'said', 'steered', 'summary', 'thought', 'topics'],
  ];
  for (const name of all) {
    for (const events of [whole, debug]) expect(JSON.stringify(events)).toContain(word(name));
  }
  for (const events of [basic, verbose, basicHttp, verboseHttp, plainHttp]) {
    expect(events.filter((event) => holdsMarker(outsideRendered(event)))).toEqual([]);
  }
  for (const name of ['goal', 'input', 'paid', 'progress', 'reply', 'result', 'thought']) {
    expect(JSON.stringify(basic)).not.toContain(word(name));
    if (name !== 'goal') expect(JSON.stringify(verbose)).not.toContain(word(name));
  }
  const talk = [
    'bounce_back bounced',
    'compaction.applied summary',
    'history.changed imported',
    'history.changed replaced',
    'message.created answered',
    'message.created bounced',
    'message.created noting',
    'message.created said',
    'message.created steered',
    'message.created topics',
    'pending.created bounced',
    'pending.created said',
    'pending.created steered',
    'text.delta answered',
    'text.delta noting',
  ];
  expect(shown(basic)).toEqual(talk);
  const withNotes = [...talk, 'message.created goal', 'pending.created goal'].sort();
  expect(shown(verbose)).toEqual(withNotes);
  expect(shown(basicHttp)).toEqual(talk);
  expect(shown(verboseHttp)).toEqual(withNotes);
  const durable = (events: readonly ViewedEvent[]): readonly ViewedEvent[] =>
    events.filter(({ seq }) => seq !== undefined);
  expect(durable(basicHttp)).toEqual(durable(basic));
  expect(durable(plainHttp)).toEqual(durable(basic));
  expect(durable(verboseHttp)).toEqual(durable(verbose));
  expect(durable(basic).map(({ seq }) => seq)).toEqual(durable(whole).map(({ seq }) => seq));
});
