/**
 * The text of a running model call on the session's thread: the sum of the drafts that the pool reported.
 *
 * Owns: a copy of the text. Does not own: the bound on its length, which the pool enforces.
 */
import { defined } from '../src/base/defined.ts';
import type { Usage } from '../src/base/messages.ts';
import { TextBuffer } from '../src/base/text-buffer.ts';
import type { ModelCompletion, StreamDraft } from '../src/models/pool.ts';
import type { LostAnswer } from '../src/session/state/records.ts';

/** The text and tokens of a call so far. */
export type DraftText = Pick<LostAnswer, 'text' | 'thinking' | 'truncated' | 'usage'>;

/** The text of one running call. */
export class CallDraft {
  readonly #text = new TextBuffer();
  readonly #thinking = new TextBuffer();
  #isCut = false;
  #usage: Usage | undefined;

  add({ pieces, isCut, usage }: StreamDraft): void {
    for (const { type, text } of pieces) (type === 'text' ? this.#text : this.#thinking).add(text);
    if (isCut === true) this.#isCut = true;
    if (usage !== undefined) this.#usage = usage;
  }

  /** The whole draft. `isSilent`: the call's answer is shown to no one, so only its tokens count. */
  value(isSilent: boolean): DraftText {
    if (isSilent) return { text: '', ...defined({ usage: this.#usage }) };
    return {
      text: this.#text.toString(),
      ...(this.#thinking.isEmpty ? {} : { thinking: this.#thinking.toString() }),
      ...(this.#isCut ? { truncated: true } : {}),
      ...defined({ usage: this.#usage }),
    };
  }
}

/** The part of a given-up call that no draft has yet. If the call was answered, only its tokens are returned. */
export function lostWith(completion: ModelCompletion): StreamDraft | undefined {
  if ('error' in completion) return completion.lost;
  // The answer was already on its way when the call was cancelled.
  return { pieces: [], usage: completion.response.usage };
}
