/**
 * Goal: a mistake in a provider of one's own is found at once, and what it throws can be traced. Method: providers that
 * answer or throw one thing, as values and in modules on the model threads.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { agent, ModelError, type ModelProvider, open, type Runtime } from '../../../src/index.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const usage = { input_tokens: 1, output_tokens: 1 };
const content = [{ type: 'text', text: 'Hi' }];
const well = { content, stop_reason: 'end_turn', usage };

async function moduleOf(source: string): Promise<URL> {
  const path = join(await kit.directory(), 'provider.mjs');
  await writeFile(path, source);
  return pathToFileURL(path);
}

const MALFORMED: readonly (readonly [object, string])[] = [
  [{ ...well, usage: undefined }, "the provider's usage is undefined"],
  [{ ...well, usage: { tokensIn: 1 } }, "the provider's usage.input_tokens is undefined"],
  [{ ...well, usage: { input_tokens: '1', output_tokens: 1 } }, 'usage.input_tokens is string "1"'],
  [{ ...well, usage: { input_tokens: 1, output_tokens: -1 } }, 'usage.output_tokens is number -1'],
  [{ ...well, usage: { ...usage, cache_read_input_tokens: 0.5 } }, 'usage.cache_read_input_tokens is number 0.5'],
  [
    { ...well, content: [{ type: 'audio' }] },
    'content.0.type of the answer is string "audio", not one of text, tool_use',
  ],
  [{ ...well, content: [{ text: 'Hi' }] }, 'its type is undefined'],
  [{ ...well, stop_reason: 'stop' }, 'the provider\'s stop_reason is string "stop", not one of end_turn, max_tokens'],
  [{ content, usage }, "the provider's stop_reason is undefined"],
];

describe('an answer of another form', () => {
  const directory = mkdtempSync(join(tmpdir(), 'troupe-test-'));
  let byModule: Runtime;
  beforeAll(async () => {
    // The message is the number of the answer. All answers come from one module on one model thread.
    const path = join(directory, 'provider.mjs');
    const answers = JSON.stringify(MALFORMED.map(([answer]) => answer));
    const generate = 'async ({ messages }) => answers[Number(messages.at(-1).content)]';
    await writeFile(path, `const answers = ${answers};\nexport default { name: 'own', generate: ${generate} };`);
    byModule = await open(':memory:', {
      provider: pathToFileURL(path),
      threads: { sessions: 0, models: 1, tools: 1 },
      agents: [agent({ name: 'a' })],
      logger: false,
    });
  });
  afterAll(async () => {
    await byModule.close({ deadlineMs: 0 });
    rmSync(directory, { recursive: true, force: true });
  });

  test.each(MALFORMED)('%j fails at once', async (answer, problem) => {
    const value = { name: 'own', generate: async () => answer } as unknown as ModelProvider;
    const byValue = await kit.open({ provider: value, agents: [agent({ name: 'a' })] });
    const number = MALFORMED.findIndex(([each]) => each === answer);
    for (const session of [byValue.session('s', 'a'), byModule.session(`s${number}`, 'a')]) {
      await expect(session.ask(String(number))).rejects.toMatchObject({
        cause: { code: 'model_protocol', retryable: false, message: expect.stringContaining(problem) },
      });
    }
  });
});

test('a fault of a provider is logged with its stack, and its error names the provider', async () => {
  const generate = 'async generate() { null.foo(); }';
  const value = { name: 'own', generate: async () => (null as unknown as { foo(): never }).foo() } as ModelProvider;
  const module = await moduleOf(`export default { name: 'own', ${generate} };`);
  for (const options of [{ provider: value }, { provider: module, threads: { sessions: 1, models: 1 } }]) {
    const lines: object[] = [];
    const write = (fields: object): void => void lines.push(fields);
    const logger = { debug: write, info: write, warn: write, error: write };
    const session = (await kit.open({ ...options, logger, agents: [agent({ name: 'a' })] })).session('s', 'a');
    const message = expect.stringContaining('the provider "own" threw TypeError: Cannot read');
    await expect(session.ask('Hi')).rejects.toMatchObject({
      cause: { code: 'internal', message, cause: { message: expect.stringContaining('Cannot read') } },
    });
    expect(lines).toContainEqual(
      expect.objectContaining({ stack: expect.stringMatching(/TypeError: .*\n +at .*generate/) }),
    );
  }
});

test('the causes of an error keep code and message, in the log line and as error.cause', async () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  const generate = async (): Promise<never> => {
    throw new ModelError('model_connection', 'lost', { cause: new Error('fetch failed', { cause: refused }) });
  };
  const lines: object[] = [];
  const write = (fields: object): void => void lines.push(fields);
  const logger = { debug: write, info: write, warn: write, error: write };
  const provider: ModelProvider = { name: 'own', generate };
  const session = (await kit.open({ provider, logger, agents: [agent({ name: 'a' })] })).session('s', 'a');
  await expect(session.ask('Hi')).rejects.toMatchObject({
    cause: { code: 'model_connection', cause: { message: 'fetch failed', cause: { code: 'ECONNREFUSED' } } },
  });
  expect(JSON.stringify(lines)).toContain('"code":"ECONNREFUSED","message":"connect ECONNREFUSED"');
});

test('a provider in a module refuses an option with the first call', async () => {
  const provider = await moduleOf(`export default { name: 'own',
    refuses: ({ output_config }) => output_config?.effort && { key: 'effort', value: output_config.effort, remedy: 'leave it out' },
    generate: async () => (${JSON.stringify(well)}) };`);
  const session = (
    await kit.open({ provider, threads: { models: 1 }, agents: [agent({ name: 'a', effort: 'high' })] })
  ).session('s', 'a');
  await expect(session.ask('Hi')).rejects.toMatchObject({
    cause: { code: 'model_invalid_request', message: 'the provider refuses effort string "high"; leave it out' },
  });
});

test.each([
  ['() => ({})', 'call it in the module'],
  ['Promise.resolve({})', 'await it in the module'],
])('a default export %s names the remedy', async (value, remedy) => {
  const provider = await moduleOf(`export default ${value};`);
  await expect(open(':memory:', { provider, agents: [agent({ name: 'a' })], logger: false })).rejects.toThrow(remedy);
});
