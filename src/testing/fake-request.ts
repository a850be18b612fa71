/** Requests of the fake server: kept for tests, and converted back into the input of a script. */
import { defined } from '../base/defined.ts';
import type { TextBlock } from '../base/messages.ts';
import type { ModelRequest, RequestMessage, RequestTool } from '../models/provider.ts';

/** Bounds of the kept requests: their number, and their bytes in total. The oldest are dropped. */
const REQUESTS_KEPT_MAX = 10_000;
const REQUEST_BYTES_KEPT_MAX: number = 128 * 1024 * 1024;

/** The body of a request as it was sent. */
export interface WireRequest {
  readonly model: string;
  readonly max_tokens: number;
  readonly messages: readonly RequestMessage[];
  readonly system?: string | readonly TextBlock[];
  readonly tools?: readonly RequestTool[];
  readonly stream?: boolean;
  readonly [key: string]: unknown;
}

/** The newest requests, bounded in number and in bytes. */
export class RequestLog {
  readonly list: WireRequest[] = [];
  readonly #bytes: number[] = [];
  #bytesTotal = 0;

  /** Keeps a request of this many bytes. */
  add(request: WireRequest, bytes: number): void {
    this.list.push(request);
    this.#bytes.push(bytes);
    this.#bytesTotal += bytes;
    while (
      this.list.length > 1 &&
      (this.list.length > REQUESTS_KEPT_MAX || this.#bytesTotal > REQUEST_BYTES_KEPT_MAX)
    ) {
      this.list.shift();
      this.#bytesTotal -= this.#bytes.shift() ?? 0;
    }
  }
}

/** A wire body in the form of the provider port: the system prompt as text, no cache marks, no `stream`. */
export function toModelRequest(wire: WireRequest): ModelRequest {
  const { stream: _stream, cache_control: _mark, system, tools, messages, ...rest } = wire;
  const text = typeof system === 'string' ? system : system?.map((block) => block.text).join('\n\n');
  return {
    ...rest,
    ...defined({ system: text }),
    ...(tools === undefined ? {} : { tools: tools.map(withoutMark) }),
    messages: messages.map((message) =>
      typeof message.content === 'string' ? message : { role: message.role, content: message.content.map(withoutMark) },
    ),
  };
}

function withoutMark<T extends object>(holder: T): T {
  if (!('cache_control' in holder)) return holder;
  const { cache_control: _mark, ...rest } = holder;
  return rest as T;
}
