/**
 * One request for one URL, with its redirects (F75). Every hop is checked like the first one, and the connection is
 * made to the addresses that were checked. A name is resolved only once per hop, so no later answer of the resolver can
 * lead the connection elsewhere.
 */
import { lookup } from 'node:dns/promises';
import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { WEB_REDIRECTS_MAX, WEB_URL_CHARACTERS_MAX } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { cutText } from '../../base/json.ts';
import type { AddressGuard } from './web-address.ts';

/** A failure whose message the model receives unchanged. */
export class WebError extends Error {}

/** Resolves a host name to its addresses. Rejects if there are none. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

/** The options of a request. */
export interface ExchangeOptions {
  readonly guard: AddressGuard;
  readonly resolve: ResolveHost;
  /** Ends the request, even while the answer's body is read. */
  readonly signal: AbortSignal;
}

/** The answer to the last hop; its body is not read yet. */
export interface Answer {
  readonly url: URL;
  readonly response: IncomingMessage;
  /** The number of redirects before this answer. */
  readonly redirects: number;
}

/** UTF-16 units of a URL shown in an error. */
const SHOWN_MAX = 200;
const REDIRECTS: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308]);
/**
 * The first port that is not reserved for system services. Ports below this one belong to protocols such as mail. Some
 * servers of these protocols would perform an action when they receive a web request.
 */
const FREE_PORTS_FROM = 1_024;
const WEB_PORTS: ReadonlySet<string> = new Set(['', '80', '443']);
const HEADERS = {
  accept: 'text/markdown, text/html;q=0.9, application/json;q=0.9, text/*;q=0.8, */*;q=0.1',
  'accept-encoding': 'gzip, br',
  'user-agent': 'troupe',
};

/** The system's own resolver. */
export const systemResolve: ResolveHost = async (host) =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

/**
 * Requests `url` with GET. Follows at most `WEB_REDIRECTS_MAX` redirects, and none from https to http. The caller reads
 * or destroys the answer. Rejects with `WebError`, or with the connection's error.
 */
export async function exchange(url: string, options: ExchangeOptions): Promise<Answer> {
  let at = webUrl(url);
  for (let redirects = 0; ; redirects += 1) {
    const response = await askOnce(at, options);
    const { statusCode, headers } = response;
    if (!REDIRECTS.has(statusCode) || headers.location === undefined) return { url: at, response, redirects };
    response.destroy();
    if (redirects === WEB_REDIRECTS_MAX) throw new WebError(`More than ${WEB_REDIRECTS_MAX} redirects`);
    at = redirectTarget(at, headers.location);
  }
}

/**
 * The target of a redirect. Throws `WebError` for a URL that may not be requested, and for a step from https to http.
 */
export function redirectTarget(from: URL, location: string): URL {
  const url = webUrl(location, from);
  if (from.protocol === 'https:' && url.protocol === 'http:') {
    throw new WebError(`Not followed: a redirect from https to http (${shown(url.href)})`);
  }
  return url;
}

/** A URL that may be requested, judged by its text. Throws `WebError`. */
function webUrl(text: string, base?: URL): URL {
  if (text.length > WEB_URL_CHARACTERS_MAX) throw new WebError(`Invalid URL: longer than ${WEB_URL_CHARACTERS_MAX}`);
  if (!URL.canParse(text, base?.href)) throw new WebError(`Invalid URL: ${shown(text)}`);
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new WebError(`Only http and https can be fetched: ${shown(text)}`);
  }
  if (url.username !== '' || url.password !== '') throw new WebError('Not allowed: a name or password in the URL');
  if (!WEB_PORTS.has(url.port) && Number(url.port) < FREE_PORTS_FROM) {
    throw new WebError(`Not allowed: port ${url.port}, which is not of the web`);
  }
  return url;
}

function shown(text: string): string {
  return text.length > SHOWN_MAX ? `${cutText(text, SHOWN_MAX)}…` : text;
}

async function askOnce(url: URL, options: ExchangeOptions): Promise<IncomingMessage> {
  const addresses = await addressesOf(url, options);
  const request = url.protocol === 'https:' ? requestSecure : requestPlain;
  return await new Promise((resolve, reject) => {
    const { signal } = options;
    // The request has no agent, because the address of a kept connection would not be checked again.
    const asked = request(url, { method: 'GET', headers: HEADERS, agent: false, lookup: pinned(addresses), signal });
    asked.once('response', resolve);
    // The listener is set with `on`, not `once`: an error after the answer is reported by the body, but must still be
    // handled here.
    asked.on('error', reject);
    asked.end();
  });
}

/**
 * The addresses that a connection may be made to. All addresses of a name must be allowed, because the platform chooses
 * one of them.
 */
async function addressesOf(url: URL, { guard, resolve, signal }: ExchangeOptions): Promise<readonly string[]> {
  signal.throwIfAborted();
  const host = url.hostname.replace(/^\[|\]$/gu, '');
  // An address needs no look-up, and the URL parser has already given it its normal spelling.
  const addresses = isIP(host) === 0 ? await orAborted(resolve(host), signal) : [host];
  const areFit = addresses.length > 0 && addresses.every((address) => isIP(address) !== 0);
  if (!areFit) throw new WebError(`No address found for ${shown(host)}`);
  if (!guard.allowsHost(host) && !addresses.every((address) => guard.allowsAddress(address))) {
    // The error names only the host, not its address, which could disclose the layout of a private network.
    throw new WebError(`Not allowed: ${shown(host)} is not at a public address`);
  }
  return addresses;
}

/**
 * Settles like the look-up `work`, or rejects with the signal's reason if the signal fires first. A look-up cannot be
 * stopped, only abandoned.
 */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(asError(signal.reason));
  });
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** A look-up function that returns the addresses already resolved. */
function pinned(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, callback) => {
    if (options.all === true) callback(null, all);
    else callback(null, all[0]?.address ?? '', all[0]?.family);
  };
}
