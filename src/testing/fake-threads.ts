/**
 * The message threads of a fake Messages API (R62). The API keeps each conversation under the id of its last answer, so
 * that a request may send only its new messages.
 *
 * Owns: the kept conversations. Does not own: the other rules of a request, the answers.
 *
 * - K1 An answer is continued at most once. While a request continues an answer, no other request may continue it.
 * - K2 A conversation is kept for five minutes after its last answer, for the account that made it.
 * - K3 A request that continues a thread must have the same beta flags, and the same values in the fields that the
 *   thread keeps. `system` and `tools` are not compared, because R62 refuses a request that repeats them; they come
 *   from the thread.
 * - K4 A request that fails before its answer leaves the conversation as it was.
 * - K5 The conversations are bounded in number and in bytes; the oldest are forgotten.
 */
import type { Clock } from '../base/clock.ts';
import { isRecord, stableText } from '../base/json.ts';
import { withoutMarks } from '../models/cache-marks.ts';
import type { ModelResponse, RequestMessage } from '../models/provider.ts';
import type { WireRequest } from './fake-request.ts';

/** Milliseconds for which a conversation is kept after its last answer. */
const THREAD_MS = 300_000;
/** Bounds of the kept conversations: their number, and their characters in total. */
const KEPT_MAX = 10_000;
const KEPT_CHARACTERS_MAX: number = 128 * 1024 * 1024;
/** Fields that a thread keeps besides `system` and `tools`. */
const KEPT_FIELDS = [
  ...(['model', 'thinking', 'output_config', 'tool_choice', 'context_management', 'container'] as const),
  ...(['mcp_servers', 'speed', 'inference_geo', 'service_tier'] as const),
];

const NOT_FOUND =
  'No thread state was found for the requested `previous_message_id`. Replay the full conversation with thread: {"type": "create"} to start a new Thread.';

/** A conversation after an answer. */
interface Kept {
  readonly account: string;
  readonly betas: readonly string[];
  /** The request that the answer follows. */
  readonly request: WireRequest;
  /** The messages, the answer last. Empty once the answer was continued. */
  messages: readonly RequestMessage[];
  characters: number;
  readonly atMs: number;
  use: 'open' | 'inFlight' | 'continued';
}

/** The API's answer to a request whose thread it does not continue. */
export interface ThreadRefusal {
  readonly status: 400 | 404;
  readonly errorCode: string;
  readonly message: string;
  /** The parts of the request that threads do not support. */
  readonly unsupported?: readonly string[];
}

/** A request with a thread, as the model receives it. */
export interface ThreadedRequest {
  /** The whole conversation, without the member `thread`. */
  readonly whole: WireRequest;
  /** Notes that the request was answered. Keeps the conversation under the answer's id. */
  answered(response: ModelResponse): void;
  /** Notes that the request failed before its answer (K4). */
  failed(): void;
}

/** See the head of the file. */
export class FakeThreads {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #kept = new Map<string, Kept>();
  #characters = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Begins a request with the member `thread`, already checked. `account`: the credentials of the request. */
  begin(wire: WireRequest, account: string, betas: readonly string[] = []): ThreadedRequest | ThreadRefusal {
    const { thread, ...body } = wire;
    const previous =
      isRecord(thread) && thread['type'] === 'continue' ? String(thread['previous_message_id']) : undefined;
    if (previous === undefined) return this.#threaded(body, { account, betas });
    const kept = this.#kept.get(previous);
    if (kept === undefined || kept.account !== account || this.#clock.monotonic() - kept.atMs > THREAD_MS) {
      return { status: 404, errorCode: 'thread_not_found', message: NOT_FOUND };
    }
    if (kept.use === 'continued') {
      return refusal('thread_already_continued', 'The requested `previous_message_id` has already been continued.');
    }
    if (kept.use === 'inFlight') {
      return refusal('thread_continue_in_flight', 'Another request that continues this message is in flight.');
    }
    const differing = KEPT_FIELDS.filter((field) => stableText(body[field]) !== stableText(kept.request[field]));
    const names = [...differing, ...(stableText(betas) === stableText(kept.betas) ? [] : ['betas'])];
    if (names.length > 0) {
      const message = `The request does not match its thread: differing field(s): ${names.join(', ')}`;
      return refusal('thread_fingerprint_mismatch', message);
    }
    const { model, max_tokens, messages, ...rest } = body;
    const { system, tools } = kept.request;
    const whole = {
      ...{ model, max_tokens },
      ...(system === undefined ? {} : { system }),
      ...(tools === undefined ? {} : { tools }),
      ...rest,
      messages: [...kept.messages, ...messages],
    };
    return this.#threaded(whole, { account, betas, kept });
  }

  /** Forgets the conversation that is kept under the id of an answer. */
  lose(responseId: string): void {
    const kept = this.#kept.get(responseId);
    if (kept === undefined) return;
    this.#characters -= kept.characters;
    this.#kept.delete(responseId);
  }

  #threaded(
    whole: WireRequest,
    { account, betas, kept }: { readonly account: string; readonly betas: readonly string[]; readonly kept?: Kept },
  ): ThreadedRequest {
    if (kept !== undefined) kept.use = 'inFlight';
    return {
      whole,
      failed: () => {
        if (kept?.use === 'inFlight') kept.use = 'open';
      },
      answered: (response) => {
        const held = kept?.messages ?? [];
        const added = whole.messages.slice(held.length).map(withoutMarks);
        const messages = [...held, ...added, { role: 'assistant', content: response.content } as const];
        const characters = JSON.stringify(added).length + JSON.stringify(response.content).length;
        const next = { account, betas, request: { ...whole, messages: [] }, messages, atMs: this.#clock.monotonic() };
        this.#keep(String(response.id), { ...next, characters: characters + (kept?.characters ?? 0), use: 'open' });
        if (kept === undefined) return;
        kept.use = 'continued';
        kept.messages = [];
        this.#characters -= kept.characters;
        kept.characters = 0;
      },
    };
  }

  #keep(id: string, kept: Kept): void {
    this.lose(id);
    this.#kept.set(id, kept);
    this.#characters += kept.characters;
    for (const oldest of this.#kept.keys()) {
      if (oldest === id || (this.#kept.size <= KEPT_MAX && this.#characters <= KEPT_CHARACTERS_MAX)) return;
      this.lose(oldest);
    }
  }
}

/** True for a request that was not refused. */
export function isThreaded(begun: ThreadedRequest | ThreadRefusal): begun is ThreadedRequest {
  return 'whole' in begun;
}

function refusal(errorCode: string, message: string): ThreadRefusal {
  return { status: 400, errorCode, message };
}
