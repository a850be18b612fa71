/**
 * A store for the search: sessions of questions and answers in words that are as frequent as in a language (Zipf),
 * written through the journal port. The records, rows and heads are the same as a runtime writes; no model is called.
 */
import { mkdir } from 'node:fs/promises';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { openManifest } from '../../src/journal/store/birth.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { encodeHead } from '../../src/runtime/reading/head.ts';
import { encodeTransition, type SessionRecord } from '../../src/session/state/records.ts';
import { randomNumbers } from '../random.ts';
import { numbers } from '../report/figures.ts';

/** The store to build. Two messages a round. */
export interface SearchStorePlan {
  readonly messages: number;
  readonly messagesEach: number;
  readonly seed: number;
  /** Sessions with a given length, each written separately. */
  readonly long?: readonly { readonly name: string; readonly messages: number }[];
}

/** Number of words in the vocabulary. */
export const VOCABULARY_WORDS = 200_000;
const WORDS_MIN = 4;
const WORDS_MEAN = 40;
const DAY_MS = 24 * 3_600_000;
/** Sessions written side by side. */
const GROUP = 200;
const SYLLABLES = 'ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu'.split(' ');
const ENDINGS = ['', 's', 'ed', 'ing'];

/** A word of the vocabulary by its rank, the most frequent first. */
export function wordAt(rank: number): string {
  let word = '';
  for (let rest = rank + SYLLABLES.length; rest > 0; rest = Math.floor(rest / SYLLABLES.length)) {
    word += SYLLABLES[rest % SYLLABLES.length] ?? '';
  }
  return word;
}

/** Draws ranks with the frequencies of words: the n-th word has a share of 1/n. */
export function zipfRanks(seed: number): () => number {
  const next = randomNumbers(seed);
  const steps = 2 ** 31;
  // The inverse of the harmonic sum, which grows as the logarithm.
  return () =>
    Math.min(VOCABULARY_WORDS, Math.floor(Math.exp((next(steps) / steps) * Math.log(VOCABULARY_WORDS + 1)))) - 1;
}

/** Makes the directory and builds the store in it. */
export async function buildSearchStore(directory: string, plan: SearchStorePlan): Promise<void> {
  await mkdir(directory, { recursive: true });
  await openManifest(directory, 1);
  const journal = await openLmdbJournal({ directory: shardDirectory(directory, 0), durability: 'os' });
  const rank = zipfRanks(plan.seed);
  const chance = randomNumbers(plan.seed + 1);
  const text = (): string => {
    // Few long texts, many short ones.
    const words = WORDS_MIN + Math.floor(-Math.log((chance(10_000) + 1) / 10_001) * (WORDS_MEAN - WORDS_MIN));
    return numbers(words)
      .map(() => wordAt(rank()) + (ENDINGS[chance(ENDINGS.length)] ?? ''))
      .join(' ');
  };
  const sessions = Math.ceil(plan.messages / plan.messagesEach);
  const begin = Date.now() - 365 * DAY_MS;
  try {
    const groups = [
      ...numbers(Math.ceil(sessions / GROUP)).map((group) => ({
        first: group * GROUP,
        messages: plan.messagesEach,
        names: numbers(Math.min(GROUP, sessions - group * GROUP)).map((index) => `talk${group * GROUP + index}`),
      })),
      ...(plan.long ?? []).map(({ name, messages }) => ({ first: 0, messages, names: [name] })),
    ];
    for (const { first, messages, names } of groups) {
      const keys = names.map((name) => journal.intern(name));
      const positions = new Map<number, number>();
      const at = begin + Math.floor((365 * DAY_MS * first) / Math.max(1, sessions));
      for (let round = 0; round < messages / 2; round += 1) {
        for (const key of keys) {
          journal.append([{ key, data: encodeTransition({ at: at + round, records: question(round, text()) }) }]);
          positions.set(
            key,
            journal.append([{ key, data: encodeTransition({ at: at + round, records: answer(round, text()) }) }]),
          );
        }
        await journal.flushed();
      }
      const heads = keys.map((key, index) => ({
        key,
        position: positions.get(key) ?? 0,
        data: encodeHead({
          summary: { id: names[index] ?? '', agent: 'main', state: 'idle', status: 'idle', mailbox: 0, updatedAt: at },
        }),
        runnable: false,
      }));
      journal.checkpoint(heads, Math.max(...positions.values()));
      await journal.flushed();
    }
  } finally {
    await journal.close();
  }
}

function question(round: number, content: string): readonly SessionRecord[] {
  const created: readonly SessionRecord[] = round === 0 ? [{ type: 'created', agent: 'main', depth: 0 }] : [];
  const id = round + 1;
  return [
    ...created,
    { type: 'accepted', id, entry: { type: 'user_message', content } },
    { type: 'claimed', halfStep: id, entries: [id], turn: id },
  ];
}

function answer(round: number, text: string): readonly SessionRecord[] {
  return [
    {
      type: 'responded',
      halfStep: round + 1,
      content: [{ type: 'text', text }],
      calls: [],
      stop: 'end_turn',
      usage: { input_tokens: 100, output_tokens: 50 },
      // biome-ignore lint/suspicious/noThenProperty: a record of the log, never awaited.
      then: 'end',
    },
  ];
}
