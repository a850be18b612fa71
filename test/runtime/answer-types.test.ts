/** Types of structured answers: `tsc` checks them in `npm test`. Nothing here runs a model. */
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import type { Json } from '../../src/base/json.ts';
import {
  type Agent,
  agent,
  type Child,
  type CompletedChild,
  type Family,
  type JsonSchema,
  type Receipt,
  type Runtime,
  type Session,
  type StandardSchema,
} from '../../src/index.ts';

const city = z.object({ name: z.string(), founded: z.string().transform((text) => new Date(text)) });
interface City {
  name: string;
  founded: Date;
}
const word = z.object({ word: z.string() });

/** Never called: only its types are checked. */
async function types(runtime: Runtime, json: JsonSchema): Promise<void> {
  const session = runtime.session('s');
  expectTypeOf(session).toEqualTypeOf<Session>();
  expectTypeOf(await session.ask('x')).toEqualTypeOf<string>();
  expectTypeOf(await session.ask('x', { output: city })).toEqualTypeOf<City>();
  expectTypeOf(await session.ask('x', { output: city, deliver: 'interrupt', key: 'k' })).toEqualTypeOf<City>();
  expectTypeOf(await session.ask('x', { output: json })).toEqualTypeOf<Json>();
  const receipt = await session.send('x', { output: city });
  expectTypeOf(receipt).toEqualTypeOf<Receipt<City>>();
  expectTypeOf(await receipt.answer()).toEqualTypeOf<City>();
  expectTypeOf(await (await session.receipt('id')).answer()).toEqualTypeOf<string>();
  expectTypeOf(await (await session.receipt('id', { output: city })).answer()).toEqualTypeOf<City>();

  const clerk = agent({ name: 'clerk', output: city });
  expectTypeOf(clerk).toEqualTypeOf<Agent<City, 'clerk'>>();
  const typed = runtime.session('s', clerk);
  expectTypeOf(typed).toEqualTypeOf<Session<City>>();
  expectTypeOf(await typed.ask('x')).toEqualTypeOf<City>();
  expectTypeOf(await (await typed.send('x')).answer()).toEqualTypeOf<City>();
  expectTypeOf(await typed.ask('x', { output: word })).toEqualTypeOf<{ word: string }>();
  expectTypeOf(await typed.fork()).toEqualTypeOf<Session<City>>();
  expectTypeOf(runtime.session('s', agent({ name: 'a' }))).toEqualTypeOf<Session>();

  const child = await session.spawn({ task: 't', output: city });
  expectTypeOf(child).toEqualTypeOf<Child<City>>();
  expectTypeOf(await child.reply()).toEqualTypeOf<City>();
  expectTypeOf(await (await session.spawn({ task: 't' })).reply()).toEqualTypeOf<string>();
  const family = await session.spawnAll([{ task: 't', output: city }]);
  expectTypeOf(family).toEqualTypeOf<Family<City>>();
  expectTypeOf(await family.all()).toEqualTypeOf<readonly CompletedChild<City>[]>();
  for (const result of await family.settled()) {
    if (result.reason === 'completed') expectTypeOf(result.reply).toEqualTypeOf<City>();
    else expectTypeOf(result.error).toEqualTypeOf<Error>();
  }
  for await (const event of session.events()) {
    if (event.type === 'turn.finished') expectTypeOf(event.output).toEqualTypeOf<Json | undefined>();
  }
}

/** Never called: each line is a wrong use, which must not compile. */
async function wrongUses(runtime: Runtime, standard: StandardSchema<string>): Promise<void> {
  const session = runtime.session('s');
  // @ts-expect-error an answer is an object, not a string
  await session.ask('x', { output: z.string() });
  // @ts-expect-error nor a list
  await session.ask('x', { output: z.array(city) });
  // @ts-expect-error a schema, not the class of the answer
  await session.ask('x', { output: Date });
  // @ts-expect-error a message that joins a turn cannot ask for a form
  await session.ask('x', { output: city, deliver: 'ride' });
  // @ts-expect-error the same
  await session.send('x', { output: city, deliver: 'merge' });
  // @ts-expect-error the answer has no such member
  (await session.ask('x', { output: city })).people;
  // @ts-expect-error a text is no object
  (await session.ask('x')).name;
  // @ts-expect-error the reply has no such member
  (await (await session.spawn({ task: 't', output: city })).reply()).people;
  // @ts-expect-error an agent's answers are objects too
  agent({ name: 'a', output: z.number() });
  // @ts-expect-error nor is this
  await session.spawn({ task: 't', output: z.boolean() });
  // The declared type of this schema does not say what it takes, so it may be one of an object.
  expectTypeOf(await session.ask('x', { output: standard as never as typeof city })).toEqualTypeOf<City>();
}

describe('types of structured answers', () => {
  test('are checked by the compiler', () => {
    expect([types, wrongUses].map((check) => typeof check)).toEqual(['function', 'function']);
  });
});
