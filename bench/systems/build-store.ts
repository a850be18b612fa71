/**
 * Builds stores with many idle sessions through the journal port, not by turns. A runtime holds one session; its
 * records are then written again under other names. Records, rows and heads are the same; only the names differ.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Journal } from '../../src/journal/journal.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import type { Head, SessionKey } from '../../src/journal/position.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { numbers } from '../report/figures.ts';
import { withDirectory } from './open-system.ts';
import { answerOf, MESSAGES_A_TURN } from './system.ts';
import { openTroupe } from './troupe-system.ts';

/** The store to build. */
export interface StorePlan {
  readonly sessions: number;
  /** Four messages each. */
  readonly turnsEach: number;
}

/** The records of one session. */
interface Template {
  readonly turns: readonly string[];
  readonly head: string;
}

const MODEL_SESSION = 'template';
/** Sessions written side by side. So a session's rows lie apart, as they do when many sessions work at once. */
const GROUP = 1_000;

/** The name of a session of a built store. */
export function builtSession(index: number): string {
  return `built${index}`;
}

/** Builds the store in an empty directory. */
export async function buildStore(directory: string, plan: StorePlan): Promise<void> {
  const template = await readTemplate(plan.turnsEach);
  // A runtime makes the directory; its one session stays in the store, idle like the others.
  await holdSession(directory, 1);
  const journal = await openLmdbJournal({ directory: shardDirectory(directory, 0), durability: 'flush' });
  try {
    for (let first = 0; first < plan.sessions; first += GROUP) {
      await writeGroup(journal, template, { first, count: Math.min(GROUP, plan.sessions - first) });
    }
  } finally {
    await journal.close();
  }
  await writeFile(join(directory, 'built.json'), JSON.stringify(plan));
}

/** Messages of a session of such a store. */
export function builtMessages({ turnsEach }: StorePlan): number {
  return turnsEach * MESSAGES_A_TURN;
}

async function holdSession(directory: string, turns: number): Promise<void> {
  const system = await openTroupe(directory, { isolation: 'inline' });
  try {
    for (let turn = 0; turn < turns; turn += 1) {
      const question = { a: 1, b: turn };
      const answer = await system.turn(MODEL_SESSION, question);
      if (answer !== answerOf(question)) throw new Error(`the template was answered ${JSON.stringify(answer)}`);
    }
  } finally {
    await system.close();
  }
}

function readTemplate(turns: number): Promise<Template> {
  return withDirectory(async (directory) => {
    await holdSession(directory, turns);
    const journal = await openLmdbJournal({ directory: shardDirectory(directory, 0), durability: 'flush' });
    try {
      const key = journal.keyOf(MODEL_SESSION);
      const head = key === undefined ? undefined : journal.head(key);
      if (key === undefined || head === undefined || head.runnable) throw new Error('the template left no idle head');
      return { turns: [...journal.read(key, 0)].map(({ data }) => data), head: head.data };
    } finally {
      await journal.close();
    }
  });
}

async function writeGroup(
  journal: Journal,
  template: Template,
  { first, count }: { readonly first: number; readonly count: number },
): Promise<void> {
  const names = numbers(count).map((index) => builtSession(first + index));
  const keys = names.map((name) => journal.intern(name));
  const positions = new Map<SessionKey, number>();
  for (const data of template.turns) {
    for (const key of keys) positions.set(key, journal.append([{ key, data }]));
    await journal.flushed();
  }
  const heads = keys.map((key, index): Head => {
    const data = template.head.replaceAll(JSON.stringify(MODEL_SESSION), JSON.stringify(names[index]));
    return { key, position: positions.get(key) ?? 0, data, runnable: false };
  });
  journal.checkpoint(heads, Math.max(...positions.values()));
  await journal.flushed();
}
