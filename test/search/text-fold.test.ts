/** Goal: F1: the light fold of a log gives the same texts and numbers as the session itself. */
import { expect, test } from 'vitest';
import { agent } from '../../src/index.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { foldLog } from '../../src/runtime/reading/session-reader.ts';
import { searchableText } from '../../src/search/searchable.ts';
import { foldTexts, newTextFold, textFoldSchema } from '../../src/search/text-fold.ts';
import { decodeTransition } from '../../src/session/state/records.ts';
import { emptyState } from '../../src/session/state/state.ts';
import { scripted } from '../../src/testing/index.ts';
import { think } from '../../src/tools/built-in/index.ts';
import { runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

/**
 * The model obeys its last message: it thinks (`think`), spawns, fails, gives a text and two calls (`both`), or
 * answers.
 */
const provider = scripted(({ messages }) => {
  const content = messages.at(-1)?.content;
  const blocks = Array.isArray(content) ? content : [];
  if (blocks.some((block) => block.type === 'tool_result')) return 'told';
  const said =
    typeof content === 'string'
      ? (content.split('\n').at(-1) ?? '')
      : (blocks.flatMap((b) => (b.type === 'text' ? b.text : [])).at(-1) ?? '');
  if (said.includes('think')) return { toolUse: { name: 'think', input: { thoughts: `about ${said}` } } };
  if (said.includes('spawn')) return { toolUse: { name: 'spawn_subagent', input: { task: 'count', name: 'scout' } } };
  if (said.includes('fail')) return { error: { status: 400, message: 'no' } };
  return `answer to ${said}`;
});

test('F1: messages of many kinds are followed, waiting messages and those of children included', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({
    directory,
    provider,
    agents: [agent({ name: 'main', tools: [think], subagents: { spawn: true } })],
  });
  const a = runtime.session('a');
  await a.ask('hello');
  await a.ask('think hard');
  await a.ask('spawn one');
  await runtime.drain();
  await expect(a.ask('fail')).rejects.toThrow();
  // The request of this session was refused, and would be refused again.
  await a.resume();
  await a.ask('after that');
  const many = ['x', 'y', 'z'].map((text) => a.send(text, { deliver: 'merge' }));
  for (const receipt of many) await receipt;
  await runtime.drain();
  await runtime.session('b').ask('think of b');
  await runtime.close();

  const journal = await openLmdbJournal({ directory: shardDirectory(directory, 0), durability: 'os' });
  try {
    const names = journal.names({});
    expect(names.length).toBeGreaterThanOrEqual(3);
    for (const [name, key] of names) {
      let fold = newTextFold();
      const found: unknown[] = [];
      for (const { data } of journal.read(key, 0)) {
        const texts = foldTexts(fold, decodeTransition(data));
        expect(texts).toBeDefined();
        found.push(...(texts ?? []));
        // The fold can be saved and loaded at any moment, and then continues unchanged.
        fold = textFoldSchema.parse(JSON.parse(JSON.stringify(fold)));
      }
      const state = emptyState(name);
      state.keepsAll = true;
      foldLog(journal, key, state, 0);
      expect(found).toEqual(state.messages.flatMap((message) => searchableText(message) ?? []));
      expect(fold.nextSeq).toBe(state.nextMessageSeq);
      expect(Object.keys(fold.mailbox)).toHaveLength(state.mailbox.length);
    }
  } finally {
    await journal.close();
  }
});

test('a record that changes written messages is not followed', () => {
  const turn = (record: Parameters<typeof foldTexts>[1]['records'][number]) => ({ at: 1, records: [record] });
  expect(foldTexts(newTextFold(), turn({ type: 'edited', operation: 'remove', removed: [1] }))).toBeUndefined();
  expect(foldTexts(newTextFold(), turn({ type: 'restarted', reason: 'x' }))).toBeUndefined();
  expect(foldTexts(newTextFold(), turn({ type: 'noted', content: 'x' }))).toHaveLength(1);
});
