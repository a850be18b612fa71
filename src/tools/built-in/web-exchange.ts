/**
 * One request for one URL, and its redirects (F75). Every hop is looked at as the first one is, and the connection is made to the very
 * addresses that were looked at: a name is looked up once a hop, so there is nothing a second answer could change.
 */
import { lookup } from 'node:dns/promises';
import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { WEB_REDIRECTS_MAX, WEB_URL_CHARACTERS_MAX } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { cutText } from '../../base/json.ts';
import type { AddressGuard } from './web-address.ts';

/** A failure told to the model as it is. */
export class WebError extends Error {}

/** Tells the addresses of a host's name. Rejects where there are none. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

/** What a request is made with. */
export interface ExchangeOptions {
  readonly guard: AddressGuard;
  readonly resolve: ResolveHost;
  /** Ends the request, its body included. */
  readonly signal: AbortSignal;
}

/** The answer to the last hop; its body is not read yet. */
export interface Answer {
  readonly url: URL;
  readonly response: IncomingMessage;
  /** Redirects on the way to it. */
  readonly redirects: number;
}

/** UTF-16 units of a URL shown in an error. */
const SHOWN_MAX = 200;
const REDIRECTS: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308]);
/** Ports below belong to the protocols they were given to, some of which can be talked into something by a request for a page. */
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
 * Asks for `url` with GET, following at most `WEB_REDIRECTS_MAX` redirects, none of which leads from https to http. The caller reads or
 * destroys the answer. Rejects with `WebError`, or with what the connection failed with.
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

/** Where a redirect leads. Throws `WebError` for what may not be asked, and for a step from https to http. */
export function redirectTarget(from: URL, location: string): URL {
  const url = webUrl(location, from);
  if (from.protocol === 'https:' && url.protocol === 'http:') {
    throw new WebError(`Not followed: a redirect from https to http, to ${shown(url.href)}`);
  }
  return url;
}

/** A URL a request may be made for, as far as its text tells. Throws `WebError`. */
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
    // No agent: a connection that is kept belongs to an address nobody looks at again.
    const asked = request(url, { method: 'GET', headers: HEADERS, agent: false, lookup: pinned(addresses), signal });
    asked.once('response', resolve);
    // Not once: an error after the answer is the body's to tell, and must still be heard here.
    asked.on('error', reject);
    asked.end();
  });
}

/** The addresses a connection may be made to. All of a name's must be allowed: which one is taken is not ours to say. */
async function addressesOf(url: URL, { guard, resolve, signal }: ExchangeOptions): Promise<readonly string[]> {
  signal.throwIfAborted();
  const host = url.hostname.replace(/^\[|\]$/gu, '');
  // An address in a URL has one spelling here, whatever it had there.
  const addresses = isIP(host) === 0 ? await orAborted(resolve(host), signal) : [host];
  const areFit = addresses.length > 0 && addresses.every((address) => isIP(address) !== 0);
  if (!areFit) throw new WebError(`No address found for ${shown(host)}`);
  if (!guard.allowsHost(host) && !addresses.every((address) => guard.allowsAddress(address))) {
    // Not which address it is: the names of a private network are its own business.
    throw new WebError(`Not allowed: ${shown(host)} is not at a public address`);
  }
  return addresses;
}

/** A look-up cannot be stopped, only left behind. */
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

/** Answers what was looked up already. */
function pinned(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, callback) => {
    if (options.all === true) callback(null, all);
    else callback(null, all[0]?.address ?? '', all[0]?.family);
  };
}
