/**
 * Full-text search over all sessions of a runtime, on the host thread.
 *
 * Owns: the index, and how far into each shard's log it has come. Does not own: messages, which it asks of the shards.
 * Invariants:
 *  R1 nothing is read or held before the first search; a search first catches up with the logs, which is all that a crash or a
 *     restart asks for: the index is rebuilt from them;
 *  R2 what is told was read just now: an index that is behind an edit or a deletion finds less, never what is gone;
 *  R3 one catching up at a time, searches that come meanwhile share it.
 */
import { SEARCH_PAGE_MESSAGES, SEARCH_SLICE_MESSAGES, SEARCH_SNIPPET_CHARACTERS } from '../base/bounds.ts';
import { soon } from '../base/clock.ts';
import { wellFormed } from '../base/json.ts';
import { matches, parseQuery } from '../search/query.ts';
import { SearchIndex } from '../search/search-index.ts';
import { termsOf } from '../search/terms.ts';
import type { SearchableText } from './searchable.ts';
import type { ShardLink } from './shard-link.ts';

/** A message that was found. */
export interface FoundMessage {
  readonly session: string;
  /** Where the session has one. */
  readonly name?: string;
  readonly seq: number;
  readonly kind: SearchableText['kind'];
  /** Its first characters. */
  readonly snippet: string;
}

/** What a search stands on. */
export interface SearchParts {
  readonly links: () => readonly ShardLink[];
  readonly linkOf: (session: string) => ShardLink;
  /** Epoch ms. */
  readonly now: () => number;
  /** Weight of a year of age. */
  readonly decay: number;
}

interface KnownSession {
  readonly key: number;
  /** Seq of the last message that was read. */
  seq: number;
}

/** See the head of the file. */
export class MessageSearch {
  readonly #parts: SearchParts;
  readonly #index = new SearchIndex();
  readonly #known = new Map<string, KnownSession>();
  /** By link: the position its log was read to. */
  readonly #positions = new Map<ShardLink, number>();
  #catchingUp: Promise<void> | undefined;

  constructor(parts: SearchParts) {
    this.#parts = parts;
  }

  /** Messages in the index, its terms, the bytes of their lists. */
  statistics(): { readonly messages: number; readonly terms: number; readonly postingBytes: number } {
    return { messages: this.#index.size, ...this.#index.statistics() };
  }

  /**
   * The messages that fit a query best, at most `limit`. `excluding`: a session whose window is not to be searched: its messages
   * since its last eviction, all of them before the first. A query that asks for nothing finds nothing.
   */
  async search(
    text: string,
    options: { readonly limit: number; readonly excluding?: string },
  ): Promise<readonly FoundMessage[]> {
    const query = parseQuery(text);
    if (query === undefined) return [];
    const { excluding } = options;
    const floor = excluding === undefined ? 0 : await this.#floorOf(excluding);
    await this.#catchUp();
    const candidates = this.#index.look(query, {
      now: this.#parts.now(),
      decay: this.#parts.decay,
      ...(excluding === undefined ? {} : { excludes: (session, seq) => session === excluding && seq >= floor }),
    });
    const found: FoundMessage[] = [];
    for (const { session, seq } of candidates) {
      if (found.length >= options.limit) break;
      const page = await this.#parts.linkOf(session).call('search.texts', { session, after: seq - 1, limit: 1 }, true);
      const message = page.messages[0];
      if (message?.seq !== seq || !matches(query, termsOf(message.text))) continue;
      const { name } = page;
      const snippet = wellFormed(message.text.slice(0, SEARCH_SNIPPET_CHARACTERS));
      found.push({ session, seq, kind: message.kind, snippet, ...(name === undefined ? {} : { name }) });
    }
    return found;
  }

  /** Sessions were deleted. */
  forget(sessions: readonly string[]): void {
    this.#index.removeSessions(sessions);
    for (const session of sessions) this.#known.delete(session);
  }

  /** The first seq of a session's window; 1 while nothing has left it. */
  #floorOf(session: string): Promise<number> {
    return this.#parts.linkOf(session).call('search.floor', { session }, true);
  }

  #catchUp(): Promise<void> {
    this.#catchingUp ??= this.#follow().finally(() => {
      this.#catchingUp = undefined;
    });
    return this.#catchingUp;
  }

  async #follow(): Promise<void> {
    for (const link of this.#parts.links()) {
      for (;;) {
        const page = await link.call('search.written', { after: this.#positions.get(link) ?? 0 }, true);
        this.#removeStale(page.sessions);
        for (const { session, key } of page.sessions) await this.#readSession(link, session, key);
        // Behind the reading: what was not read for an error is read with the next search.
        this.#positions.set(link, page.position);
        if (page.isComplete) break;
      }
    }
  }

  /** What was edited, or made anew under the same name, is read from its beginning. */
  #removeStale(
    written: readonly { readonly session: string; readonly key: number; readonly isEdited: boolean }[],
  ): void {
    const stale = written.filter(({ session, key, isEdited }) => {
      const known = this.#known.get(session);
      return known !== undefined && (isEdited || known.key !== key);
    });
    if (stale.length > 0) this.forget(stale.map(({ session }) => session));
  }

  async #readSession(link: ShardLink, session: string, key: number): Promise<void> {
    let known = this.#known.get(session);
    if (known === undefined) {
      known = { key, seq: 0 };
      this.#known.set(session, known);
    }
    for (;;) {
      const page = await link.call('search.texts', { session, after: known.seq, limit: SEARCH_PAGE_MESSAGES }, true);
      for (const [index, message] of page.messages.entries()) {
        // The host's loop turns in between: what is indexed at once is a few milliseconds.
        if (index % SEARCH_SLICE_MESSAGES === SEARCH_SLICE_MESSAGES - 1) await nextTurn();
        // Deleted while it was read: nothing of it is to be found.
        if (this.#known.get(session) !== known) return;
        this.#index.add(session, message);
      }
      known.seq = Math.max(known.seq, page.last);
      if (page.isComplete) return;
    }
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => soon(resolve));
}
