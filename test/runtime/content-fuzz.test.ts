/**
 * Content of every kind, valid and invalid, through every method that takes content. Accepted content leaves a session
 * that completes a plain turn, and the model refuses no request. Refused content gives a typed error. Method: seeded
 * random choices, strict fake over the wire. The number of messages is `TROUPE_FUZZ_MESSAGES` (1,000 without it), the
 * seed `TROUPE_FUZZ_SEED`.
 */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { chatInput } from '../../src/adapters/ai-sdk.ts';
import { agent, anthropic, type ErrorCode, type Session, TroupeError, tool } from '../../src/index.ts';
import { handler } from '../../src/server/index.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { strictFake } from '../../src/testing/strict-fake.ts';
import { runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const MESSAGES = Number(process.env['TROUPE_FUZZ_MESSAGES'] ?? 1_000);
/** Messages of one session: enough for marks, thoughts and calls to accumulate. */
const SESSION_MESSAGES = 20;
const SEED = Number(process.env['TROUPE_FUZZ_SEED'] ?? 11);

const IMAGE = { type: 'base64', media_type: 'image/png', data: 'AAAA' };
const MARKS: readonly unknown[] = [
  { type: 'ephemeral' },
  { type: 'ephemeral', ttl: '1h' },
  { type: 'ephemeral', ttl: '5m' },
  { type: 'ephemeral', ttl: '2h' },
  { type: 'forever' },
  'yes',
  null,
];
const SOURCES: readonly unknown[] = [
  IMAGE,
  { ...IMAGE, media_type: 'image/tiff' },
  { ...IMAGE, data: 'no base64!' },
  { ...IMAGE, data: '' },
  { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
  { type: 'text', media_type: 'text/plain', data: 'words' },
  { type: 'text', media_type: 'text/html', data: '<p>' },
  { type: 'content', content: [{ type: 'text', text: 'part' }] },
  { type: 'content', content: [] },
  { type: 'url', url: 'https://example.com/a.png' },
  { type: 'url', url: 'file:///etc/passwd' },
  { type: 'url', url: 'no address' },
  { type: 'file', file_id: 'file_1' },
  { type: 'file' },
  { type: 'tape' },
  'source',
  undefined,
];
/** The model calls its tool when a message says this. */
const USE_TOOL = 'Use the tool.';
const TEXTS: readonly unknown[] = ['words', 'x'.repeat(20_000), '', ' \n', '\ud800 half', 7, null, undefined];

class Fuzz {
  readonly random = new SeededRandom(SEED);
  #count = 0;

  #next(): number {
    this.#count += 1;
    return this.#count;
  }

  block(depth = 0): unknown {
    const { random } = this;
    const marked = random.chance(0.3) ? { cache_control: random.pick(MARKS) } : {};
    const extra = random.chance(0.04) ? { surprise: 1 } : {};
    const id = random.pick([`c${this.#next()}`, 'c1', 'not legal', '', undefined]);
    const nested = (): unknown =>
      depth > 2 ? 'deep' : Array.from({ length: random.between(0, 2) }, () => this.block(depth + 1));
    switch (
      random.pick(['text', 'text', 'text', 'image', 'document', 'upload', 'thinking', 'use', 'result', 'server', 'odd'])
    ) {
      case 'text':
        return {
          type: 'text',
          text: random.pick(TEXTS),
          ...marked,
          ...extra,
          ...(random.chance(0.05) ? { citations: [] } : {}),
        };
      case 'image':
        return { type: 'image', source: random.pick(SOURCES), ...marked, ...extra };
      case 'document':
        return {
          type: 'document',
          source: random.pick(SOURCES),
          ...marked,
          ...(random.chance(0.1) ? { title: 7 } : {}),
        };
      case 'upload':
        return { type: 'container_upload', file_id: random.pick(['file_1', '', 7]), ...marked };
      case 'thinking':
        return random.pick<unknown>([
          { type: 'thinking', thinking: 'hm', signature: 'made up', ...marked },
          { type: 'thinking', thinking: 'hm' },
          { type: 'redacted_thinking', data: 'secret' },
        ]);
      case 'use':
        return {
          type: 'tool_use',
          id,
          name: random.pick(['look', 'bad name', '']),
          input: random.pick<unknown>([{}, 'text']),
          ...marked,
        };
      case 'result':
        return {
          type: 'tool_result',
          tool_use_id: id,
          content: random.pick([nested(), 'done', '', undefined]),
          ...marked,
        };
      case 'server':
        return random.pick<unknown>([
          { type: 'server_tool_use', id: 'srv', name: 'web_search', input: {} },
          { type: 'web_search_tool_result', tool_use_id: 'srv', content: [] },
        ]);
      default:
        return random.pick<unknown>([
          null,
          7,
          'text',
          [],
          {},
          { type: 'fallback' },
          { type: '__proto__' },
          { type: 'text' },
        ]);
    }
  }

  content(): unknown {
    const { random } = this;
    if (random.chance(0.15)) return random.pick(TEXTS);
    return Array.from({ length: random.pick([0, 1, 1, 2, 3, 5]) }, () => this.block());
  }

  message(): object {
    const { random } = this;
    const callId = random.pick([`c${this.#next()}`, 'c1', 'x y']);
    const calls = [
      { callId, name: random.pick(['look', 'no name']), arguments: random.pick<unknown>(['{}', '[', { a: 1 }, 7]) },
    ];
    const blocks = Array.from({ length: random.between(1, 4) }, () => this.block());
    const reasoning = [
      { type: random.pick(['text', 'secret']), format: 'anthropic', text: 'hm', signature: 'made up' },
    ];
    switch (random.pick(['user', 'user', 'assistant', 'blocks', 'tool', 'system', 'odd'])) {
      case 'user':
        return { role: 'user', content: this.content() };
      case 'assistant':
        return {
          role: 'assistant',
          content: random.pick(TEXTS),
          ...(random.chance(0.5) ? { toolCalls: calls } : {}),
          ...(random.chance(0.3) ? { reasoning } : {}),
        };
      case 'blocks':
        return { role: 'assistant', content: 'said', blocks };
      case 'tool':
        return {
          role: 'tool',
          toolCallId: callId,
          content: this.content(),
          ...(random.chance(0.3) ? { error: 'no' } : {}),
        };
      case 'system':
        return { role: 'system', content: random.pick(TEXTS) };
      default:
        return random.pick<object>([{}, { role: 'robot' }, { role: 'user' }, []]);
    }
  }
}

test(
  'any content through any method is refused, or the session still completes a plain turn',
  async () => {
    const fuzz = new Fuzz();
    const { random } = fuzz;
    const fake = await strictFake({
      script: ({ messages }) => {
        const last = JSON.stringify(messages.at(-1));
        const isAsked = last.includes(USE_TOOL) && !last.includes('tool_result');
        return isAsked ? { thinking: 'hm', toolUse: { name: 'look', input: {} } } : { thinking: 'hm', text: 'fine' };
      },
    });
    const look = tool({
      name: 'look',
      description: 'Gives anything back.',
      input: z.object({}),
      run: () => random.pick([fuzz.content(), { error: fuzz.block() }, fuzz.message()]),
    });
    try {
      const runtime = await kit.open({
        provider: anthropic({ apiKey: 'test', baseURL: fake.url }),
        settings: { session: { timestamps: false } },
        agents: ['claude-opus-5-5', 'claude-opus-4-6', 'claude-fable-5-1'].map((model) =>
          agent({
            name: model,
            model,
            system: 'Answer.',
            thinking: { type: 'adaptive' },
            tokenBudget: 20_000,
            tools: [look],
          }),
        ),
      });
      const api = handler(runtime, { token: 'token' });
      const counts = { taken: 0, refused: 0 };
      const put = async (session: Session): Promise<unknown> => {
        const options = { key: `k${counts.taken + counts.refused}` };
        const last = async (): Promise<string> => (await session.history.messages()).at(-1)?.id ?? 'none';
        switch (
          random.pick([
            'send',
            'send',
            'send',
            'ask',
            'add',
            'append',
            'update',
            'set',
            'seed',
            'import',
            'mutate',
            'transient',
            'tool',
            'http',
            'spawn',
            'chat',
          ])
        ) {
          case 'send':
            return (await session.send(fuzz.content() as string, options)).answer();
          case 'ask':
            return session.ask(fuzz.content() as string, options);
          case 'add':
            return session.history.add(fuzz.message());
          case 'append':
            return session.history.append(fuzz.message());
          case 'tool':
            return session.ask(USE_TOOL);
          case 'http': {
            const response = await api(
              new Request(`http://localhost/sessions/${session.id}/messages`, {
                method: 'POST',
                headers: { authorization: 'Bearer token', 'content-type': 'application/json' },
                body: JSON.stringify({ content: fuzz.content() }),
              }),
            );
            const text = await response.text();
            expect(text.length).toBeLessThan(5_000);
            if (response.ok) return session.ask('And now?');
            const problem = JSON.parse(text) as { readonly code: ErrorCode };
            throw new TroupeError(problem.code, text);
          }
          case 'spawn': {
            const child = await session.spawn({ task: random.pick(TEXTS) as string });
            expect(await child.reply()).toBe('fine');
            return child.delete();
          }
          case 'chat': {
            const parts = [random.pick<unknown>([{ type: 'text', text: random.pick(TEXTS) }, fuzz.block()])];
            const input = chatInput({ id: session.id, messages: [{ id: 'm', role: 'user', parts }] });
            return (await session.send(input.content)).answer();
          }
          case 'transient':
            return session.history.append(fuzz.message(), { transient: true });
          case 'update':
            return session.history.update({ id: await last() }, { content: fuzz.content() });
          case 'set':
            return random.chance(0.2)
              ? session.history.set([fuzz.message(), fuzz.message(), fuzz.message()])
              : undefined;
          case 'seed':
            return random.chance(0.2) ? session.history.seed([fuzz.message(), fuzz.message()]) : undefined;
          case 'import':
            return session.history.import([`${JSON.stringify(fuzz.message())}\n`]);
          default:
            return session.history.mutateLastMatching(
              () => true,
              (message) => ({ ...message, content: fuzz.content() }) as never,
            );
        }
      };
      const models = ['claude-opus-5-5', 'claude-opus-4-6', 'claude-fable-5-1'];
      for (let from = 0; from < MESSAGES; from += SESSION_MESSAGES) {
        const session = runtime.session(`s${from}`, models[(from / SESSION_MESSAGES) % models.length] ?? '');
        for (let count = 0; count < SESSION_MESSAGES; count += 1) {
          try {
            await put(session);
            counts.taken += 1;
          } catch (error) {
            if (!(error instanceof TroupeError) || error.code === 'turn_failed' || error.code === 'internal')
              throw error;
            counts.refused += 1;
          }
        }
        expect(await (await session.send('A plain turn.')).answer(), session.id).toBe('fine');
        expect(
          fake.violations.filter(({ rule }) => rule !== 'R15' && rule !== 'R69'),
          session.id,
        ).toEqual([]);
        await session.delete();
      }
      expect(counts.taken).toBeGreaterThan(MESSAGES / 5);
      expect(counts.refused).toBeGreaterThan(MESSAGES / 5);
    } finally {
      await fake.close();
    }
  },
  Math.max(60_000, MESSAGES * 60),
);
