/**
 * The SDK's transport for Streamable HTTP, with two additions. A message has a bound in bytes. A call whose answer
 * stream ends without the answer fails at once instead of at its timeout.
 */
import { type JSONRPCMessage, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { MCP_MESSAGE_BYTES_MAX } from '../../base/bounds.ts';
import type { McpAddress } from './protocol.ts';

/** The code of the error for an answer stream that ended without the answer. Servers do not use this code. */
export const STREAM_ENDED_CODE = -32_099;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1];

/** See the head of the file. */
export class HttpTransport extends StreamableHTTPClientTransport {
  constructor({ url, headers = {}, authProvider }: McpAddress) {
    super(new URL(url), {
      requestInit: { headers: { ...headers } },
      fetch: boundedFetch,
      // The options were checked: the provider has one of the two methods that the SDK looks for.
      ...(authProvider === undefined ? {} : { authProvider: authProvider as never }),
    });
  }

  override async send(message: JSONRPCMessage | JSONRPCMessage[], options?: SendOptions): Promise<void> {
    if (
      Array.isArray(message) ||
      !('method' in message && 'id' in message) ||
      options?.onRequestStreamEnd !== undefined
    ) {
      return await super.send(message, options);
    }
    const { id } = message;
    const error = { code: STREAM_ENDED_CODE, message: 'the connection ended before the answer came' };
    // The stream also ends after its answer. The request is then no longer open, and the client ignores this error.
    const onRequestStreamEnd = (): void => this.onmessage?.({ jsonrpc: '2.0', id, error });
    await super.send(message, { ...options, onRequestStreamEnd });
  }
}

/**
 * `fetch` whose body fails when a message exceeds the bound. A message is the body, or an event of an event stream: the
 * lines up to an empty line.
 */
async function boundedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (response.body === null) return response;
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const size = isStream ? eventSizes() : bodySize();
  const bounded = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        if (size(chunk) > MCP_MESSAGE_BYTES_MAX) {
          controller.error(new Error(`a message of more than ${MCP_MESSAGE_BYTES_MAX} bytes`));
        } else controller.enqueue(chunk);
      },
    }),
  );
  const { status, statusText, headers } = response;
  return new Response(bounded, { status, statusText, headers });
}

/** Returns a function that takes the chunks of a body, and returns the bytes of the body so far. */
function bodySize(): (chunk: Uint8Array) => number {
  let bytes = 0;
  return (chunk) => {
    bytes += chunk.length;
    return bytes;
  };
}

/** Returns a function that takes the chunks of an event stream, and returns the bytes of the longest event in a chunk. */
function eventSizes(): (chunk: Uint8Array) => number {
  let bytes = 0;
  let isLineEmpty = true;
  return (chunk) => {
    let longest = bytes;
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, from)) {
      bytes += at + 1 - from;
      longest = Math.max(longest, bytes);
      // A line may also end with both a carriage return and a line feed.
      const isEmpty = isLineEmpty && (at === from || (at === from + 1 && chunk[from] === CARRIAGE_RETURN));
      if (isEmpty) bytes = 0;
      isLineEmpty = true;
      from = at + 1;
    }
    bytes += chunk.length - from;
    if (from < chunk.length) isLineEmpty &&= from === chunk.length - 1 && chunk[from] === CARRIAGE_RETURN;
    return Math.max(longest, bytes);
  };
}
