/** Blocks that a tool returns: in the next request, in the log, in what a person sees, in tool threads and in place. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agent, content, type OpenOptions, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const PHOTO = png(20_000);
const SCHEMA = { type: 'object', properties: { kind: { type: 'string' } } };
type Block = Parameters<typeof content>[0][number];

const camera = tool({
  name: 'camera',
  description: 'Takes a photo.',
  input: SCHEMA,
  run: ({ kind }) => {
    if (kind === 'list') return [{ type: 'text', text: 'plain' }];
    if (kind === 'huge') return content([imageBlock(png(3_000_000)) as Block]);
    if (kind === 'long') return content([{ type: 'text', text: 'long '.repeat(30_000) }, imageBlock(PHOTO) as Block]);
    const blocks: readonly Block[] = [{ type: 'text', text: 'the photo' }, imageBlock(PHOTO) as Block];
    return kind === 'broken' ? content(blocks, { isError: true }) : content(blocks);
  },
});
const shared = new URL('../fixtures/camera-tool.ts', import.meta.url);

function options(kind: string, tools: readonly unknown[]): OpenOptions {
  const provider = scripted([{ toolUse: { name: 'camera', input: { kind } } }, 'seen']);
  return { provider, agents: [agent({ name: 'eye', tools: tools as never })] };
}

test.each([
  ['in place', [camera]],
  ['on a tool thread', [shared]],
])('%s: blocks reach the model as they are, and a person sees a placeholder', async (_where, tools) => {
  const directory = join(await kit.directory(), 'store');
  const runtime = await kit.open({ ...options('photo', tools), directory });
  const session = runtime.session('s');
  expect(await session.ask('look')).toBe('seen');
  const blocks = [{ type: 'text', text: 'the photo' }, imageBlock(PHOTO)];
  const result = (await session.messages()).find(({ type }) => type === 'tool_response');
  expect(result).toMatchObject({ content: blocks, success: true });
  const request = await session.request();
  expect(JSON.stringify(request.messages)).toContain(JSON.stringify(blocks).slice(1, -1));
  const seen: unknown[] = [];
  for await (const event of session.events({ after: 0, mode: 'verbose' })) {
    if (event.type === 'message.created' && 'rendered' in event) seen.push(event.rendered);
    if (event.type === 'turn.finished') break;
  }
  expect(seen).toContainEqual(expect.objectContaining({ role: 'tool_response', content: 'the photo\n[image]' }));
  await runtime.close();
  const again = await kit.open({ ...options('photo', tools), directory });
  expect(await again.session('s').request()).toEqual(request);
});

test('a failed call keeps its blocks, and the request marks it', async () => {
  const runtime = await kit.open(options('broken', [camera]));
  await runtime.session('s').ask('look');
  const { messages } = await runtime.session('s').request();
  const [result] = messages.flatMap((message) =>
    typeof message.content === 'string' ? [] : message.content.filter(({ type }) => type === 'tool_result'),
  );
  expect(result).toMatchObject({ is_error: true, content: [{ type: 'text', text: 'the photo' }, imageBlock(PHOTO)] });
});

test('a plain list keeps its meaning; a long text beside an image is shortened, the image is not', async () => {
  const list = await kit.open(options('list', [camera]));
  await list.session('s').ask('look');
  const text = (await list.session('s').messages()).find(({ type }) => type === 'tool_response');
  expect(text?.content).toBe(JSON.stringify([{ type: 'text', text: 'plain' }]));
  const long = await kit.open(options('long', [camera]));
  await long.session('s').ask('look');
  const result = (await long.session('s').messages()).find(({ type }) => type === 'tool_response');
  const [first, second] = (result?.content ?? []) as unknown as readonly [{ readonly text: string }, unknown];
  expect(first.text.length).toBeLessThan(20_000);
  expect(second).toEqual(imageBlock(PHOTO));
});

test('blocks beyond limits.messageBytes fail the call with a text that names the limit', async () => {
  const runtime = await kit.open({ ...options('huge', [camera]), limits: { messageBytes: 1_000_000 } });
  await runtime.session('s').ask('look');
  const result = (await runtime.session('s').messages()).find(({ type }) => type === 'tool_response');
  expect(result).toMatchObject({ success: false, content: expect.stringContaining('limits.messageBytes') });
});
