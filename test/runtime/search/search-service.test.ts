/**
 * Goal: the index follows logs as they are written, edited and deleted, continues from its saved state, and discards
 * data of other logs. A search that does not wait for the index says so, and returns no deleted message.
 */
import { describe, expect, test } from 'vitest';
import { SEARCH_PAGE_ROWS } from '../../../src/base/bounds.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { openMemoryJournal } from '../../../src/journal/memory-journal.ts';
import type { RowPiece } from '../../../src/journal/stored-log.ts';
import { searchAnswers } from '../../../src/runtime/door/search-requests.ts';
import type { AskShard, SearchMethod } from '../../../src/runtime/search/reader.ts';
import { type SearchAnswer, SearchService } from '../../../src/runtime/search/service.ts';
import { MemorySegmentStore, type SegmentStore } from '../../../src/search/segment-store.ts';
import { encodeTransition, type SessionRecord } from '../../../src/session/state/records.ts';

const NOW = Date.UTC(2026, 0, 1);

/** One shard as the index sees it; counts its requests. */
class Shard {
  readonly journal: Journal = openMemoryJournal();
  /** Rows of the log that were handed over. */
  handed = 0;
  /** Runs after a page was read and before it is answered. */
  beforeAnswer: (method: SearchMethod) => void | Promise<void> = () => undefined;
  readonly #next = new Map<string, number>();

  /** Adds a question to a session as a separate message, with seqs 1, 2, … */
  say(session: string, text: string): void {
    const id = this.#next.get(session) ?? 1;
    this.#next.set(session, id + 1);
    const created: readonly SessionRecord[] = id === 1 ? [{ type: 'created', agent: 'main', depth: 0 }] : [];
    this.write(session, [
      ...created,
      { type: 'accepted', id, entry: { type: 'user_message', content: text } },
      { type: 'claimed', halfStep: id, entries: [id], turn: id },
      { type: 'released' },
    ]);
  }

  write(session: string, records: readonly SessionRecord[]): void {
    this.journal.append([{ key: this.journal.intern(session), data: encodeTransition({ at: NOW, records }) }]);
  }

  delete(session: string): void {
    const key = this.journal.keyOf(session);
    if (key !== undefined) this.journal.remove([key]);
    this.#next.delete(session);
  }

  readonly ask: AskShard = async (_shard, method, request) => {
    await this.journal.flushed();
    const answer = searchAnswers(this.journal)[method](request);
    if (method === 'search.log') this.handed += (answer as RowPiece).rows.length;
    await this.beforeAnswer(method);
    return answer;
  };
}

const never = (): Promise<void> => new Promise(() => undefined);

function serve(shard: Shard, segments: SegmentStore = new MemorySegmentStore(), wait = never): SearchService {
  return new SearchService({ segments, shards: 1, ask: shard.ask, wait });
}

function search(service: SearchService, text: string): Promise<SearchAnswer> {
  return service.search({ text, limit: 10, now: NOW, decay: 0, waitMs: 1 });
}

async function hits(service: SearchService, text: string): Promise<readonly string[]> {
  const { found, isComplete } = await search(service, text);
  expect(isComplete).toBe(true);
  return found.map(({ session, seq }) => `${session}#${seq}`).sort();
}

describe('following the logs', () => {
  test('additions, edits and deletions count from the next search on', async () => {
    const shard = new Shard();
    const service = serve(shard);
    shard.say('a', 'zebra one');
    shard.say('b', 'zebra two');
    expect(await hits(service, 'zebra')).toEqual(['a#1', 'b#1']);
    shard.say('a', 'zebra three');
    expect(await hits(service, 'zebra')).toEqual(['a#1', 'a#2', 'b#1']);
    shard.write('a', [{ type: 'edited', operation: 'remove', removed: [1] }]);
    expect(await hits(service, 'zebra')).toEqual(['a#2', 'b#1']);
    shard.say('a', 'zebra four');
    expect(await hits(service, 'zebra')).toEqual(['a#2', 'a#3', 'b#1']);
    shard.delete('a');
    service.forget(['a']);
    expect(await hits(service, 'zebra')).toEqual(['b#1']);
    shard.say('a', 'giraffe');
    expect(await hits(service, 'zebra OR giraffe')).toEqual(['a#1', 'b#1']);
  });

  test('a session deleted while it is read, and created again, is found as the new one', async () => {
    const shard = new Shard();
    const service = serve(shard);
    shard.say('a', 'zebra');
    shard.beforeAnswer = () => {
      shard.beforeAnswer = () => undefined;
      shard.delete('a');
      shard.say('a', 'giraffe');
      service.forget(['a']);
    };
    expect(await hits(service, 'zebra')).toEqual([]);
    expect(await hits(service, 'giraffe')).toEqual(['a#1']);
  });

  test('a late notification of a deletion keeps the new session with the same id', async () => {
    const shard = new Shard();
    const service = serve(shard);
    shard.say('a', 'zebra');
    expect(await hits(service, 'zebra')).toEqual(['a#1']);
    shard.delete('a');
    shard.say('a', 'giraffe');
    expect(await hits(service, 'giraffe OR zebra')).toEqual(['a#1']);
    service.forget(['a']);
    expect(await hits(service, 'giraffe')).toEqual(['a#1']);
    expect(await hits(service, 'zebra')).toEqual([]);
  });

  test('W3: an erasure ends although the log grows by more than a page with each page that is read', async () => {
    const shard = new Shard();
    const service = serve(shard);
    const grow = async (): Promise<void> => {
      for (let row = 0; row <= SEARCH_PAGE_ROWS; row += 1) {
        shard.say('a', 'zebra');
        await shard.journal.flushed();
      }
    };
    await grow();
    let pages = 0;
    shard.beforeAnswer = async (method) => {
      if (method !== 'search.log') return;
      pages += 1;
      // Without a bound the read would never end; this one shows it.
      if (pages > 10) throw new Error('the read follows the end of the log');
      await grow();
    };
    await service.erase(['b']);
    expect(pages).toBeLessThanOrEqual(3);
  });

  test('W3: a search during a read of the logs waits for everything written before the search', async () => {
    const shard = new Shard();
    const service = serve(shard);
    shard.say('a', 'zebra');
    let second: Promise<readonly string[]> | undefined;
    shard.beforeAnswer = () => {
      shard.beforeAnswer = () => undefined;
      // The page in flight was read before this change.
      shard.say('b', 'zebra');
      second = hits(service, 'zebra');
    };
    await search(service, 'zebra');
    expect(await second).toEqual(['a#1', 'b#1']);
  });
});

describe('saving the index', () => {
  test('V2: an index opened again reads new rows, and removes sessions deleted meanwhile', async () => {
    const shard = new Shard();
    const segments = new MemorySegmentStore();
    const first = serve(shard, segments);
    for (let count = 0; count < 50; count += 1) shard.say(`s${count}`, 'zebra');
    expect((await search(first, 'zebra')).messages).toBe(50);
    first.close();
    shard.delete('s7');
    shard.say('s8', 'another zebra');
    shard.handed = 0;
    const again = serve(shard, segments);
    expect((await search(again, 'zebra')).messages).toBe(50);
    expect(await hits(again, 'another')).toEqual(['s8#2']);
    // The end of the last page, which identifies the log, and the later rows.
    expect(shard.handed).toBeLessThan(10);
  });

  test('V2: after a crash between two saves the rows since the first are read again', async () => {
    const shard = new Shard();
    const segments = new MemorySegmentStore();
    const first = serve(shard, segments);
    shard.say('a', 'zebra');
    shard.write('a', [{ type: 'accepted', id: 9, entry: { type: 'user_message', content: 'waiting zebra' } }]);
    await search(first, 'zebra');
    first.close();
    const second = serve(shard, segments);
    // Promoted later: waiting entries are part of the saved state.
    shard.write('a', [{ type: 'claimed', halfStep: 2, entries: [9], turn: 2 }, { type: 'released' }]);
    expect(await hits(second, 'zebra')).toEqual(['a#1', 'a#2']);
    // The service is not closed, so the saved state is that of the first service.
    expect(await hits(serve(shard, segments), 'zebra')).toEqual(['a#1', 'a#2']);
  });

  test('V3: an index of another log is discarded completely', async () => {
    const segments = new MemorySegmentStore();
    const one = new Shard();
    one.say('a', 'zebra');
    const first = serve(one, segments);
    await search(first, 'zebra');
    first.close();
    const other = new Shard();
    other.say('a', 'giraffe');
    const second = serve(other, segments);
    expect(await hits(second, 'zebra OR giraffe')).toEqual(['a#1']);
    expect(await hits(second, 'zebra')).toEqual([]);
  });

  test('V3: unreadable parts of the index are built again', async () => {
    for (const spoil of [
      (segments: MemorySegmentStore) => segments.saveState('{"v":1}'),
      (segments: MemorySegmentStore) => segments.saveState('not JSON'),
      (segments: MemorySegmentStore) => segments.keepOnly(new Set()),
      (segments: MemorySegmentStore) => {
        const { index } = JSON.parse(segments.loadState() ?? '') as { index: { segments: string[] } };
        const bytes = segments.open(index.segments[0] ?? '');
        bytes.read(0, bytes.length).fill(0, Math.floor(bytes.length / 3), Math.floor(bytes.length / 2));
      },
    ]) {
      const shard = new Shard();
      const segments = new MemorySegmentStore();
      const first = serve(shard, segments);
      for (let count = 0; count < 5; count += 1) shard.say('a', `zebra ${count}`);
      await search(first, 'zebra');
      first.close();
      spoil(segments);
      expect(await hits(serve(shard, segments), 'zebra')).toHaveLength(5);
    }
  });
});

test('W1: a device that refuses writes fails the search; once it accepts them, nothing is missing or found twice', async () => {
  const shard = new Shard();
  const segments = new MemorySegmentStore();
  let isFull = false;
  const put = segments.put.bind(segments);
  segments.put = (chunks) => {
    if (isFull) throw new Error('no space left on device');
    return put(chunks);
  };
  const service = serve(shard, segments);
  isFull = true;
  for (let count = 1; count <= 600; count += 1) shard.say('a', `zebra n${count}`);
  await expect(search(service, 'zebra')).rejects.toThrow('no space left');
  await expect(search(service, 'zebra')).rejects.toThrow('no space left');
  isFull = false;
  expect(await hits(service, 'n1')).toEqual(['a#1']);
  expect(await hits(service, 'n600')).toEqual(['a#600']);
  expect((await search(service, 'zebra')).messages).toBe(600);
});

test('V1: a search that does not wait says so, and returns no messages deleted by then', async () => {
  const shard = new Shard();
  const segments = new MemorySegmentStore();
  let isLate = false;
  const service = serve(shard, segments, () => (isLate ? Promise.resolve() : never()));
  shard.say('a', 'zebra one');
  shard.say('b', 'zebra two');
  await search(service, 'zebra');
  shard.write('a', [{ type: 'edited', operation: 'remove', removed: [1] }]);
  isLate = true;
  // The log is answered only after the search; the current state of a session is answered at once.
  const held = new Promise<void>((resolve) => {
    shard.beforeAnswer = () => {
      shard.beforeAnswer = () => undefined;
      return new Promise((release) => {
        void late.then(() => release(resolve()));
      });
    };
  });
  const late: Promise<SearchAnswer> = Promise.resolve().then(() => search(service, 'zebra'));
  const { found, isComplete } = await late;
  expect(isComplete).toBe(false);
  expect(found.map(({ session, seq }) => `${session}#${seq}`)).toEqual(['b#1']);
  await held;
  isLate = false;
  expect(await hits(service, 'zebra')).toEqual(['b#1']);
});

test('F101: the window of a session that is not in memory is computed from its log', async () => {
  const shard = new Shard();
  const service = serve(shard);
  shard.say('a', 'zebra one');
  shard.say('a', 'zebra two');
  shard.say('b', 'zebra three');
  const found = async (session: string): Promise<readonly string[]> => {
    const answer = await service.search({
      text: 'zebra',
      limit: 10,
      now: NOW,
      decay: 0,
      waitMs: 1,
      excluding: { session },
    });
    return answer.found.map((message) => `${message.session}#${message.seq}`).sort();
  };
  expect(await found('a')).toEqual(['b#1']);
  shard.write('a', [{ type: 'evicted', below: 2 }]);
  expect(await found('a')).toEqual(['a#1', 'b#1']);
  expect(await found('nobody')).toEqual(['a#1', 'a#2', 'b#1']);
});
