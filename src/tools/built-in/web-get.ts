/**
 * `web_get`: gets the content of a URL as text (contract §11.2, §11.3). Only public addresses are requested, on every
 * hop (F75), and no more is read than the tool shows (F76).
 */
import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import {
  WEB_ALLOWED_MAX,
  WEB_CONTENT_CHARACTERS_MIN,
  WEB_RESPONSE_BYTES_LIMIT,
  WEB_RESPONSE_BYTES_MAX,
  WEB_TIMEOUT_MS,
} from '../../base/bounds.ts';
import { asError, ConfigError, systemCodeOf } from '../../base/errors.ts';
import { parseOption } from '../../base/parse-option.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { nameAndMessage } from '../result-text.ts';
import { type Tool, tool } from '../tool.ts';
import { withOrigin } from '../tool-origin.ts';
import { type AddressGuard, addressGuard } from './web-address.ts';
import { bodyType, readBody, showBody } from './web-body.ts';
import { type Answer, exchange, type ResolveHost, systemResolve, WebError } from './web-exchange.ts';

/** Options of `webGet`. */
export interface WebGetOptions {
  /**
   * Targets allowed besides public addresses: host names (exactly these, whatever their addresses), addresses, ranges
   * (`10.1.0.0/16`). Anyone who can send a prompt can read everything there.
   */
  readonly allow?: readonly string[];
  /** Decoded bytes read of one answer; default 100,000, at most 2 MiB. */
  readonly maxBytes?: number;
  /** Milliseconds that one call may take unless the model asks for another time; default 10 seconds. */
  readonly timeoutMs?: number;
  /** If a page has fewer characters than this, a note warns the model that the page may be incomplete; default 100. */
  readonly minCharacters?: number;
  /** Resolves a host name to its addresses; called once for each request. Default: the system's resolver. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}

/** The model's input. */
export interface WebGetInput {
  readonly url: string;
}

interface Bounds {
  readonly guard: AddressGuard;
  readonly resolve: ResolveHost;
  readonly maxBytes: number;
  readonly minCharacters: number;
}

const optionsSchema: z.ZodType<WebGetOptions> = z.strictObject({
  allow: z.array(z.string().min(1)).max(WEB_ALLOWED_MAX).optional(),
  maxBytes: z.number().int().positive().max(WEB_RESPONSE_BYTES_LIMIT).optional(),
  timeoutMs: z.number().int().positive().optional(),
  minCharacters: z.number().int().nonnegative().optional(),
  resolve: z.custom<ResolveHost>((value) => typeof value === 'function', 'expected a function').optional(),
}) as unknown as z.ZodType<WebGetOptions>;

const input = z.object({ url: z.string().describe('The address of the page, with http:// or https://') });

/**
 * A `web_get` tool with its own options. Throws `ConfigError` for bad options. The tool's failures are results
 * (`{ error }`).
 *
 * A GET may be repeated after a crash, and may then return a changed page. The request does not begin before the log
 * has the call, so every request that leaves is recorded.
 *
 * Security: the model chooses the URL. So everything that the model knows can leave in a URL, to any public address.
 * Grant the tool only where that does no harm. The answer is text written by third parties.
 */
export function webGet(options: WebGetOptions = {}): Tool<WebGetInput> {
  const { allow, maxBytes, timeoutMs, minCharacters, resolve } = parseOption(optionsSchema, 'webGet', options);
  const bounds: Bounds = {
    guard: guardOf(allow ?? []),
    resolve: resolve ?? systemResolve,
    maxBytes: maxBytes ?? WEB_RESPONSE_BYTES_MAX,
    minCharacters: minCharacters ?? WEB_CONTENT_CHARACTERS_MIN,
  };
  const made = tool({
    name: 'web_get',
    description:
      'Get what stands at a URL of the public web: a page as Markdown, JSON, or another text. Redirects are followed. Long answers are ' +
      'cut. Scripts of a page do not run.',
    snippet: 'get a page or a text of the web',
    input,
    effect: 'keyed',
    timeoutMs: timeoutMs ?? WEB_TIMEOUT_MS,
    adjustableTimeout: true,
    run: async ({ url }, { signal }) => {
      try {
        return await get(url, bounds, signal);
      } catch (error) {
        return { error: signal.aborted ? asError(signal.reason).message : errorText(error) };
      }
    },
  });
  // With `resolve` the tool has no origin and runs on the host thread: a function cannot be sent to another thread.
  return resolve === undefined
    ? withOrigin(made, workerUrl('./web-get', import.meta.url).href, 'webGet', options)
    : made;
}

function guardOf(allow: readonly string[]): AddressGuard {
  try {
    return addressGuard(allow);
  } catch (error) {
    throw new ConfigError(`option "webGet.allow": ${asError(error).message}`, { cause: error });
  }
}

async function get(url: string, bounds: Bounds, signal: AbortSignal): Promise<string> {
  const answer = await exchange(url, { ...bounds, signal });
  try {
    return await textOf(answer, bounds);
  } finally {
    answer.response.destroy();
  }
}

/** The text for the model. Unusual facts come first, notes about missing content come last. */
async function textOf({ url, response, redirects }: Answer, bounds: Bounds): Promise<string> {
  const { headers, statusCode = 0 } = response;
  const status = `HTTP ${statusCode} ${STATUS_CODES[statusCode] ?? ''}`.trimEnd();
  const type = bodyType(headers['content-type']);
  if (type.kind === 'binary') throw new WebError(`${status}: ${type.mediaType} is not a text`);
  const body = await readBody(response, headers['content-encoding'], bounds.maxBytes);
  const text = await showBody(type, body, { url, charactersMin: bounds.minCharacters });
  const notice = `[Truncated: the answer is longer than ${bounds.maxBytes} bytes; the text above comes from its first ${bounds.maxBytes} bytes]`;
  return [
    ...(statusCode === 200 ? [] : [status]),
    ...(redirects === 0 ? [] : [`[Redirected to ${url.href}]`]),
    ...(text === '' ? [] : [text]),
    ...(body.isTruncated ? [notice] : []),
  ].join('\n\n');
}

function errorText(error: unknown): string {
  if (error instanceof WebError) return error.message;
  // Several addresses were tried. Only the first failure is reported.
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  if (!(first instanceof Error) || systemCodeOf(first) !== 'ECONNREFUSED') return nameAndMessage(first);
  return `Connection refused: port ${String(Reflect.get(first, 'port'))}`;
}

/** The `web_get` tool with the default bounds, for public addresses. */
export const web_get: Tool<WebGetInput> = webGet();
