/**
 * Media of messages: an image that is sent again takes no more space, comes back as it was sent, and leaves with its
 * session. A store that lost a medium says so.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agent, type ContentBlock, content, type ResultBlock, type Runtime, tool } from '../../../src/index.ts';
import { openSalvage } from '../../../src/journal/check/salvage-store.ts';
import { PageFile } from '../../../src/journal/lmdb/pages.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { failure, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const MIB = 1024 * 1024;
const provider = scripted(() => 'ok');

/** Bytes of the pages that hold something, without the room kept behind them. */
function usedBytes(directory: string): number {
  const file = new PageFile(join(directory, 'shard-0', 'data.mdb'));
  const { lastPage, pageBytes } = file.meta();
  file.close();
  return (lastPage + 1) * pageBytes;
}

async function mediaOf(directory: string): Promise<number> {
  const store = await openSalvage(directory);
  const media = store.shards.reduce((sum, { contents }) => sum + contents.index.media.size, 0);
  expect(store.shards.flatMap(({ findings }) => findings)).toEqual([]);
  store.close();
  return media;
}

async function sendPhotos(runtime: Runtime, session: string, count: number, photo: string): Promise<void> {
  for (let index = 0; index < count; index += 1)
    await runtime.session(session).ask([{ type: 'text', text: `photo ${index}` }, imageBlock(photo)]);
}

test('twelve messages with the same image of a megabyte take about a megabyte, and come back as they were', async () => {
  const directory = join(await kit.directory(), 'store');
  const photo = png(MIB);
  // All twelve stay in the window.
  const options = { directory, provider, settings: { llm: { tokenBudget: 10_000_000 } } };
  const runtime = await kit.open(options);
  await sendPhotos(runtime, 'album', 12, photo);
  const request = await runtime.session('album').request();
  expect(JSON.stringify(request.messages).split(photo)).toHaveLength(13);
  await runtime.close();
  expect(usedBytes(directory)).toBeGreaterThan(MIB);
  expect(usedBytes(directory)).toBeLessThan(1.5 * MIB);
  expect(await mediaOf(directory)).toBe(1);
  const again = await kit.open(options);
  expect(await again.session('album').request()).toEqual(request);
});

test('a fork has its own copy, and keeps it when the session it was made of is deleted', async () => {
  const directory = join(await kit.directory(), 'store');
  const photo = png(100_000);
  const runtime = await kit.open({ directory, provider });
  await sendPhotos(runtime, 'album', 2, photo);
  const fork = await runtime.session('album').fork();
  await fork.ask([imageBlock(photo), { type: 'text', text: 'again' }]);
  const before = await fork.messages();
  await runtime.session('album').delete();
  expect(await fork.messages()).toEqual(before);
  await runtime.close();
  expect(await mediaOf(directory)).toBe(1);
  const again = await kit.open({ directory, provider });
  expect(await again.session(fork.id).messages()).toEqual(before);
  await again.session(fork.id).delete();
  await again.close();
  expect(await mediaOf(directory)).toBe(0);
});

test('F08: a damaged medium is reported like a damaged row, and the other sessions are read', async () => {
  const directory = join(await kit.directory(), 'store');
  const photo = png(100_000);
  const runtime = await kit.open({ directory, provider });
  await sendPhotos(runtime, 'bad', 1, photo);
  await sendPhotos(runtime, 'good', 1, png(100_000, { seed: 'good' }));
  await runtime.close();
  const path = join(directory, 'shard-0', 'data.mdb');
  const bytes = await readFile(path);
  const at = bytes.indexOf(Buffer.from(photo, 'base64').subarray(50_000, 50_040));
  expect(at).toBeGreaterThan(0);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  await writeFile(path, bytes);
  const store = await openSalvage(directory);
  expect(store.shards.flatMap(({ findings }) => findings)).toEqual([
    { path, reason: expect.stringMatching(/^the medium \d+\/[0-9a-f]{64} is damaged$/) },
  ]);
  store.close();
  const again = await kit.open({ directory, provider });
  expect(await failure(again.session('bad').messages())).toMatchObject({
    code: 'store_corrupt',
    data: { reason: expect.stringContaining('is damaged') },
  });
  expect(await again.session('good').messages()).toHaveLength(2);
});

test('R61: an image that the window cannot take is refused where it enters, and the session continues', async () => {
  const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: 'claude-haiku-4-5' })] });
  const session = runtime.session('s');
  const icon = imageBlock(png(100));
  await session.ask([...Array<ContentBlock>(99).fill(icon), { type: 'text', text: 'many' }]);
  expect(await failure(session.send([icon, icon]))).toMatchObject({
    code: 'limit',
    data: { limit: 'images', value: 101 },
    message: expect.stringContaining('its model takes 100 in a request; remove images with session.history'),
  });
  expect(await session.ask([icon])).toBe('ok');
  expect(await failure(session.send([icon]))).toMatchObject({ code: 'limit' });
  expect(await session.ask('and now?')).toBe('ok');
});

test('R61: a large image is refused beside many others, also those that wait', async () => {
  const runtime = await kit.open({ provider });
  const session = runtime.session('s');
  const large = imageBlock(png(100, { width: 2_001 }));
  expect(await session.ask([large])).toBe('ok');
  await session.pause();
  await session.send(Array<ContentBlock>(19).fill(imageBlock(png(100))));
  expect(await failure(session.send([imageBlock(png(100))]))).toMatchObject({
    code: 'limit',
    data: { limit: 'imageSide', value: 2_001 },
    message: expect.stringContaining('scale images down before they are sent'),
  });
  await session.resume();
  expect(await session.ask('go')).toBe('ok');
});

test('R61: an edit whose images the window cannot take is refused, unless as many leave', async () => {
  const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: 'claude-haiku-4-5' })] });
  const session = runtime.session('s');
  const icons = (count: number): ContentBlock[] => Array<ContentBlock>(count).fill(imageBlock(png(100)));
  await session.ask([...icons(60), { type: 'text', text: 'many' }]);
  const added = { role: 'user', content: icons(50) } as const;
  const refusal = { code: 'limit', data: { limit: 'images', value: 110 } };
  expect(await failure(session.history.append(added))).toMatchObject(refusal);
  expect(await failure(session.history.append({ ...added, transient: true }))).toMatchObject(refusal);
  await session.history.seed([added]);
  expect(await failure(session.history.append({ ...added, content: icons(51) }))).toMatchObject({
    data: { limit: 'images', value: 101 },
  });
  await session.history.append(added);
  expect(await session.ask('and now?')).toBe('ok');
});

test('R61: a result whose images the window cannot take fails its call with the reason', async () => {
  const camera = tool({
    name: 'camera',
    description: 'Takes photos.',
    input: { type: 'object' },
    run: () => content(Array.from({ length: 2 }, () => imageBlock(png(100)) as ResultBlock)),
  });
  const answers = scripted(['ok', { toolUse: { name: 'camera', input: {} } }, 'seen']);
  const agents = [agent({ name: 'a', model: 'claude-haiku-4-5', tools: [camera] })];
  const runtime = await kit.open({ provider: answers, agents });
  const session = runtime.session('s');
  await session.ask(Array<ContentBlock>(99).fill(imageBlock(png(100))));
  expect(await session.ask('look')).toBe('seen');
  const result = (await session.messages()).find(({ type }) => type === 'tool_response');
  expect(result).toMatchObject({ success: false, content: expect.stringContaining('would show 101 images') });
});
