/**
 * Goal: the text that a view shows is the one that the model writes now. Method: the store over the server's handler,
 * without a socket; the model writes and ends when the test says so.
 */
import { expect, test } from 'vitest';
import { createClient } from '../../src/client/index.ts';
import { ModelError, type ModelProvider } from '../../src/index.ts';
import { SessionStore } from '../../src/react/session-store.ts';
import { handler } from '../../src/server/index.ts';
import { deferred, queue, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const token = 'secret';

interface Call {
  write(text: string): void;
  answer(text: string): void;
  fail(error: Error): void;
}

function writingModel() {
  const calls = queue<Call>();
  const provider: ModelProvider = {
    name: 'writing',
    generate: (_request, { onDelta }) =>
      new Promise((resolve, reject) => {
        calls.put({
          write: (text) => onDelta({ type: 'text', text }),
          answer: (text) =>
            resolve({
              content: [{ type: 'text', text }],
              stop_reason: 'end_turn',
              usage: { input_tokens: 1, output_tokens: 1 },
            }),
          fail: reject,
        });
      }),
  };
  return { provider, calls };
}

/** A store over a session whose model has written half an answer. */
async function halfWritten() {
  const { provider, calls } = writingModel();
  const directory = await kit.directory();
  const settings = { llm: { retry: { base: 0.001 } } };
  const start = (path: string) => kit.open({ directory: path, provider, settings });
  const runtime = await start(directory);
  let serve = handler(runtime, { token });
  const lost = new Set<ReadableStreamDefaultController<Uint8Array>>();
  const client = createClient({
    url: 'http://localhost',
    token,
    fetch: async (url, init) => {
      const response = await serve(new Request(url, init));
      if (!url.includes('/events') || response.body === null) return response;
      return new Response(breakable(response.body, lost), response);
    },
  });
  const session = client.session('s');
  await session.send('hi');
  const call = await calls.take();
  const store = new SessionStore(session);
  const close = store.open();
  const shows = (text: string): Promise<void> => {
    const found = deferred();
    const look = (): void => {
      if (store.view().text === text) found.resolve();
    };
    const leave = store.subscribe(look);
    look();
    return found.promise.finally(leave);
  };
  call.write('Once upon');
  await shows('Once upon');
  return {
    call,
    calls,
    store,
    close,
    shows,
    /** The process is killed, and another one continues. */
    async restart() {
      const next = await start(await kit.crashed(directory));
      serve = handler(next, { token });
      await runtime.close({ deadlineMs: 0 });
    },
    loseConnection() {
      for (const controller of lost) controller.error(new TypeError('terminated'));
      lost.clear();
    },
  };
}

/** The same stream, which the test can break. */
function breakable(
  body: ReadableStream<Uint8Array>,
  controllers: Set<ReadableStreamDefaultController<Uint8Array>>,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    start: (controller) => void controllers.add(controller),
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!controllers.has(controller)) return;
      if (!done) return controller.enqueue(value);
      controllers.delete(controller);
      controller.close();
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

test('a call that is retried shows the text of its last attempt alone', async () => {
  const { call, calls, shows, store, close } = await halfWritten();
  call.fail(new ModelError('model_overloaded', 'overloaded', { retryable: true, status: 529 }));
  const again = await calls.take();
  again.write('There');
  await shows('There');
  again.answer('There was.');
  await shows('');
  expect(store.view().messages.map(({ content }) => content)).toEqual(['hi', 'There was.']);
  close();
});

test('a call that was lost with its process shows the text of its repetition alone', async () => {
  const { calls, shows, close, restart } = await halfWritten();
  await restart();
  const again = await calls.take();
  again.write('There');
  await shows('There');
  close();
});

test('a lost connection changes no text', async () => {
  const { call, shows, close, loseConnection } = await halfWritten();
  loseConnection();
  call.write(' a time');
  await shows('Once upon a time');
  close();
});
