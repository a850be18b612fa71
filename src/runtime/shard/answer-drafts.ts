/**
 * The stored drafts of model calls. A draft keeps the text that a call has streamed, for people to read, until the log
 * says how the call ended.
 *
 * Owns: which stored drafts belong to calls in flight, and which to calls that ended with their process. Does not own:
 * the drafts' text, which is in the journal; the calls; the records about lost answers.
 * Invariants:
 *  D1 a draft is removed in the append of the transition that says how its call ended. So a crash leaves the draft or
 *     the record, never both, and the tokens of a lost answer count once;
 *  D2 a draft of a call that ended with its process is recorded as lost by the next transition that reaches the
 *     session. In that transition the record comes before any other input of the session;
 *  D3 writing a draft makes no caller wait, and starts at most one flush for all drafts of a tick.
 */
import { z } from 'zod';
import type { DraftText } from '../../../actors/call-draft.ts';
import type { DraftedCall } from '../../../actors/model-caller.ts';
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { AnswerDraft } from '../../base/answer-draft.ts';
import { defined } from '../../base/defined.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { readUsage } from '../../models/usage.ts';
import { turnName } from '../../session/apply/turn.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { LostAnswer } from '../../session/state/records.ts';
import type { CommitQueue } from './commit-queue.ts';

const schema = z.object({
  halfStep: z.number(),
  attempt: z.number(),
  turn: z.number(),
  text: z.string(),
  thinking: z.string().optional(),
  truncated: z.literal(true).optional(),
  usage: z.unknown().optional(),
});

/** See the head of the file. */
export class AnswerDrafts {
  readonly #journal: Journal;
  readonly #commits: CommitQueue;
  readonly #failed: (error: unknown, session: string | undefined) => void;
  /** The calls in flight that have a stored draft, by their sessions. */
  readonly #live = new Map<SessionKey, { readonly call: DraftedCall; readonly draft: DraftText }>();
  /** Sessions with a stored draft of a call that ended with its process, or was given up with its actor (D2). */
  #lost = new Set<SessionKey>();
  /** Sessions whose draft is removed with their next records (D1). */
  readonly #ending = new Set<SessionKey>();

  /** `failed`: called with the error of a stored draft that cannot be read, and with its session. */
  constructor(journal: Journal, commits: CommitQueue, failed: (error: unknown, session: string | undefined) => void) {
    this.#journal = journal;
    this.#commits = commits;
    this.#failed = failed;
  }

  /** Called at open, and when the store takes writes again. All calls with a stored draft have ended by then. */
  load(): void {
    this.#live.clear();
    this.#ending.clear();
    this.#lost = new Set(this.#journal.drafts.keys());
  }

  /** Stores the draft of a call in flight, in place of the session's earlier draft. */
  note(call: DraftedCall, draft: DraftText): void {
    const { halfStep, attempt, turn } = call;
    if (this.#journal.nameOf(call.key) !== call.session) return;
    this.#journal.drafts.put(call.key, JSON.stringify({ halfStep, attempt, turn, ...draft }));
    this.#live.set(call.key, { call, draft });
    // No caller waits for this item. One flush, which may wait for other commits, takes all drafts of this tick (D3).
    this.#commits.add({ release: () => undefined, refuse: () => undefined }, true);
  }

  /** Called when a call has ended. The next records of its session say how the call ended. */
  ending({ key, id }: DraftedCall): void {
    if (this.#live.get(key)?.call.id === id) this.#ending.add(key);
  }

  /** Called when a session has left memory while its call was in flight. */
  abandoned({ key, id }: DraftedCall): void {
    if (this.#live.get(key)?.call.id !== id) return;
    this.#live.delete(key);
    // The draft of a deleted session was removed with the session.
    if (this.#journal.drafts.get(key) !== undefined) this.#lost.add(key);
  }

  /**
   * Called before records are appended. Removes the drafts that these records make obsolete (D1). The removal comes
   * before the append, because the append may close the batch, and a batch must have both.
   */
  settle(actors: Iterable<{ readonly actor: SessionActor }>): void {
    if (this.#ending.size === 0) return;
    for (const { actor } of actors) {
      if (!this.#ending.delete(actor.key)) continue;
      this.#live.delete(actor.key);
      this.#lost.delete(actor.key);
      this.#journal.drafts.put(actor.key, undefined);
    }
  }

  /** Called when a transition threw and appended nothing. The next transition records the drafts as lost (D2). */
  unsettled(actors: Iterable<SessionActor>): void {
    for (const { key } of actors) if (this.#ending.delete(key) && this.#live.delete(key)) this.#lost.add(key);
  }

  /**
   * The inputs of a session's transition. If a call of the session ended with its process, an input with the text of
   * that call comes first (D2).
   */
  withLost({ key }: SessionActor, inputs: readonly Input[]): readonly Input[] {
    if (!this.#lost.has(key)) return inputs;
    const stored = this.#readable(key);
    if (stored === undefined) {
      this.#lost.delete(key);
      return inputs;
    }
    this.#ending.add(key);
    return [{ type: 'answerLost', ...stored, reason: 'restart' }, ...inputs];
  }

  /** The draft of the session's call whose end is not in the log yet; undefined if there is none. */
  of({ key }: SessionActor): AnswerDraft | undefined {
    const live = this.#live.get(key);
    if (live !== undefined) return shown({ ...live.draft, turn: live.call.turn });
    const stored = this.#lost.has(key) ? this.#readable(key) : undefined;
    return stored === undefined ? undefined : shown({ ...stored, reason: 'restart' });
  }

  /**
   * The stored draft; undefined if there is none, or if it cannot be read. An unreadable draft is removed, because it
   * must not stop its session.
   */
  #readable(key: SessionKey): Omit<LostAnswer, 'reason'> | undefined {
    try {
      return this.#stored(key);
    } catch (error) {
      this.#failed(error, this.#journal.nameOf(key));
      this.#journal.drafts.put(key, undefined);
      return undefined;
    }
  }

  #stored(key: SessionKey): Omit<LostAnswer, 'reason'> | undefined {
    const text = this.#journal.drafts.get(key);
    if (text === undefined) return undefined;
    try {
      const { usage, thinking, truncated, ...draft } = schema.parse(JSON.parse(text));
      return {
        ...draft,
        ...defined({ thinking, truncated }),
        ...(usage === undefined ? {} : { usage: readUsage(usage) }),
      };
    } catch (error) {
      throw new StoreCorruptError('a draft cannot be read', { cause: error, data: { reason: `draft of key ${key}` } });
    }
  }
}

/** A draft as `state()` shows it; undefined if it has no text. */
function shown(
  draft: DraftText & Pick<LostAnswer, 'turn'> & Partial<Pick<LostAnswer, 'reason'>>,
): AnswerDraft | undefined {
  const { turn, text, thinking, truncated, reason } = draft;
  if (text === '' && thinking === undefined) return undefined;
  return { turn: turnName(turn), text, ...defined({ thinking, truncated, lost: reason }) };
}
