/**
 * Goal: an index that follows the logs of a shard has exactly the messages that its sessions show. They may be edited,
 * forked, compressed, deleted, created again, or lost by a crash. Method: random actions on a shard, and a follower
 * whose index is a map.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SEARCH_CHAIN_ROWS, SEARCH_PAGE_ROWS } from '../../../src/base/bounds.ts';
import { InvalidArgumentError } from '../../../src/base/errors.ts';
import { COMPACTION_INSTRUCTION } from '../../../src/context/compaction-request.ts';
import { agent } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { SearchFollower, savedFollowerSchema } from '../../../src/runtime/search/follower.ts';
import type { AskShard, SearchMethod } from '../../../src/runtime/search/reader.ts';
import { SessionSince } from '../../../src/runtime/search/session-since.ts';
import { searchableText } from '../../../src/search/searchable.ts';
import type { EditRequest } from '../../../src/session/state/edit-request.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { think } from '../../../src/tools/built-in/index.ts';
import { copyStore, openShard, type TestShard } from '../../support/shard-kit.ts';

const COMPRESSION = { messages: 1_000, keepRecent: 2, idleMinMessages: 3, idleMinTokens: 0 } as const;
const agents = [agent({ name: 'a', tools: [think], compression: COMPRESSION })];
const provider = scripted(({ messages }) => {
  const content = messages.at(-1)?.content;
  const said = JSON.stringify(content);
  if (said.includes(JSON.stringify(COMPACTION_INSTRUCTION).slice(1, -1))) return 'what was said, in short';
  if (Array.isArray(content) && content.some(({ type }) => type === 'tool_result')) return 'I have thought';
  return said.includes('think') ? { toolUse: { name: 'think', input: { thoughts: 'hm, hm' } } } : `to ${said.length}`;
}) as ModelProvider;

/** A message as an index stores it. */
type Line = string;

/** An index of everything: the lines of each session, one for each time it was put. */
class LineIndex {
  readonly sessions = new Map<string, Line[]>();

  put(
    session: string,
    { seq, kind, text }: { readonly seq: number; readonly kind?: string; readonly text: string },
  ): void {
    const lines = this.sessions.get(session) ?? [];
    this.sessions.set(session, lines);
    lines.push(`${seq} ${kind} ${text}`);
  }

  removeSessions(sessions: Iterable<string>): void {
    for (const session of sessions) this.sessions.delete(session);
  }

  makeRoom(): void {
    // The map has no bound.
  }
}

/** A shard with a follower. */
class Scene {
  store = new MemoryStore();
  shard: TestShard = openShard({ store: this.store, provider, agents });
  index = new LineIndex();
  saved: { readonly follower: string; readonly index: ReadonlyMap<string, readonly Line[]> } | undefined;
  follower = this.follow();
  /** Runs after each request to the shard. */
  asked: (method: SearchMethod) => void | Promise<void> = () => undefined;
  count = 0;

  readonly ask: AskShard = async (_shard, method, request) => {
    const answer = await this.shard.call(method, request);
    await this.asked(method);
    // The value is cloned, as between threads.
    return structuredClone(answer);
  };

  follow(): SearchFollower {
    const { saved } = this;
    for (const [session, lines] of saved?.index ?? []) this.index.sessions.set(session, [...lines]);
    return new SearchFollower({
      index: this.index,
      ask: (shard, method, request) => this.ask(shard, method, request),
      shards: 1,
      saved: saved === undefined ? undefined : savedFollowerSchema.parse(JSON.parse(saved.follower)),
      stepped: () => undefined,
    });
  }

  save(): void {
    const index = new Map([...this.index.sessions].map(([session, lines]) => [session, [...lines]]));
    this.saved = { follower: JSON.stringify(this.follower.save()), index };
  }

  /** Ends both the runtime and the index as in a crash, and starts them again with the device's data. */
  async crash(): Promise<void> {
    this.store = copyStore(this.store);
    await this.shard.close();
    this.shard = openShard({ store: this.store, provider, agents });
    this.index = new LineIndex();
    this.follower = this.follow();
  }

  async say(session: string, content: string): Promise<void> {
    await this.shard.call('session.send', { session, content, agent: 'a' });
    await this.shard.call('runtime.drain', { id: 0 });
  }

  async edit(session: string, edit: EditRequest): Promise<void> {
    await refusable(this.shard.call('history.edit', { session, edit }));
  }

  async delete(session: string): Promise<void> {
    this.follower.forget(await this.shard.call('sessions.delete', { session }));
  }

  async sessions(): Promise<readonly string[]> {
    return (await this.shard.call('sessions.list', { order: 'id', limit: 1_000 })).map(({ id }) => id);
  }

  /** The lines that the sessions show, from the messages themselves. */
  async shown(): Promise<ReadonlyMap<string, readonly Line[]>> {
    const shown = new Map<string, readonly Line[]>();
    for (const session of await this.sessions()) {
      const texts = (await this.shard.call('session.messages', { session })).flatMap((m) => searchableText(m) ?? []);
      if (texts.length > 0)
        shown.set(
          session,
          texts.map(({ seq, kind, text }) => `${seq} ${kind} ${text}`),
        );
    }
    return shown;
  }

  async check(): Promise<void> {
    expect(await this.follower.pass()).toBe(true);
    const sorted = (all: Iterable<readonly [string, readonly Line[]]>): object =>
      Object.fromEntries([...all].map(([session, lines]) => [session, [...lines].sort()]));
    expect(sorted(this.index.sessions)).toEqual(sorted(await this.shown()));
  }
}

/** Ignores refusals for a missing session, or for a message that is missing or belongs to another branch. */
async function refusable(asked: Promise<unknown>): Promise<void> {
  try {
    await asked;
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) expect(error).toMatchObject({ code: 'unknown_session' });
  }
}

type Action = {
  readonly do:
    | 'say'
    | 'think'
    | 'append'
    | 'result'
    | 'remove'
    | 'update'
    | 'set'
    | 'prompt'
    | 'popLast'
    | 'truncate'
    | 'start'
    | 'undo'
    | 'switch'
    | 'fork'
    | 'forkAt'
    | 'compress'
    | 'delete'
    | 'check'
    | 'save'
    | 'crash'
    | 'late';
  readonly who: number;
  readonly which: number;
};

const ROOTS = ['p', 'q'];

async function act(scene: Scene, { do: what, who, which }: Action): Promise<void> {
  const { shard } = scene;
  const there = await scene.sessions();
  const names = [...new Set([...ROOTS, ...there])];
  const session = names[who % names.length] ?? 'p';
  const isThere = there.includes(session);
  scene.count += 1;
  const messages = isThere ? await shard.call('session.messages', { session }) : [];
  const history = isThere
    ? ((await shard.call('history.read', { session, query: { name: 'messages' } })) as readonly {
        id: string;
      }[])
    : [];
  const id = history[which % Math.max(1, history.length)]?.id ?? 'nobody';
  switch (what) {
    case 'say':
      return scene.say(session, `words ${scene.count}`);
    case 'think':
      return scene.say(session, `think ${scene.count}`);
    case 'append':
      return scene.edit(session, {
        operation: 'append',
        message: { role: which % 2 === 0 ? 'user' : 'assistant', content: `put ${scene.count}` },
        silent: true,
      });
    case 'result':
      return scene.edit(session, {
        operation: 'add',
        message: { role: 'tool', toolCallId: 'x', name: 'bash', content: 'by hand' },
        silent: true,
      });
    case 'remove':
      return scene.edit(session, { operation: 'remove', id });
    case 'update':
      return scene.edit(session, { operation: 'update', id, attributes: { content: `changed ${scene.count}` } });
    case 'set':
      return scene.edit(session, {
        operation: 'set',
        messages: [
          { role: 'user', content: `anew ${scene.count}` },
          { role: 'assistant', content: 'so be it', toolCalls: [{ callId: 'x', name: 'bash', arguments: '{}' }] },
        ],
      });
    case 'prompt':
      return scene.edit(session, { operation: 'replaceSystemPrompt', text: `be kind ${scene.count}`, extra: {} });
    case 'popLast':
      return scene.edit(session, { operation: 'popLast' });
    case 'truncate':
      return scene.edit(session, { operation: 'truncateFrom', index: which });
    case 'start':
      await shard.call('tasks.start', { session, agent: 'a' });
      return;
    case 'undo':
      if (isThere) await shard.call('tasks.undo', { session });
      return;
    case 'switch':
      if (isThere) await shard.call('tasks.switch', { session, id: which });
      return;
    case 'fork':
    case 'forkAt': {
      const at = messages[which % Math.max(1, messages.length)]?.seq;
      if (!isThere) return;
      const cut = what === 'fork' || at === undefined ? {} : { at };
      return refusable(shard.call('session.fork', { session, ...cut }));
    }
    case 'compress':
      if (isThere) await shard.call('session.compress', { session, force: true });
      return;
    case 'delete':
      return scene.delete(session);
    case 'check':
      return scene.check();
    case 'save':
      return scene.save();
    case 'crash':
      return scene.crash();
    case 'late': {
      // An action happens while the index reads.
      let isFirst = true;
      scene.asked = async (method) => {
        if (!isFirst || (which % 2 === 0 && method !== 'search.rows')) return;
        isFirst = false;
        if (which % 3 === 0) await scene.delete(session);
        else await scene.say(session, `late ${scene.count}`);
        if (which % 3 === 1 && isThere) await scene.edit(session, { operation: 'remove', id });
      };
      await scene.follower.pass();
      scene.asked = () => undefined;
      return scene.check();
    }
  }
}

const actions: fc.Arbitrary<readonly Action[]> = fc.array(
  fc.record({
    do: fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom<Action['do']>('say', 'say', 'think', 'append') },
      {
        weight: 6,
        arbitrary: fc.constantFrom<Action['do']>('remove', 'update', 'set', 'popLast', 'truncate', 'prompt'),
      },
      { weight: 5, arbitrary: fc.constantFrom<Action['do']>('fork', 'forkAt', 'compress', 'result') },
      { weight: 3, arbitrary: fc.constantFrom<Action['do']>('start', 'undo', 'switch', 'delete') },
      { weight: 5, arbitrary: fc.constantFrom<Action['do']>('check', 'save', 'crash', 'late') },
    ),
    who: fc.nat(6),
    which: fc.nat(9),
  }),
  { minLength: 4, maxLength: 30, size: 'max' },
);

test('W1, W2: after any actions the index has exactly the messages that the sessions show, each once', async () => {
  await fc.assert(
    fc.asyncProperty(actions, async (all) => {
      const scene = new Scene();
      try {
        for (const action of all) await act(scene, action);
        await scene.check();
        await scene.crash();
        await scene.check();
      } finally {
        await scene.shard.close();
      }
    }),
    { numRuns: 15 },
  );
}, 120_000);

/** More rows than one step finds, and more than one step hands over. */
const MANY_ROWS = SEARCH_CHAIN_ROWS + SEARCH_PAGE_ROWS + 3;

async function many(scene: Scene, session: string, turns: number): Promise<void> {
  for (let turn = 1; turn <= turns; turn += 1) await scene.say(session, `words ${turn}`);
}

async function firstId(scene: Scene, session: string): Promise<string> {
  const messages = await scene.shard.call('history.read', { session, query: { name: 'messages' } });
  return (messages as readonly { readonly id: string }[])[0]?.id ?? '';
}

test('a session of many pages, one of its messages large, is read completely after an edit', async () => {
  const scene = new Scene();
  await many(scene, 'p', MANY_ROWS);
  await scene.say('p', `large ${'long '.repeat(200_000)}`);
  await scene.edit('p', { operation: 'update', id: await firstId(scene, 'p'), attributes: { content: 'changed' } });
  await scene.check();
  expect(scene.index.sessions.get('p')).toContain('1 human changed');
  // The follower continues from that row and does not read the session as a whole again.
  const asked: SearchMethod[] = [];
  scene.asked = (method) => void asked.push(method);
  await scene.say('p', 'and on');
  await scene.check();
  expect(asked).toEqual(['search.log']);
  await scene.shard.close();
});

test.each(['edited', 'written on', 'deleted', 'made anew', 'lost by a crash'] as const)(
  'a session that is %s between two of its pages is found in its new state',
  async (fate) => {
    const scene = new Scene();
    await many(scene, 'p', MANY_ROWS);
    await scene.edit('p', { operation: 'popLast' });
    await scene.shard.call('session.fork', { session: 'p' });
    let pages = 0;
    scene.asked = async (method) => {
      if (method !== 'search.rows') return;
      pages += 1;
      if (pages !== 2) return;
      switch (fate) {
        case 'edited':
          return scene.edit('p', {
            operation: 'update',
            id: await firstId(scene, 'p'),
            attributes: { content: 'new' },
          });
        case 'written on':
          return scene.say('p', 'one more');
        case 'deleted':
          return scene.delete('p');
        case 'made anew':
          await scene.delete('p');
          return scene.say('p', 'another one');
        case 'lost by a crash':
          throw new Error('the thread died');
      }
    };
    if (fate === 'lost by a crash') {
      scene.save();
      await expect(scene.follower.pass()).rejects.toThrow('the thread died');
      scene.save();
      await scene.crash();
    } else {
      await scene.follower.pass();
    }
    expect(pages).toBeGreaterThanOrEqual(2);
    await scene.check();
    await scene.shard.close();
  },
);

test('a fork whose parent is deleted during its read begins with its stored history', async () => {
  const scene = new Scene();
  await many(scene, 'p', MANY_ROWS);
  await scene.shard.call('session.fork', { session: 'p' });
  await scene.say('p:fork-1', 'of the fork');
  await scene.check();
  scene.index.sessions.clear();
  scene.follower = scene.follow();
  let isFirst = true;
  scene.asked = async (method) => {
    if (method !== 'search.session' || !isFirst) return;
    isFirst = false;
    await scene.delete('p');
  };
  await scene.check();
  expect(isFirst).toBe(false);
  expect([...scene.index.sessions.keys()]).toEqual(['p:fork-1']);
  await scene.shard.close();
});

test('a fork has messages that its parent hides, also if the fork is cut or its parent is deleted', async () => {
  const scene = new Scene();
  await scene.say('p', 'one');
  await scene.say('p', 'two');
  await scene.shard.call('tasks.undo', { session: 'p' });
  await scene.shard.call('session.fork', { session: 'p' });
  // The last message that is shown: nothing is cut off.
  await scene.shard.call('session.fork', { session: 'p', at: 2 });
  await scene.shard.call('session.fork', { session: 'p', at: 1 });
  await scene.check();
  await scene.delete('p');
  scene.index.sessions.clear();
  scene.follower = scene.follow();
  await scene.check();
  const counts = [...scene.index.sessions].map(([session, lines]) => [session, lines.length]);
  expect(Object.fromEntries(counts)).toEqual({ 'p:fork-1': 4, 'p:fork-2': 4, 'p:fork-3': 1 });
  await scene.shard.close();
});

test('V1: a found message shows its current text, even if later rows were not read yet', async () => {
  const scene = new Scene();
  await many(scene, 'p', 3);
  await scene.shard.call('session.fork', { session: 'p' });
  await scene.follower.pass();
  const look = async (session: string, seq: number): Promise<string | undefined> => {
    const place = scene.follower.placeOf(session);
    if (place === undefined) throw new Error(`${session} is not followed`);
    return (await new SessionSince(scene.ask, place).asItStands(seq, { kind: 'human', text: 'as read' }))?.text;
  };
  const asked: SearchMethod[] = [];
  scene.asked = (method) => void asked.push(method);
  await scene.say('p', 'more');
  await scene.edit('p', { operation: 'append', message: { role: 'user', content: 'put' }, silent: true });
  expect(await look('p', 1)).toBe('as read');
  expect(asked).toEqual(['search.session', 'search.chain', 'search.rows']);
  await scene.edit('p', { operation: 'update', id: await firstId(scene, 'p'), attributes: { content: 'changed' } });
  expect(await look('p', 1)).toBe('changed');
  expect(await look('p', 2)).not.toBe('as read');
  await scene.edit('p', { operation: 'remove', id: await firstId(scene, 'p') });
  expect(await look('p', 1)).toBeUndefined();
  expect(await look('p:fork-1', 1)).toBe('as read');
  const place = scene.follower.placeOf('p');
  await scene.shard.call('sessions.delete', { session: 'p' });
  if (place === undefined) throw new Error('p is not followed');
  expect(await new SessionSince(scene.ask, place).asItStands(2, { kind: 'human', text: 'as read' })).toBeUndefined();
  await scene.shard.close();
});
