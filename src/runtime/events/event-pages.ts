/**
 * Pages of the sessions' logs for readers on the host thread.
 *
 * Owns: the page requests in flight, some pages read recently. Does not own: the logs, the cursors of readers.
 *
 *  P1 Readers that want the same page at about the same time share the page and its events. So a thousand readers of
 *     one session need as many page requests as one reader.
 *  P2 At most `REPLAYS_UNDER_WAY_MAX` page requests are in flight per shard; the others wait in order of arrival.
 *  P3 An empty page is true only for a moment. It goes to readers that wanted it before it was requested from the
 *     shard, never to others.
 *  P4 Kept pages are bounded in bytes and counted in the budget of the readers. They are dropped when a session is
 *     deleted and when a shard serves again, because then another session may have the id of a page.
 */
import { REPLAY_PAGE_BYTES_MAX, REPLAY_PAGES_KEPT_BYTES_MAX, REPLAYS_UNDER_WAY_MAX } from '../../base/bounds.ts';
import { Lane } from '../../base/lane.ts';
import type { SessionEvent } from '../../events/event.ts';
import { charactersOf } from '../../events/reading/event-buffer.ts';
import { type BudgetedReader, READERS } from '../../events/reading/reader-budget.ts';
import type { ShardCaller } from '../protocol/protocol.ts';

type Page = readonly SessionEvent[];

/** See the head of the file. */
export class EventPages implements BudgetedReader {
  readonly #linkOf: (session: string) => ShardCaller;
  readonly #kept = new Map<string, { readonly page: Page; readonly characters: number }>();
  readonly #underWay = new Map<string, Promise<Page>>();
  readonly #lanes = new WeakMap<object, Lane>();
  #characters = 0;
  /** Incremented when kept pages become invalid. A page that was requested before the last increment is not kept. */
  #generation = 0;

  constructor(linkOf: (session: string) => ShardCaller) {
    this.#linkOf = linkOf;
  }

  get held(): number {
    return this.#characters;
  }

  giveUp(): void {
    this.#kept.clear();
    this.#hold(0);
  }

  /** Drops the kept pages, which may be out of date (P4). */
  forget(): void {
    this.#generation += 1;
    this.giveUp();
  }

  /**
   * Durable events of a session after a number, ascending; none when there are no later ones. Rejects with the shard's
   * error.
   */
  async page(session: string, after: number, limit: number): Promise<Page> {
    const key = `${after} ${limit} ${session}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept.page;
    const shared = this.#underWay.get(key);
    if (shared !== undefined) {
      const page = await shared;
      if (page.length > 0) return page;
      // P3: a page that is in flight now was requested after this reader arrived.
    }
    return this.#underWay.get(key) ?? this.#ask(key, session, { after, limit });
  }

  #ask(key: string, session: string, asked: { readonly after: number; readonly limit: number }): Promise<Page> {
    const link = this.#linkOf(session);
    const generation = this.#generation;
    const request = { session, ...asked, bytesMax: REPLAY_PAGE_BYTES_MAX };
    const read = async (): Promise<Page> => {
      try {
        const { events } = await this.#laneOf(link).run(() => link.call('session.events', request, true));
        if (generation === this.#generation) this.#keep(key, events);
        return events;
      } finally {
        if (this.#underWay.get(key) === page) this.#underWay.delete(key);
      }
    };
    const page = read();
    this.#underWay.set(key, page);
    return page;
  }

  #laneOf(link: object): Lane {
    const lane = this.#lanes.get(link) ?? new Lane(REPLAYS_UNDER_WAY_MAX);
    this.#lanes.set(link, lane);
    return lane;
  }

  #keep(key: string, page: Page): void {
    const characters = page.reduce((sum, event) => sum + charactersOf(event), 0);
    if (page.length === 0 || characters > REPLAY_PAGES_KEPT_BYTES_MAX) return;
    this.#kept.set(key, { page, characters });
    let held = this.#characters + characters;
    for (const [oldest, { characters: freed }] of this.#kept) {
      if (held <= REPLAY_PAGES_KEPT_BYTES_MAX) break;
      this.#kept.delete(oldest);
      held -= freed;
    }
    this.#hold(held);
  }

  #hold(characters: number): void {
    const before = this.#characters;
    this.#characters = characters;
    READERS.changed(this, before, characters);
  }
}
