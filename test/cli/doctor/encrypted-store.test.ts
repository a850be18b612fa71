import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { agent, open } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { emptyDirectory } from '../support/program.ts';
import { command } from '../support/surroundings.ts';

const KEY = '11'.repeat(32);
const OTHER_KEY = '22'.repeat(32);

let place: string;

beforeEach(async () => {
  place = await emptyDirectory();
  await writeFile(join(place, 'key'), `${KEY}\n`);
  await writeFile(join(place, 'other-key'), OTHER_KEY);
  const runtime = await open(join(place, 'store'), {
    agents: [agent({ name: 'writer' })],
    provider: scripted({ rules: [], otherwise: 'the secret answer' }),
    encryption: { key: KEY },
    threads: { sessions: 0, models: 0, tools: 1 },
    logger: false,
  });
  await runtime.session('one').ask([{ type: 'text', text: 'look' }, imageBlock(png(20_000, { seed: 'one' }))]);
  await runtime.session('gone').ask('look');
  await runtime.sessions.delete('gone', { by: 'ada' });
  await runtime.close();
});

test('G44: doctor asks for the key, and checks, measures and saves an encrypted store with it', async () => {
  const { code, stderr } = await command(['doctor', 'check', 'store'], place);
  expect([code, stderr]).toEqual([1, expect.stringContaining('--key-file FILE')]);
  const wrong = await command(['doctor', 'check', 'store', '--key-file', 'other-key'], place);
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('another key')]);
  const whole = await command(['doctor', 'check', 'store', '--key-file', 'key'], place);
  expect([whole.code, whole.stdout]).toEqual([0, 'store: whole; 1 session checked\n']);
  const saved = await command(['doctor', 'salvage', 'store', '--to', 'saved', '--key-file', 'key'], place);
  expect(saved.code).toBe(0);
  const text = await readFile(join(place, 'saved', 'sessions.jsonl'), 'utf8');
  expect(text).toContain('the secret answer');
  expect(text).toContain(png(20_000, { seed: 'one' }).slice(0, 60));
  const audit = await readFile(join(place, 'saved', 'audit.jsonl'), 'utf8');
  expect(JSON.parse(audit)).toMatchObject({ action: 'session.deleted', session: 'gone', by: 'ada' });
});

test('commands read an encrypted store with the key of a file, and refuse it without', async () => {
  const refused = await command(['export', 'one', '--data', 'store'], place);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('no key was given')]);
  const read = await command(['export', 'one', '--data', 'store', '--key-file', 'key'], place);
  expect(read.stdout).toContain('the secret answer');
  const searched = await command(['search', 'secret', '--data', 'store', '--key-file', 'key'], place);
  expect(searched.stdout).toContain('the secret answer');
});

test('a file without keys, and a line that is no key, are refused without showing it', async () => {
  await writeFile(join(place, 'empty'), '\n');
  await writeFile(join(place, 'bad'), `${KEY}\nnot-a-key`);
  for (const [file, text] of [
    ['empty', 'has no key'],
    ['bad', 'line 2 of'],
    ['missing', 'cannot be read'],
  ] as const) {
    const { code, stderr } = await command(['ls', '--data', 'store', '--key-file', file], place);
    expect(code).toBe(2);
    expect(stderr).toContain(text);
    expect(stderr).not.toContain('not-a-key');
  }
});
