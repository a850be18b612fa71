/**
 * Decides whether a request is allowed, before any other work is done for it:
 *
 *  G1  The `Host` must be a name of this server. In a DNS rebinding attack a foreign name resolves to this server, and
 *      the browser sends that name as `Host`.
 *  G2  If a request has an `Origin`, the host of the `Origin` must be the requested host. Browsers send an `Origin`
 *      with every request that changes state.
 *  G3  If there are tokens, every route requires one of them, except routes with an open door. The given token is
 *      compared with every token, each time in constant time. So the duration of a check says nothing about any token.
 *      No answer and no error ever shows a token.
 *  G4  A loopback name as `Host` proves nothing, because any client may send such a name. Without a token, a loopback
 *      name is accepted only from a peer that is known to be on this machine.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { isLoopback, isNamed, parseAuthority } from './hosts.ts';
import type { CheckedHandlerOptions } from './options.ts';
import { peerOf } from './peer.ts';
import { HttpProblem } from './problem.ts';
import { ANYONE, type Caller } from './roles.ts';

/**
 * The check before a route: `token` requires a token, `stream` also accepts it in the query, `open` requires none.
 */
export type Door = 'token' | 'stream' | 'open';

/** Checks requests of one server. */
export class Guard {
  readonly #hosts: readonly string[];
  readonly #takesAddresses: boolean;
  readonly #loopbackNames: CheckedHandlerOptions['loopbackNames'];
  readonly #tokens: readonly { readonly digest: Buffer; readonly caller: Caller }[];

  constructor({ tokens, hosts, takesAddresses, loopbackNames }: CheckedHandlerOptions) {
    this.#hosts = hosts;
    this.#loopbackNames = loopbackNames;
    this.#takesAddresses = takesAddresses;
    this.#tokens = tokens.map(({ token, caller }) => ({ digest: digest(token), caller }));
  }

  /** Enforces G1, G2 and G4. Throws `HttpProblem` (403). */
  checkSender(request: Request): void {
    const host = request.headers.get('host') ?? new URL(request.url).host;
    if (!this.#isNamed(host)) this.#checkLoopback(host, request);
    const origin = request.headers.get('origin');
    if (origin !== null && authorityOf(origin) !== host.toLowerCase()) {
      throw new HttpProblem('forbidden', 'the Origin of the request is not this server');
    }
  }

  /** Enforces G3 and returns the caller. Throws `HttpProblem` (401). `query` is the token in the query of the URL. */
  checkToken(request: Request, door: Door, query: string | null): Caller {
    if (this.#tokens.length === 0 || door === 'open') return ANYONE;
    const bearer = /^Bearer +(\S+) *$/i.exec(request.headers.get('authorization') ?? '')?.[1];
    const given = bearer ?? (door === 'stream' ? query : null);
    const caller = given === null ? undefined : this.#callerOf(digest(given));
    if (caller !== undefined) return caller;
    throw new HttpProblem('unauthorized', 'the token of the server is needed: Authorization: Bearer <token>', {
      headers: { 'www-authenticate': 'Bearer realm="troupe"' },
    });
  }

  /** Compares with every token, even after a match (G3). */
  #callerOf(given: Buffer): Caller | undefined {
    let found: Caller | undefined;
    for (const { digest: known, caller } of this.#tokens) if (timingSafeEqual(given, known)) found = caller;
    return found;
  }

  #isNamed(authority: string): boolean {
    const name = parseAuthority(authority)?.name;
    if (name === undefined) return false;
    return (this.#takesAddresses && isIP(name) !== 0) || isNamed(authority, this.#hosts);
  }

  #checkLoopback(authority: string, request: Request): void {
    const name = parseAuthority(authority)?.name;
    if (name === undefined || !isLoopback(name) || this.#loopbackNames === 'never') {
      throw new HttpProblem('forbidden', 'the Host of the request is not one of this server');
    }
    if (this.#loopbackNames === 'fromLoopback' && !isFromThisMachine(request)) {
      throw new HttpProblem(
        'forbidden',
        'without a token only requests that are known to come from this machine are answered: ' +
          'give the handler the option "token", or the names it is reached by in the option "hosts"',
      );
    }
  }
}

/** True for a request from this machine. False for a forwarded request, even if the proxy is on this machine. */
function isFromThisMachine(request: Request): boolean {
  const peer = peerOf(request);
  const isForwarded = request.headers.has('forwarded') || request.headers.has('x-forwarded-for');
  return peer !== undefined && isLoopback(peer) && !isForwarded;
}

/** Host and port of an origin, in the form of a `Host` header. Undefined for `null` and for an invalid origin. */
function authorityOf(origin: string): string | undefined {
  try {
    const { host } = new URL(origin);
    return host === '' ? undefined : host;
  } catch {
    return undefined;
  }
}

/**
 * A digest of a text. All digests have the same length, because the constant-time comparison needs texts of equal
 * length.
 */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
