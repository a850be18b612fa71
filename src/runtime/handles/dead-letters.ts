/**
 * Dead letters: entries of a mailbox that could not become messages and were set aside. This file has `DeadLetters`,
 * the embedder's handle of one session's letters, and the page of the letters of all sessions. Host thread.
 */
import { z } from 'zod';
import { PAGE_BYTES_MAX, SERVER_PAGE_DEFAULT, SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { filterId } from '../../base/ids.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { DeadLetter, DeadLetterSummary } from '../../session/state/letters.ts';
import { byLetter, type LetterPlace, letterPlaceText, letterSize, readLetterPlace } from '../protocol/letters.ts';
import type { Page } from '../protocol/pages.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import type { Closing } from './at-close.ts';
import { Receipt } from './receipt.ts';
import { bySchema } from './session-options.ts';

/** Options of `deadLetters.resend`. */
export interface ResendOptions {
  /**
   * `user`: the content is sent as a user's message. Missing: the letter is sent in its own form, which succeeds only
   * if it can be promoted now.
   */
  readonly as?: 'user';
  /** The person or program that sends the letter again, for the audit log. At most 256 characters. */
  readonly by?: string;
}

/** Options of `deadLetters.drop`. */
export interface DropOptions {
  /** The person or program that drops the letter, for the audit log. At most 256 characters. */
  readonly by?: string;
}

/** Options of `runtime.deadLetters`. */
export interface DeadLetterOptions {
  /** The `next` of the previous page; default: the first page. */
  readonly after?: string;
  /** Maximum number of letters: 1 to 1,000, 100 by default. */
  readonly limit?: number;
  /** Only letters of this session and its descendants. */
  readonly session?: string;
}

const letterId = z.number().int().positive();
const resendSchema = z.strictObject({ as: z.literal('user').optional(), by: bySchema });
const dropSchema = z.strictObject({ by: bySchema });
const pageSchema = z.strictObject({
  after: z.string().optional(),
  limit: z.number().int().min(1).max(SERVER_PAGE_MAX).optional(),
  session: z.string().optional(),
});

/**
 * The dead letters of a session. A session keeps at most 100 letters and 16 MiB; beyond that the oldest are dropped.
 */
export class DeadLetters {
  readonly #link: ShardCaller & Closing;
  readonly #session: string;

  constructor(link: ShardCaller & Closing, session: string) {
    this.#link = link;
    this.#session = session;
  }

  /** The letters without their contents, oldest first. */
  list(): Promise<readonly DeadLetterSummary[]> {
    return this.#link.call('letters.list', { session: this.#session }, true);
  }

  /**
   * One letter with its content; `undefined` if there is no such letter, for example because it was sent again or
   * dropped.
   */
  async get(id: number): Promise<DeadLetter | undefined> {
    const letter = parseOption(letterId, 'deadLetters.get', id);
    return this.#link.call('letters.get', { session: this.#session, letter }, true);
  }

  /**
   * Sends a letter again as a new entry of the mailbox. The same transition removes the letter from the list. Resolves
   * once the transition is durable. Repeating the call returns the same receipt. Rejects with `ContentError` (the
   * letter still cannot be promoted in its own form), `InvalidArgumentError` (`letter_not_found`), `MailboxFullError`,
   * `TroupeError` (`unknown_session`), `ConfigError`, `StoreFullError`.
   */
  async resend(id: number, options: ResendOptions = {}): Promise<Receipt> {
    const letter = parseOption(letterId, 'deadLetters.resend', id);
    const { as, by } = parseOption(resendSchema, 'deadLetters.resend', options);
    const session = this.#session;
    const sent = await this.#link.call('letters.resend', { session, letter, ...defined({ as, by }) }, true);
    return new Receipt(this.#link, { session, ...sent });
  }

  /**
   * Drops a letter; durable when it resolves. False if there is no such letter, for example because it was sent again.
   */
  async drop(id: number, options: DropOptions = {}): Promise<boolean> {
    const letter = parseOption(letterId, 'deadLetters.drop', id);
    const { by } = parseOption(dropSchema, 'deadLetters.drop', options);
    return this.#link.call('letters.drop', { session: this.#session, letter, ...defined({ by }) }, false);
  }
}

/**
 * A page of the dead letters of these shards. `tenant`: only letters of this tenant's sessions. Throws `ConfigError`
 * for bad options, `InvalidNameError` for a session that is not an id, and the error of a shard.
 */
export async function deadLetterPage(
  shardsOf: (session: string | undefined) => readonly ShardCaller[],
  given: DeadLetterOptions,
  tenant?: string,
): Promise<Page<DeadLetterSummary>> {
  const { after, limit = SERVER_PAGE_DEFAULT, session } = parseOption(pageSchema, 'deadLetters', given);
  const place = after === undefined ? undefined : checkPlace(after);
  const within = session === undefined ? undefined : filterId(tenant, session);
  const request = { limit, bytesMax: PAGE_BYTES_MAX, ...defined({ after: place, session: within, tenant }) };
  const parts = await Promise.all(shardsOf(within).map((shard) => shard.call('letters.page', request, true)));
  // A shard that stopped early may have more letters right behind `reached`. So the page ends at the first `reached` of
  // all shards.
  const [end] = parts.flatMap(({ reached }) => reached ?? []).sort(byLetter);
  const found = parts.flatMap(({ items }) => items).sort(byLetter);
  const items: DeadLetterSummary[] = [];
  let bytes = 0;
  for (const letter of found) {
    if (end !== undefined && byLetter(letter, end) > 0) break;
    items.push(letter);
    bytes += letterSize(letter);
    const isFull = items.length >= limit || bytes > PAGE_BYTES_MAX;
    if (isFull && (items.length < found.length || end !== undefined)) return { items, next: letterPlaceText(letter) };
  }
  return end === undefined ? { items } : { items, next: letterPlaceText(end) };
}

function checkPlace(after: string): LetterPlace {
  const place = readLetterPlace(after);
  if (place !== undefined) return place;
  throw new ConfigError(
    `option "deadLetters.after" must be the next of a page of dead letters, got ${describeValue(after)}`,
    { data: { key: 'deadLetters.after' } },
  );
}
