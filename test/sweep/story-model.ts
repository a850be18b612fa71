/** The model of a story. It checks each request, records it in the ledger, and answers as the story says. */

import { isRecord } from '../../src/base/json.ts';
import { checkRequest, fatalOf } from '../../src/context/legality/legality.ts';
import { modelTraits } from '../../src/context/model-traits.ts';
import type { ModelProvider, ModelRequest, ModelResponse, RequestMessage } from '../../src/models/provider.ts';
import { PauseTurnAnswers } from '../../src/models/script/pause-turn-answers.ts';
import { createScriptedProvider } from '../../src/models/script/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { digestOf, type Ledger } from '../../src/testing/simulation/ledger.ts';
import type { SimulatedProcess, World } from '../../src/testing/simulation/world.ts';
import { ThinkingLedger } from '../../src/testing/thinking-ledger.ts';
import type { Ask } from './scenario.ts';

/** The parts that a story's model needs. */
export interface StoryModelParts {
  readonly world: World;
  readonly ledger: Ledger;
  readonly incarnationOf: (session: string) => number;
  readonly trace: (text: string) => void;
  readonly answer: (ask: Ask) => Reply;
  readonly outside: Set<string>;
}

/**
 * The first models think without being asked: their thoughts are bound to the messages before them. The next binds
 * nothing, and the last does not think.
 */
const THINKERS = ['claude-opus-5-5', 'claude-fable-5-1', 'claude-haiku-5-5', 'claude-opus-5', 'claude-opus-4-6'];

/** The model of a story's agents; it is the same in every run. */
export function thinkerOf(story: string): string {
  return THINKERS[story.length % THINKERS.length] ?? '';
}

/** Virtual ms of a call whose reply names no duration. */
const CALL_MS = 300;
/** Names of messages and tasks. */
const UIDS = /\b[mt]\d+\b/g;

/** One model for all lives of a run. */
export class StoryModel {
  readonly #parts: StoryModelParts;
  readonly #paused = new PauseTurnAnswers();
  readonly #asked = new Map<string, number>();
  readonly #thoughts = new ThinkingLedger(1);
  #thought = 0;

  constructor(parts: StoryModelParts) {
    this.#parts = parts;
  }

  /** The provider of a process or a thread: its calls die with it. */
  providerOf(process: SimulatedProcess): ModelProvider {
    const script = createScriptedProvider((request, { session }) => this.#reply(request, session), {
      clock: this.#parts.world.clockOf(process),
      strict: false,
    });
    return {
      name: 'story',
      generate: async (request, context) => {
        // A call from a dead process was never made.
        if (!process.isAlive) return new Promise(() => undefined);
        this.#hear(request, context.session);
        const response = this.#withThought(request, await script.generate(request, context));
        this.#paused.note(request, response);
        this.#thoughts.note(request, response);
        return response;
      },
    };
  }

  #reply(request: ModelRequest, session: string): Reply {
    const said = JSON.stringify(request.messages);
    const before = this.#asked.get(said) ?? 0;
    this.#asked.set(said, before + 1);
    const names = request.messages.map(uidsOf).findLast((found) => found.length > 0) ?? [];
    const uids = [...new Set(names)].join('+');
    const reply = this.#parts.answer({ session, said, uids, before, request, outside: this.#parts.outside });
    if (isKeyRefusal(reply)) this.#parts.ledger.keyRefused(session);
    return typeof reply === 'string' ? { text: reply, delayMs: CALL_MS } : { delayMs: CALL_MS, ...reply };
  }

  /** Adds a thought before the answer, if its model thinks without being asked. */
  #withThought(request: ModelRequest, response: ModelResponse): ModelResponse {
    if (response.content.length === 0 || modelTraits(request.model).thinksByDefault !== true) return response;
    this.#thought += 1;
    const thinking = `thought ${this.#thought}`;
    const signature = this.#thoughts.sign(request, [], thinking);
    return { ...response, content: [{ type: 'thinking', thinking, signature }, ...response.content] };
  }

  #hear(request: ModelRequest, session: string): void {
    const { ledger, incarnationOf, trace } = this.#parts;
    const illegal = fatalOf(checkRequest(request, { isPausedTurn: (blocks) => this.#paused.has(blocks) }));
    for (const { rule, path, message } of [...illegal, ...this.#thoughts.check(request)]) {
      ledger.violate('illegal', `request of ${session}: ${rule} ${path}: ${message}`);
    }
    const calls = ledger.calls.get(session) ?? [];
    ledger.calls.set(session, calls);
    const digest = digestOf(JSON.stringify(request.messages));
    calls.push({ incarnation: incarnationOf(session), digest, whole: digestOf(JSON.stringify(request)) });
    trace(`model call of ${session}: ${request.messages.length} messages, ${digest}`);
  }
}

function isKeyRefusal(reply: Reply): boolean {
  if (typeof reply === 'string' || !('error' in reply)) return false;
  const { error } = reply;
  return isRecord(error) && error['status'] === 401;
}

/** Names of messages and tasks in a message, in their order. */
function uidsOf(message: RequestMessage): readonly string[] {
  return JSON.stringify(message).replaceAll('\\n', ' ').match(UIDS) ?? [];
}
