/**
 * Dead letters of a run (I31 of `invariants.ts`). A dead letter is a mailbox entry that the runtime cannot promote.
 * Between two lives this file appends such entries to the stores, as an earlier version of the runtime might have left
 * them. The embedder lists the letters, reads them, sends them again and drops them at random.
 *
 * Owns: the embedder's requests about each letter, and their answers. Does not own: the letters. The draws here are
 * from a stream that no other draw uses.
 */
import { defined } from '../../../base/defined.ts';
import { InvalidArgumentError } from '../../../base/errors.ts';
import { shardOf } from '../../../base/ids.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import { openMemoryJournal } from '../../../journal/memory-journal.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import type { Receipt } from '../../../runtime/handles/receipt.ts';
import { type Entry, encodeTransition } from '../../../session/state/records.ts';
import { drawnFor, LifeActions, type LifeParts } from '../families/life-actions.ts';
import type { Ledger } from '../ledger.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { SessionStory } from '../session-story.ts';
import type { Stories } from '../store-reading.ts';

/** Share of the runs with dead letters. */
const SHARE = 0.25;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x1e77_e125;
/** Maximum number of actions in one life. */
const ACTIONS_MAX = 10;

/** A letter, with the embedder's requests about it and their answers. */
interface LetterStory {
  readonly session: string;
  readonly id: number;
  /** The entry that the letter became, as acknowledged. */
  pendingId?: number;
  /** Whether a drop was requested, and whether its success was acknowledged. */
  drop?: 'requested' | 'acknowledged';
}

/** The dead letters of one run. */
export class DeadLetterStories {
  readonly #random: SeededRandom;
  readonly #known = new Map<string, LetterStory>();
  /** The letters that the last life listed at its end, as `<session>/<id>`. */
  #listed: ReadonlySet<string> | undefined;

  private constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** The letters of the run with this seed; undefined: the run has none. */
  static draw(seed: number): DeadLetterStories | undefined {
    const random = drawnFor(seed, STREAM, SHARE);
    return random === undefined ? undefined : new DeadLetterStories(random);
  }

  /** Leaves entries that cannot be promoted in some sessions. No process has the stores open at that time. */
  async leave(
    stores: readonly MemoryStore[],
    stories: Stories,
    now: number,
    encryption: StoreEncryption | undefined,
  ): Promise<void> {
    for (const { id, state } of stories.values()) {
      if (state.parent !== undefined || !this.#random.chance(0.4)) continue;
      const store = stores[shardOf(id, stores.length)];
      if (store === undefined) continue;
      const schedule = (run: () => void): void => queueMicrotask(run);
      const journal = openMemoryJournal({ store, schedule, ...defined({ encryption }) });
      const key = journal.keyOf(id);
      if (key === undefined) continue;
      const count = this.#random.between(1, 3);
      const records = Array.from({ length: count }, (_, index) => {
        const pendingId = state.nextPendingId + index;
        return { type: 'accepted', id: pendingId, entry: this.#unfit(`left${pendingId}`) } as const;
      });
      journal.append([{ key, data: encodeTransition({ at: now, records }) }]);
      await journal.flushed();
      await journal.close();
    }
  }

  /** An entry that cannot be promoted. Its type is one that would begin a turn, or one that would join a turn. */
  #unfit(content: string): Entry {
    return this.#random.chance(0.7)
      ? { type: 'subagent', content, source: { type: 'user' } }
      : { type: 'from_melete_goal', content, source: { type: 'goal', name: 'no number' } };
  }

  /** The actions of one life. */
  actions(parts: LifeParts): LetterActions {
    return new LetterActions(parts, this.#random.fork(), this);
  }

  /** The story of a letter; an empty one if nothing was requested yet. */
  of(session: string, id: number): LetterStory {
    const name = `${session}/${id}`;
    const known = this.#known.get(name) ?? { session, id };
    this.#known.set(name, known);
    return known;
  }

  listed(letters: readonly { readonly session: string; readonly id: number }[]): void {
    this.#listed = new Set(letters.map(({ session, id }) => `${session}/${id}`));
  }

  /** Checks the stores after a life. */
  check(ledger: Ledger, stories: Stories): void {
    for (const story of stories.values()) if (!ledger.isDeleted(story.id)) this.#checkStory(ledger, story);
    for (const { session, id, pendingId, drop } of this.#known.values()) {
      const story = stories.get(session);
      if (ledger.isDeleted(session)) continue;
      const resent = story === undefined ? [] : resentAs(story, id);
      if (pendingId !== undefined && !resent.includes(pendingId))
        ledger.violate('lost', `letter ${session}/${id} was sent again as ${pendingId}, which is not there (I31)`);
      const isThere = story?.state.deadLetters.some(({ entry }) => entry.id === id) === true;
      if (drop === 'acknowledged' && (isThere || resent.length > 0))
        ledger.violate('changed', `letter ${session}/${id} was dropped and is still there (I31)`);
    }
  }

  /** Checks, after the last life, that the list of letters in that life had exactly the letters of the stores. */
  checkListed(ledger: Ledger, stories: Stories): void {
    if (this.#listed === undefined) return;
    const stored = [...stories.values()].flatMap(({ id, state }) =>
      state.deadLetters.map(({ entry }) => `${id}/${entry.id}`),
    );
    for (const name of stored)
      if (!this.#listed.has(name)) ledger.violate('lost', `letter ${name} was not listed (I31)`);
    for (const name of this.#listed)
      if (!stored.includes(name)) ledger.violate('fold', `letter ${name} was listed and is not in its store (I31)`);
  }

  /**
   * Checks that each letter is in the list, or was sent again once with its content, or that its drop was requested.
   */
  #checkStory(ledger: Ledger, story: SessionStory): void {
    const { id: session, state, fates, accepted } = story;
    const listed = new Set(state.deadLetters.map(({ entry }) => entry.id));
    for (const [id, ends] of fates) {
      if (!ends.includes('poisoned')) continue;
      const resent = resentAs(story, id);
      const places = resent.length + (listed.has(id) ? 1 : 0);
      if (places > 1) ledger.violate('duplicated', `letter ${session}/${id} is in ${places} places (I31)`);
      if (places === 0 && this.#known.get(`${session}/${id}`)?.drop === undefined)
        ledger.violate('lost', `letter ${session}/${id} was neither sent again nor dropped (I31)`);
      const [pendingId] = resent;
      const sent = pendingId === undefined ? undefined : accepted.get(pendingId)?.[0];
      if (sent !== undefined && sent.content !== accepted.get(id)?.[0]?.content)
        ledger.violate('changed', `letter ${session}/${id} was sent again with another content (I31)`);
    }
  }
}

/** The entries that a letter became. */
function resentAs({ accepted }: SessionStory, letter: number): readonly number[] {
  return [...accepted].flatMap(([id, entries]) => (entries.some((entry) => entry.letter === letter) ? [id] : []));
}

/** The embedder's actions on dead letters in one life. */
export class LetterActions {
  readonly #parts: LifeParts;
  readonly #random: SeededRandom;
  readonly #stories: DeadLetterStories;
  readonly #actions: LifeActions;

  constructor(parts: LifeParts, random: SeededRandom, stories: DeadLetterStories) {
    this.#parts = parts;
    this.#random = random;
    this.#stories = stories;
    this.#actions = new LifeActions(parts, random);
  }

  /** Acts at random moments, until the process dies or `leave` is called. */
  run(): Promise<void> {
    return this.#actions.run(ACTIONS_MAX, () => this.#actions.attempts.attempt('letters', () => this.#act()));
  }

  /** Stops the actions. */
  leave(): void {
    this.#actions.leave();
  }

  /** Notes the list of letters after the runtime has finished all work. */
  async settle(): Promise<void> {
    this.leave();
    this.#stories.listed(await this.#list());
  }

  /** All letters, in pages of a random size. */
  async #list(): Promise<readonly { readonly session: string; readonly id: number }[]> {
    const { runtime } = this.#parts;
    const limit = this.#random.between(1, 4);
    const letters: { readonly session: string; readonly id: number }[] = [];
    for (let after: string | undefined; ; ) {
      const { items, next } = await runtime.deadLetters({ limit, ...defined({ after }) });
      letters.push(...items);
      if (next === undefined) return letters;
      after = next;
    }
  }

  async #act(): Promise<void> {
    const letters = await this.#list();
    if (letters.length === 0) return;
    const { session, id } = this.#random.pick(letters);
    const { deadLetters } = this.#parts.runtime.session(session);
    const chance = this.#random.number();
    if (chance < 0.15) return void (await deadLetters.get(id));
    if (chance < 0.35) return this.#drop(session, id);
    // Some letters are sent again twice at the same time, and some once more afterwards.
    const twice = this.#random.chance(0.4);
    await Promise.all([this.#resend(session, id), ...(twice ? [this.#resend(session, id)] : [])]);
    if (this.#random.chance(0.4)) await this.#resend(session, id);
  }

  async #drop(session: string, id: number): Promise<void> {
    const { runtime, process, trace } = this.#parts;
    const story = this.#stories.of(session, id);
    story.drop ??= 'requested';
    const wasDropped = await runtime.session(session).deadLetters.drop(id);
    if (!process.isAlive) return;
    trace(`dropped letter ${session}/${id}: ${wasDropped}`);
    if (wasDropped) story.drop = 'acknowledged';
  }

  async #resend(session: string, id: number): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    let receipt: Receipt;
    try {
      receipt = await runtime.session(session).deadLetters.resend(id, { as: 'user' });
    } catch (error) {
      if (!(error instanceof InvalidArgumentError) || error.code !== 'letter_not_found') throw error;
      const { pendingId: sentAs } = this.#stories.of(session, id);
      if (sentAs !== undefined && process.isAlive)
        ledger.violate('failed', `letter ${session}/${id} was sent again as ${sentAs} and is unknown now (I31)`);
      return;
    }
    if (!process.isAlive) return;
    trace(`letter ${session}/${id} is sent again as ${receipt.pendingId}${receipt.duplicate ? ' again' : ''}`);
    const story = this.#stories.of(session, id);
    const { pendingId = receipt.pendingId } = story;
    if (pendingId !== receipt.pendingId)
      ledger.violate('duplicated', `letter ${session}/${id} is ${pendingId} and ${receipt.pendingId} (I31)`);
    story.pendingId = pendingId;
    const outcome = await this.#actions.attempts.outcomeOf(receipt.answer());
    if (outcome !== undefined && process.isAlive && !ledger.isDeleted(session))
      ledger.answered(session, receipt.pendingId, outcome);
  }
}
