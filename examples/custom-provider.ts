/**
 * A provider of your own: a vendor that streams its answer as lines of JSON over HTTP. The vendor here is a small server in
 * this program, which is busy at first and then fails once. A provider does not retry: it throws an error that says
 * whether the call may be made again, and the runtime waits and calls again.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  agent,
  type GenerateContext,
  ModelAuthenticationError,
  ModelError,
  ModelInvalidRequestError,
  type ModelProvider,
  type ModelResponse,
  open,
  retryAfter,
  tool,
} from 'troupe';
import { z } from 'zod';

function acme(url: string): ModelProvider {
  return {
    name: 'acme',
    async generate(request, { onDelta, signal }) {
      const body = JSON.stringify({ messages: request.messages, tools: request.tools?.map(({ name }) => name) });
      // The signal ends the request when the turn is interrupted or takes too long.
      const response = await fetch(url, { method: 'POST', body, signal }).catch((cause: unknown) => {
        throw lost(`${url} does not answer`, cause, signal);
      });
      if (!response.ok) throw await refusal(response);
      return readAnswer(linesOf(response, signal), onDelta);
    },
  };
}

/** A lost connection may be tried again. An aborted call ends as its signal says. */
function lost(message: string, cause: unknown, signal: AbortSignal): ModelError {
  signal.throwIfAborted();
  return new ModelError('model_connection', message, { retryable: true, cause });
}

/** The lines as they arrive. A chunk may end within a line, and within a character. */
async function* linesOf(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  let rest = '';
  try {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      yield* lines.filter((line) => line !== '');
    }
  } catch (cause) {
    throw lost('the connection was lost within the answer', cause, signal);
  }
  if (rest !== '') yield rest;
}

async function refusal(response: Response): Promise<ModelError> {
  const { status } = response;
  const message = `status ${status}: ${await response.text()}`;
  if (status === 429) {
    // The header has seconds or a date.
    const retryAfterMs = retryAfter(response.headers, Date.now()) ?? 1_000;
    return new ModelError('model_rate_limited', message, { status, retryable: true, retryAfterMs });
  }
  if (status >= 500) return new ModelError('model_overloaded', message, { status, retryable: true });
  if (status === 401 || status === 403) return new ModelAuthenticationError(message, { status });
  return new ModelInvalidRequestError(message, { status });
}

const lineSchema = z.union([
  z.object({ text: z.string() }),
  z.object({ call: z.object({ id: z.string(), name: z.string(), input: z.record(z.string(), z.unknown()) }) }),
  z.object({ usage: z.object({ input_tokens: z.number(), output_tokens: z.number() }) }),
]);

async function readAnswer(lines: AsyncIterable<string>, onDelta: GenerateContext['onDelta']): Promise<ModelResponse> {
  let said = '';
  const calls: { type: 'tool_use'; id: string; name: string; input: Record<string, unknown> }[] = [];
  for await (const line of lines) {
    const parsed = lineSchema.safeParse(jsonOf(line));
    if (!parsed.success)
      throw new ModelError('model_protocol', `not a line of the protocol: ${line}`, { retryable: true });
    if ('text' in parsed.data) {
      said += parsed.data.text;
      onDelta({ type: 'text', text: parsed.data.text });
    } else if ('call' in parsed.data) calls.push({ type: 'tool_use', ...parsed.data.call });
    else {
      const content = [...(said === '' ? [] : [{ type: 'text' as const, text: said }]), ...calls];
      return { content, stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn', usage: parsed.data.usage };
    }
  }
  throw new ModelError('model_protocol', 'the answer ended before its usage', { retryable: true });
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

let requests = 0;
const vendor = createServer((request, response) => {
  let body = '';
  request.on('data', (piece) => {
    body += piece;
  });
  request.on('end', () => {
    requests += 1;
    if (requests === 1) response.writeHead(429, { 'retry-after': new Date().toUTCString() }).end('busy');
    else if (requests === 2) response.writeHead(500).end('broken');
    else {
      const usage = { usage: { input_tokens: 10, output_tokens: 5 } };
      const lines = body.includes('tool_result')
        ? [{ text: 'There are ' }, { text: '3 words.' }, usage]
        : [{ call: { id: 'call_1', name: 'count_words', input: { text: 'one two three' } } }, usage];
      response.end(lines.map((line) => JSON.stringify(line)).join('\n'));
    }
  });
});
await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve));
const countWords = tool({
  name: 'count_words',
  description: 'Counts the words of a text.',
  input: z.object({ text: z.string() }),
  effect: 'pure',
  run: ({ text }) => text.split(' ').length,
});

const runtime = await open(':memory:', {
  provider: acme(`http://127.0.0.1:${(vendor.address() as AddressInfo).port}/generate`),
  agents: [agent({ name: 'counter', tools: [countWords] })],
  settings: { llm: { retry: { base: 0.01 } } },
});
const session = runtime.session('s');
const receipt = await session.send('How many words are in "one two three"?');
let streamed = '';
for await (const event of session.events({ until: receipt })) {
  if (event.type === 'llm.retry') console.log(`attempt ${event.attempt} failed with ${event.status}, ${event.code}`);
  // An attempt that failed may have streamed a part of the answer.
  if (event.type === 'llm.retry') streamed = '';
  if (event.type === 'text.delta') streamed += event.text;
}
console.log('streamed:', streamed);
console.log('answered:', await receipt.answer());
await runtime.close();
vendor.close();
