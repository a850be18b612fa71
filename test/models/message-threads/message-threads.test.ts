/** T1 to T4: whatever happens to a call, no answer is continued twice, and a lost thread costs one whole request. */
import { describe, expect, it } from 'vitest';
import { MESSAGE_THREAD_MS_MAX } from '../../../src/base/bounds.ts';
import { errorShape, ModelError } from '../../../src/base/errors.ts';
import { MessageThreads } from '../../../src/models/message-threads/message-threads.ts';
import { modelErrorOf } from '../../../src/models/model-error.ts';
import type { ModelRequest, ModelResponse, RequestMessage } from '../../../src/models/provider.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';

type Outcome = ModelResponse | ModelError | Promise<ModelResponse>;

const refused = (errorCode: string, status = 400): ModelError => modelErrorOf({ message: 'no', status, errorCode });
const LOST = refused('thread_not_found', 404);
const UNSUPPORTED = refused('thread_unsupported_request');

/** A conversation over `MessageThreads`, with the answers of a test. */
class Conversation {
  readonly clock: ManualClock = manualClock();
  readonly sent: string[] = [];
  readonly messages: RequestMessage[] = [];
  readonly #threads: MessageThreads;
  #answers = 0;

  constructor(sizeMax?: number) {
    this.#threads = new MessageThreads(this.clock, sizeMax);
  }

  /** Asks once more; `outcomes` are those of the requests that are sent, then an answer. */
  async ask(outcomes: readonly Outcome[] = [], session = 's', model = 'claude-opus-5-5'): Promise<string> {
    this.messages.push({ role: 'user', content: `question ${this.messages.length}` });
    return this.again(outcomes, session, model);
  }

  async again(outcomes: readonly Outcome[] = [], session = 's', model = 'claude-opus-5-5'): Promise<string> {
    const left = [...outcomes];
    const request = { model, max_tokens: 9, messages: this.messages.slice(), transport: { threads: true } } as const;
    const send = async (sending: ModelRequest): Promise<ModelResponse> => {
      const thread = sending.transport?.thread;
      this.sent.push(
        thread?.kind === 'continue' ? `${thread.previousMessageId}+${thread.messagesFrom}` : (thread?.kind ?? 'whole'),
      );
      const outcome = await (left.shift() ?? this.answer());
      if (outcome instanceof ModelError) throw outcome;
      return outcome;
    };
    try {
      const response = await this.#threads.call(request, { session, account: () => 'key' }, send);
      this.messages.push({ role: 'assistant', content: response.content });
      return [response.sent?.thread ?? '-', response.sent?.code].filter((each) => each !== undefined).join(' ');
    } catch (error) {
      return errorShape(error).code;
    }
  }

  answer(): ModelResponse {
    this.#answers += 1;
    const content = [{ type: 'text', text: `answer ${this.#answers}` }] as const;
    return { content, stop_reason: 'end_turn', usage: { input_tokens: 1, output_tokens: 1 }, id: `m${this.#answers}` };
  }
}

describe('the threads of sessions', () => {
  it('R62: a session creates one thread and continues it', async () => {
    const talk = new Conversation();
    expect([await talk.ask(), await talk.ask(), await talk.ask()]).toEqual(['created', 'continued', 'continued']);
    expect(talk.sent).toEqual(['create', 'm1+2', 'm2+4']);
  });

  it('R62: after the time of a thread the request is whole, without a refusal', async () => {
    const talk = new Conversation();
    await talk.ask();
    await talk.clock.advance(MESSAGE_THREAD_MS_MAX);
    expect([await talk.ask(), await talk.ask()]).toEqual(['created', 'continued']);
  });

  it.each(['thread_not_found', 'thread_already_continued', 'thread_continue_in_flight', 'thread_fingerprint_mismatch'])(
    'T3, T4: %s costs one whole request, which begins the next thread',
    async (code) => {
      const talk = new Conversation();
      await talk.ask();
      expect(await talk.ask([refused(code)])).toBe(`replayed ${code}`);
      expect(await talk.ask()).toBe('continued');
      expect(talk.sent).toEqual(['create', 'm1+2', 'create', 'm2+4']);
    },
  );

  it('T4: a whole request that is refused for its thread is not sent again', async () => {
    const talk = new Conversation();
    await talk.ask();
    expect(await talk.ask([LOST, LOST])).toBe('model_invalid_request');
    expect(talk.sent).toEqual(['create', 'm1+2', 'create']);
  });

  it('T1, F24: a call that failed leaves nothing to continue', async () => {
    const talk = new Conversation();
    await talk.ask();
    expect(await talk.ask([modelErrorOf({ message: 'the stream was cut', code: 'model_connection' })])).toBe(
      'model_connection',
    );
    expect(await talk.again()).toBe('created');
    expect(talk.sent).toEqual(['create', 'm1+2', 'create']);
  });

  it('T2: a call that is answered after the next one began leaves no end', async () => {
    const talk = new Conversation();
    let answerLate: (response: ModelResponse) => void = () => undefined;
    const first = new Promise<ModelResponse>((resolve) => {
      answerLate = resolve;
    });
    const late = talk.ask([first]);
    await talk.again();
    answerLate(talk.answer());
    expect(await late).toBe('created');
    // The history now ends with the late answer; the thread of the newer one does not hold it.
    talk.messages.pop();
    expect(await talk.ask()).toBe('continued');
    expect(talk.sent).toEqual(['create', 'create', 'm1+2']);
  });

  it('R62: where the API keeps no thread, the session and model get none from then on', async () => {
    const talk = new Conversation();
    expect(await talk.ask([UNSUPPORTED])).toBe('refused thread_unsupported_request');
    expect(await talk.ask()).toBe('-');
    expect(talk.sent).toEqual(['create', 'whole', 'whole']);
    expect(await talk.ask([], 's', 'claude-sonnet-5-5')).toBe('created');
    expect(await talk.ask([], 'other')).toBe('created');
  });

  it('T4: a lost thread that cannot be created again takes three requests', async () => {
    const talk = new Conversation();
    await talk.ask();
    expect(await talk.ask([LOST, UNSUPPORTED])).toBe('refused thread_unsupported_request');
    expect(talk.sent).toEqual(['create', 'm1+2', 'create', 'whole']);
  });

  it('A9: only the sessions that called last are remembered', async () => {
    const talk = new Conversation(1);
    await talk.ask();
    const other = { ...talk.messages };
    expect(Object.keys(other)).toHaveLength(2);
    expect(await talk.ask([], 'other')).toBe('created');
    expect(await talk.ask()).toBe('created');
  });
});
