/**
 * A pool of model calls whose answers, drafts, deltas and errors are redacted before the session's thread reads them
 * (D1 of `redactor.ts`).
 *
 * Owns: the streamed text of calls in flight. Does not own: the calls.
 *  M1 a delta may end within a secret, so no part of a text is reported before the text is whole. A text is whole when
 *     the model changes from text to thought or back, or when the answer is complete. Deltas and drafts then have the
 *     whole redacted text;
 *  M2 the last text of a lost answer may end within a secret, so it is left out. The draft says that text is missing;
 *  M3 an answer that cannot be redacted is lost: its call fails with `redaction_failed`, and its tokens count;
 *  M4 a paused answer that was changed ends its turn, because the API continues only unchanged answers. If a call of a
 *     provider's own tool then has no result, later requests leave the call out, as after any answer that was cut off
 *     (A8);
 *  M5 the text of a call is held until its completion, and not longer. A pool reports each call once, also a cancelled
 *     call, with its tokens and its whole texts. So `cancel` drops nothing.
 */
import { defined } from '../../base/defined.ts';
import { errorShape } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { TextBuffer } from '../../base/text-buffer.ts';
import type {
  ModelCall,
  ModelCompletion,
  ModelPool,
  ModelPoolListener,
  StreamDraft,
  StreamedDelta,
} from '../../models/pool.ts';
import type { ModelDelta, ModelResponse } from '../../models/provider.ts';
import { type RedactKind, redactAnswer, redactJson } from './redacted-values.ts';
import { type Redactor, redactedError, redactionError } from './redactor.ts';

/** The streamed text of a call in flight. */
interface Stream {
  readonly session: string;
  readonly redact: RedactKind;
  wantsDeltas: boolean;
  /** True once a delta was reported. */
  hasBegun: boolean;
  /** The whole texts so far, redacted, in order. */
  readonly whole: ModelDelta[];
  /** UTF-16 units of the whole texts of each type, before they were redacted. */
  readonly units: { [Type in ModelDelta['type']]: number };
  /** The text that the model is still writing. */
  open: { readonly type: ModelDelta['type']; readonly text: TextBuffer } | undefined;
  /** True once text is missing in the drafts. */
  isCut: boolean;
}

/** Makes pools with redaction. `makePool`: makes the pool that calls the models. */
export function redactedModels(
  makePool: (listener: ModelPoolListener) => ModelPool,
  redactor: Redactor,
): (listener: ModelPoolListener) => ModelPool {
  return (listener) => new RedactedModels(makePool, redactor, listener);
}

class RedactedModels implements ModelPool {
  readonly #pool: ModelPool;
  readonly #redactor: Redactor;
  readonly #listener: ModelPoolListener;
  readonly #streams = new Map<number, Stream>();

  constructor(makePool: (listener: ModelPoolListener) => ModelPool, redactor: Redactor, listener: ModelPoolListener) {
    this.#redactor = redactor;
    this.#listener = listener;
    this.#pool = makePool({
      completed: (completions) => {
        const redacted = completions.map((completion) => this.#completed(completion));
        listener.completed(redacted);
      },
      delta: (id, _session, delta) => this.#streamed(id, delta),
    });
  }

  call(call: ModelCall, whole?: Parameters<ModelPool['call']>[1]): void {
    const { id, session, wantsDeltas } = call;
    // A call of an enricher has a name of the form `<session>: …` in place of the session's id.
    const redact = this.#redactor.of(session.split(': ', 1)[0]);
    const units = { text: 0, thinking: 0 };
    const begun = { hasBegun: false, whole: [], units, open: undefined, isCut: false };
    this.#streams.set(id, { session, redact, wantsDeltas, ...begun });
    // The texts are made from drafts, which have the whole stream even if there is no reader.
    this.#pool.call({ ...call, wantsDeltas: false }, whole);
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#pool.holds(session, epoch, keep);
  }

  wantsDeltas(id: number, isWanted: boolean, fromStart?: boolean): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    stream.wantsDeltas = isWanted;
    if (!isWanted || fromStart !== true) return;
    stream.hasBegun = true;
    this.#listener.delta(id, stream.session, { type: 'text', text: '', before: [...stream.whole] });
  }

  cancel(id: number): void {
    this.#pool.cancel(id);
  }

  forget(session: string): void {
    this.#pool.forget(session);
  }

  resume(): void {
    this.#pool.resume?.();
  }

  waitOf(id: number): ReturnType<NonNullable<ModelPool['waitOf']>> {
    const wait = this.#pool.waitOf?.(id);
    if (wait === undefined) return undefined;
    // Both texts may quote the provider's answer to the call of another session.
    const redact = this.#streams.get(id)?.redact ?? this.#redactor.of(undefined);
    const { message: detail } = redactedError({ name: 'Error', code: 'internal', message: wait.detail }, redact);
    return { detail, ...defined({ refusal: wait.refusal && redactedError(wait.refusal, redact) }) };
  }

  get stopped(): number {
    return this.#pool.stopped ?? 0;
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Takes a draft: reports the texts that are whole by now (M1). */
  #streamed(id: number, { draft }: StreamedDelta): void {
    const stream = this.#streams.get(id);
    if (stream === undefined || draft === undefined) return;
    const redacted = wholeTexts(stream, draft);
    for (const piece of redacted.pieces) this.#publish(id, stream, piece);
    if (redacted.pieces.length === 0 && redacted.isCut === undefined && redacted.usage === undefined) return;
    this.#listener.delta(id, stream.session, { type: 'text', text: '', draft: redacted });
  }

  #publish(id: number, stream: Stream, piece: ModelDelta): void {
    if (!stream.wantsDeltas) return;
    this.#listener.delta(id, stream.session, stream.hasBegun ? piece : { ...piece, before: [] });
    stream.hasBegun = true;
  }

  #completed(completion: ModelCompletion): ModelCompletion {
    const stream = this.#streams.get(completion.id);
    if (stream === undefined) return completion;
    this.#streams.delete(completion.id);
    if ('error' in completion) return failed(completion, stream);
    const { id, response, ms } = completion;
    try {
      const { response: redacted, ...changes } = answered(response, stream.redact);
      if (stream.wantsDeltas)
        for (const piece of unreported(response.content, stream)) this.#publish(id, stream, piece);
      return { id, response: redacted, ms, ...changes };
    } catch (thrown) {
      const error = errorShape(redactionError(thrown));
      return { id, error, ms, lost: { pieces: [], usage: response.usage } };
    }
  }
}

/** An answer with its texts redacted, and the effects of the changes on its thoughts. */
function answered(
  response: ModelResponse,
  redact: RedactKind,
): Pick<Extract<ModelCompletion, { response: unknown }>, 'response' | 'changes'> {
  const { content, hasChanged, lacksThoughts, isUnbound } = redactAnswer(response.content, redact);
  const details = redactJson(response.stop_details, redact('answer'), isNameOfDetails);
  const transformations = redactJson(response.input_transformations, redact('answer'), isNameOfDetails);
  const isSame = details === response.stop_details && transformations === response.input_transformations;
  if (!hasChanged && isSame) return { response };
  const isPaused = hasChanged && response.stop_reason === 'pause_turn';
  const redacted = {
    ...response,
    content: content as ModelResponse['content'],
    ...defined({ stop_details: details, input_transformations: transformations }),
    ...(isPaused ? { stop_reason: 'end_turn' } : {}),
  };
  return {
    response: redacted,
    changes: { ...(lacksThoughts ? { lacksThoughts } : {}), ...(isUnbound ? { isUnbound } : {}) },
  };
}

function isNameOfDetails(_holder: unknown, name: string): boolean {
  return name === 'type' || name === 'category' || name === 'path';
}

/** A failed call: its error, and the texts that were whole (M2). */
function failed(completion: Extract<ModelCompletion, { error: unknown }>, stream: Stream): ModelCompletion {
  const { lost: rest, ...failure } = completion;
  const lost = rest === undefined ? undefined : wholeTexts(stream, rest);
  const isShort = stream.open !== undefined && !stream.isCut;
  const cut = isShort ? { pieces: lost?.pieces ?? [], ...defined({ usage: lost?.usage }), isCut: true as const } : lost;
  return { ...failure, error: redactedError(completion.error, stream.redact), ...defined({ lost: cut }) };
}

/** Takes the pieces of a draft. Returns the draft with the texts that are whole by now, redacted. */
function wholeTexts(stream: Stream, { pieces, isCut, usage }: StreamDraft): StreamDraft {
  const found: ModelDelta[] = [];
  let isNewlyCut = isCut === true && !stream.isCut;
  for (const { type, text } of pieces) {
    if (stream.open?.type === type) {
      stream.open.text.add(text);
      continue;
    }
    if (stream.open !== undefined) {
      const { type: wasType, text: written } = stream.open;
      stream.units[wasType] += written.length;
      const whole = redactedText(wasType, written.toString(), stream.redact);
      // A text that cannot be redacted is left out.
      if (whole.text === '') isNewlyCut ||= !stream.isCut;
      else {
        found.push(whole);
        stream.whole.push(whole);
      }
    }
    stream.open = { type, text: new TextBuffer(text) };
  }
  if (isNewlyCut) stream.isCut = true;
  return { pieces: found, ...(isNewlyCut ? { isCut: true } : {}), ...defined({ usage }) };
}

function redactedText(type: ModelDelta['type'], text: string, redact: RedactKind): ModelDelta {
  try {
    return { type, text: redact(type === 'text' ? 'answer' : 'thinking')(text) };
  } catch {
    // The answer has the same text. If the answer arrives, it reports the failure.
    return { type, text: '' };
  }
}

/**
 * The texts and thoughts of an answer that were not whole before the answer arrived, redacted. Neighbours of one type
 * are one text.
 */
function unreported(content: unknown, { units, redact }: Stream): readonly ModelDelta[] {
  const reported = { ...units };
  const texts: ModelDelta[] = [];
  for (const block of Array.isArray(content) ? (content as readonly unknown[]) : []) {
    if (!isRecord(block)) continue;
    const { type } = block;
    if (type !== 'text' && type !== 'thinking') continue;
    const whole = block[type];
    if (typeof whole !== 'string') continue;
    const text = whole.slice(reported[type]);
    reported[type] = Math.max(0, reported[type] - whole.length);
    const last = texts.at(-1);
    if (text === '') continue;
    if (last?.type === type) texts[texts.length - 1] = { type, text: last.text + text };
    else texts.push({ type, text });
  }
  return texts.map(({ type, text }) => redactedText(type, text, redact)).filter(({ text }) => text !== '');
}
