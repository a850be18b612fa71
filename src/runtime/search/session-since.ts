/**
 * Whether messages of a session are still what an index says of them, for a search that does not wait until the index is up to
 * date. Looks at what was written since; only where that took something back the session is read as a whole.
 */
import { asError, StoreCorruptError } from '../../base/errors.ts';
import { type SearchableText, searchableText } from '../../search/searchable.ts';
import { takesBack } from '../../search/text-fold.ts';
import { type AskShard, readSession, type SessionPlace, turnsBehind } from './reader.ts';

/** What a message says. */
export type StandingText = Pick<SearchableText, 'kind' | 'text'>;

/** One session, for the time of one search. */
export class SessionSince {
  readonly #ask: AskShard;
  readonly #place: SessionPlace & { readonly row: number };
  /** What its messages say now, by seq; `undefined`: what was said of them. */
  #changed: Promise<ReadonlyMap<number, StandingText> | undefined> | undefined;

  /** `place.row`: up to there the index has it. */
  constructor(ask: AskShard, place: SessionPlace & { readonly row: number }) {
    this.#ask = ask;
    this.#place = place;
  }

  /** The message of a seq, of which the index says `known`; `undefined`: it is not there any more. Rejects with what a shard answers. */
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
      // Of a session that nobody can read nothing is told.
      if (asError(error) instanceof StoreCorruptError) return new Map();
      throw error;
    }
  }
}
