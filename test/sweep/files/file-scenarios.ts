/** Work on the files of a store: compaction, another number of session threads, backup, restore, hand-over. */
import { deepStrictEqual, ok } from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { compact, open, type Runtime, restore } from '../../../src/index.ts';
import { changeLayout } from '../../../src/journal/layout/change-layout.ts';
import { readManifest, shardDirectory } from '../../../src/journal/store/manifest.ts';
import { MOVED_SESSIONS } from '../../../src/runtime/reading/moved-sessions.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually } from '../../support/eventually.ts';
import { countInFiles, isAudited, storedTexts } from '../../support/stored-texts.ts';
import type { FileScenario } from './file-sweep.ts';

const CANARY = 'canary-7be1';
const KEPT = ['a', 'b', 'c'];
const LATER = 'later';
const OPTIONS = {
  provider: scripted({ rules: [], otherwise: 'to {{text}}' }),
  logger: false,
  threads: { sessions: 0, models: 0, tools: 1 },
} as const;

/** The messages of each session: two messages, and `more` at the end of the first one. */
function expected(more: readonly string[] = []): Readonly<Record<string, readonly unknown[]>> {
  return Object.fromEntries(
    KEPT.map((id, index) => [id, [id, ...(index === 0 ? more : [])].flatMap((text) => [text, `to ${text}`])]),
  );
}

async function contents(runtime: Runtime): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const found: Record<string, readonly unknown[]> = {};
  for (const { id } of await runtime.sessions.list({ order: 'id' })) {
    found[id] = (await runtime.session(id).messages()).map(({ content }) => content);
  }
  return found;
}

/** Opens a store, and closes it after the work. */
async function using<Value>(directory: string, work: (runtime: Runtime) => Promise<Value>): Promise<Value> {
  const runtime = await open(directory, OPTIONS);
  try {
    return await work(runtime);
  } finally {
    await runtime.close({ deadlineMs: 0 });
  }
}

function storeOf(base: string): string {
  return join(base, 'store');
}

/** Gives a store of one shard another number of shards, as an open does. */
async function layOut(directory: string, to: number): Promise<void> {
  await changeLayout({ directory, from: 1, to, reading: MOVED_SESSIONS, moveCursor: (text) => text });
}

/** A store with a few sessions, and free pages that have bytes of a deleted one. */
async function prepareStore(base: string, shards: number): Promise<void> {
  // An open without session threads makes a store of one shard.
  await using(storeOf(base), async () => undefined);
  if (shards > 1) await layOut(storeOf(base), shards);
  await using(storeOf(base), async (runtime) => {
    await runtime.session(CANARY).ask(CANARY);
    for (const id of KEPT) await runtime.session(id).ask(id);
    await runtime.sessions.delete(CANARY);
    await eventually(() => runtime.metrics().sessionsErasing === 0);
  });
}

/** A store and a backup of it. */
async function prepareBackup(base: string): Promise<void> {
  await prepareStore(base, 2);
  await using(storeOf(base), (runtime) => runtime.backup(join(base, 'backup')));
}

/** The whole store has nothing of the deleted session, not even in free bytes. */
async function checkClean(base: string, shards: number): Promise<void> {
  for (let shard = 0; shard < shards; shard += 1) {
    const directory = shardDirectory(storeOf(base), shard);
    ok(!(await readdir(directory)).includes('compacting'), 'an unfinished copy is left');
  }
  const counts = await countInFiles(storeOf(base), new RegExp(CANARY, 'g'));
  deepStrictEqual(counts.get(CANARY), 0, 'the canary is in the audit log, and nowhere else in a data file');
  const texts = (await storedTexts(storeOf(base))).filter((each) => !isAudited(each));
  const left = texts.filter(({ text }) => text.includes(CANARY));
  deepStrictEqual(left, []);
}

/** Restores the backup beside the store, and checks that it is the store as of a commit. */
async function checkBackup(base: string, isDone: boolean): Promise<void> {
  const restored = join(base, 'restored');
  await rm(restored, { recursive: true, force: true });
  await restore(join(base, 'backup'), restored);
  const found = await using(restored, contents);
  await rm(restored, { recursive: true });
  const hasLater = (found['a'] ?? []).includes(LATER);
  deepStrictEqual(found, expected(hasLater ? [LATER] : []));
  if (isDone) ok(hasLater, 'the backup lacks an acknowledged message');
}

/** All scenarios; their names differ. */
export const FILE_SCENARIOS: readonly FileScenario[] = [
  {
    name: 'files: compaction',
    prepare: (base) => prepareStore(base, 2),
    run: async (base) => void (await compact(storeOf(base))),
    check: async (base, isDone) => {
      deepStrictEqual(await using(storeOf(base), contents), expected());
      if (isDone) await checkClean(base, 2);
    },
  },
  {
    name: 'files: another number of session threads',
    prepare: (base) => prepareStore(base, 1),
    run: async (base) => {
      const directory = storeOf(base);
      // An interrupted change is finished by an open.
      await using(directory, async () => undefined);
      if ((await readManifest(directory))?.shards === 3) return;
      await layOut(directory, 3);
    },
    check: async (base, isDone) => {
      deepStrictEqual(await using(storeOf(base), contents), expected());
      const { shards } = (await readManifest(storeOf(base))) ?? {};
      ok(shards === 3 || (shards === 1 && !isDone), `the store has ${shards} shards`);
      ok(!existsSync(join(storeOf(base), 'layout')), 'an unfinished change is left');
    },
  },
  {
    name: 'files: a repeated backup',
    prepare: prepareBackup,
    run: (base) =>
      using(storeOf(base), async (runtime) => {
        await runtime.session('a').ask(LATER, { key: LATER });
        await runtime.backup(join(base, 'backup'));
      }),
    check: checkBackup,
  },
  {
    name: 'files: restore',
    prepare: prepareBackup,
    run: async (base) => {
      const target = join(base, 'target');
      if (!existsSync(target)) await restore(join(base, 'backup'), target);
    },
    check: async (base, isDone) => {
      const target = join(base, 'target');
      if (isDone) ok(existsSync(target), 'nothing was restored');
      if (existsSync(target)) deepStrictEqual(await using(target, contents), expected());
    },
  },
  {
    name: 'files: hand-over',
    prepare: (base) => prepareStore(base, 1),
    run: async (base) => {
      const owner = await open(storeOf(base), OPTIONS);
      try {
        await owner.session('a').ask(LATER, { key: LATER });
        const next = await open(storeOf(base), { ...OPTIONS, takeover: true });
        try {
          deepStrictEqual(await contents(next), expected([LATER]));
        } finally {
          await next.close({ deadlineMs: 0 });
        }
      } finally {
        await owner.close({ deadlineMs: 0 });
      }
    },
    check: async (base, isDone) => {
      const found = await using(storeOf(base), async (runtime) => {
        await runtime.drain();
        return contents(runtime);
      });
      const hasLater = (found['a'] ?? []).includes(LATER);
      deepStrictEqual(found, expected(hasLater ? [LATER] : []));
      if (isDone) ok(hasLater, 'an acknowledged message is lost');
    },
  },
];
