/**
 * Checks whether messages of a session still match the index, for a search that does not wait until the index is up to
 * date. The check reads the rows written since the index read the session. It reads the whole session only if these
 * rows removed or changed something.
 */
import { asError, StoreCorruptError } from '../../base/errors.ts';
import { type SearchableText, searchableText } from '../../search/searchable.ts';
import { takesBack } from '../../search/text-fold.ts';
import { type AskShard, readSession, type SessionPlace, turnsBehind } from './reader.ts';

/** The present text of a message. */
export type StandingText = Pick<SearchableText, 'kind' | 'text'>;

/** One session, for the duration of one search. */
export class SessionSince {
  readonly #ask: AskShard;
  readonly #place: SessionPlace & { readonly row: number };
  /** The present texts of the session's messages, by seq; `undefined` if none changed since they were indexed. */
  #changed: Promise<ReadonlyMap<number, StandingText> | undefined> | undefined;

  /** `place.row`: the last row that the index has of the session. */
  constructor(ask: AskShard, place: SessionPlace & { readonly row: number }) {
    this.#ask = ask;
    this.#place = place;
  }

  /**
   * The present text of the message `seq`; `undefined` if the message is gone. `known`: its text in the index. Rejects
   * with the error of a shard.
   */
  async asItStands(seq: number, known: StandingText): Promise<StandingText | undefined> {
    this.#changed ??= this.#read();
    const changed = await this.#changed;
    return changed === undefined ? known : changed.get(seq);
  }

  async #read(): Promise<ReadonlyMap<number, StandingText> | undefined> {
    try {
      const { shard, session, key, row } = this.#place;
      const there = await this.#ask(shard, 'search.session', { session });
      if (there?.key !== key) return new Map();
      let isChanged = false;
      for await (const { records } of turnsBehind(this.#ask, this.#place, row)) isChanged ||= records.some(takesBack);
      if (!isChanged) return undefined;
      const read = await readSession(this.#ask, this.#place, { keepsAll: true });
      const texts = (read?.state.messages ?? []).flatMap((message) => searchableText(message) ?? []);
      return new Map(texts.map((text) => [text.seq, text]));
    } catch (error) {
      // If a session cannot be read, none of its messages is returned.
      if (asError(error) instanceof StoreCorruptError) return new Map();
      throw error;
    }
  }
}
