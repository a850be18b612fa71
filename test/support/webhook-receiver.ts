/** A receiver of webhooks over real HTTP: it keeps the requests, and the test decides the answers. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request that arrived. */
export interface Received {
  readonly headers: IncomingHttpHeaders;
  /** The body as it came. */
  readonly text: string;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>> & { readonly session: string; readonly seq: number };
}

/** An answer: a status, or nothing, so that the request hangs. */
export type ReceiverAnswer = { readonly status: number; readonly headers?: Readonly<Record<string, string>> } | 'hang';

/** A running receiver. */
export interface Receiver {
  readonly url: string;
  readonly port: number;
  /** Requests so far, in order of arrival. */
  readonly received: readonly Received[];
  /** Requests that are being answered at once, at most so far. */
  readonly most: () => number;
  /** Stops listening; `start` listens again at the same port. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** `answer`: by the request and its number from 0; default 204. */
export async function webhookReceiver(
  answer: (request: Received, index: number) => ReceiverAnswer | Promise<ReceiverAnswer> = () => ({ status: 204 }),
): Promise<Receiver> {
  const received: Received[] = [];
  let open = 0;
  let most = 0;
  const make = (): Server =>
    createServer(async (request, response) => {
      open += 1;
      most = Math.max(most, open);
      response.on('close', () => {
        open -= 1;
      });
      let text = '';
      for await (const piece of request.setEncoding('utf8')) text += String(piece);
      const { type, data } = JSON.parse(text) as Pick<Received, 'type' | 'data'>;
      const each: Received = { headers: request.headers, text, type, data };
      received.push(each);
      const answered = await answer(each, received.length - 1);
      if (answered !== 'hang') response.writeHead(answered.status, answered.headers).end();
    });
  let server = make();
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => {
      server.listen(port, '127.0.0.1', resolve);
    });
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  onTestFinished(stop);
  return {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    received,
    most: () => most,
    stop,
    start: () => {
      server = make();
      return listen(port);
    },
  };
}

/** True if the request is signed with this secret, as a receiver checks it. */
export function isSigned({ headers, text }: Received, secret: string): boolean {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature } = headers;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key)
    .update(`${String(id)}.${String(timestamp)}.${text}`)
    .digest();
  const [version, given = ''] = String(signature).split(',');
  const bytes = Buffer.from(given, 'base64');
  return version === 'v1' && bytes.length === expected.length && timingSafeEqual(bytes, expected);
}
