// Goal: web_get fetches public addresses only, whatever a URL, a redirect or a name says (F75). It reads no more than
// it shows (F76), and shows the page in the form of the contract (§11.2, §11.3). The tests use real servers on
// loopback, which `allow` opens to a tool.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ConfigError } from '../../../src/base/errors.ts';
import { type WebGetOptions, web_get, webGet, webGetTool } from '../../../src/tools/built-in/index.ts';
import { addressGuard, isPublicAddress } from '../../../src/tools/built-in/web-address.ts';
import { readBody } from '../../../src/tools/built-in/web-body.ts';
import { redirectTarget } from '../../../src/tools/built-in/web-exchange.ts';
import type { ToolOutcome } from '../../../src/tools/tool.ts';
import type { ToolExecution } from '../../../src/tools/tool-execution.ts';
import { describeTool } from '../../../src/tools/tool-schema.ts';
import { executeTool } from '../../support/execute-tool.ts';
import { HandClock, PoolUnderTest } from '../support.ts';

const loopback = { allow: ['127.0.0.1'] };
const seen: IncomingMessage[] = [];
let reachedAt: string | undefined;
let answer: RequestListener = (_request, response) => void response.end();
let server: Server;
let port = 0;

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request);
    reachedAt = request.socket.localAddress;
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
beforeEach(() => {
  seen.length = 0;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function get(
  url: string,
  options: WebGetOptions = loopback,
  execution: Partial<ToolExecution> = {},
): Promise<ToolOutcome> {
  const context = { session: 's', callId: 'c', key: 'k', attempt: 1 };
  return executeTool(webGet(options), { input: { url }, context, timeoutMs: 5_000, mode: 'run', ...execution });
}
const here = (path = '/'): string => `http://127.0.0.1:${port}${path}`;
const errorOf = ({ content, success }: ToolOutcome): string => {
  expect(success).toBe(false);
  return (JSON.parse(content) as { error: string }).error;
};
/** A server that answers every request with this response. */
function serve(
  type: string | undefined,
  body: string | Buffer,
  headers: Record<string, string> = {},
  status = 200,
): void {
  answer = (_request, response) => {
    response.writeHead(status, { ...(type === undefined ? {} : { 'content-type': type }), ...headers }).end(body);
  };
}

describe('F75: addresses that are not public unicast', () => {
  test.each([
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '10.255.255.255',
    '100.64.0.1',
    '100.100.100.200',
    '127.0.0.1',
    '127.255.255.254',
    '168.63.129.16',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.8',
    '192.0.2.1',
    '192.88.99.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.7',
    '203.0.113.9',
    '224.0.0.1',
    '239.255.255.250',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:FFFF:0A00:0001',
    '::ffff:0:127.0.0.1',
    '64:ff9b::127.0.0.1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::808:808',
    '100::1',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%lo',
    'fec0::1',
    'ff02::1',
    '2001::1',
    '2001:2::1',
    '2001:10::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    '3fff::1',
    '4000::1',
    '5f00::1',
    '2606:4700:4700::1111%eth0',
    'localhost',
    '',
    '1.2.3',
  ])('F75: %s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([
    '1.1.1.1',
    '9.255.255.255',
    '11.0.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '126.255.255.255',
    '128.0.0.0',
    '169.253.0.1',
    '172.15.255.255',
    '172.32.0.0',
    '192.167.1.1',
    '198.17.0.1',
    '198.20.0.1',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81b::200e',
    '::ffff:1.1.1.1',
    '64:ff9b::8.8.8.8',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });
});

describe('F75: spellings of a URL', () => {
  test.each([
    'http://127.0.0.1',
    'http://127.1',
    'http://0x7f.1',
    'http://0x7f000001',
    'http://2130706433',
    'http://017700000001',
    'http://0177.0.0.1',
    'http://127.0.0.1.',
    'http://１２７.0.0.1',
    'http://127。0。0。1',
    'http://%31%32%37.0.0.1',
    'http://0',
    'http://0.0.0.0',
    'http://[::1]',
    'http://[::]',
    'http://[0:0:0:0:0:0:0:1]',
    'http://[::ffff:127.0.0.1]',
    'http://[::ffff:7f00:1]',
    'http://[64:ff9b::7f00:1]',
    'http://[2002:7f00:1::]',
    'http://[fe80::1]',
    'http://[fd00::1]',
    'http://169.254.169.254',
    'http://0xa9fea9fe',
    'http://10.0.0.1',
    'http://192.168.0.1',
    'http://localhost',
    'http://LOCALHOST',
    'http://a:80@localhost',
    'http:\\\\localhost',
    'http:localhost',
    ' http://localhost',
    'ht\ntp://local\thost',
  ])('F75: %j is not requested', async (host) => {
    // The port of a server that would answer.
    const error = errorOf(await get(`${host}:${port}/latest/meta-data`, {}));
    expect(error).toMatch(/^Not allowed: /);
    expect(seen).toEqual([]);
  });

  test.each([
    ['file:///etc/passwd', /^Only http and https can be fetched/],
    ['ftp://example.org/', /^Only http and https/],
    ['gopher://127.0.0.1:6379/_x', /^Only http and https/],
    ['data:text/html,x', /^Only http and https/],
    ['javascript:1', /^Only http and https/],
    ['', /^Invalid URL/],
    ['example.org', /^Invalid URL/],
    ['http://', /^Invalid URL/],
    ['http://[::1', /^Invalid URL/],
    ['http://[fe80::1%25lo]/', /^Invalid URL/],
    ['http://1.2.3.256/', /^Invalid URL/],
    ['http://example.org:99999/', /^Invalid URL/],
    [`http://example.org/${'x'.repeat(9_000)}`, /^Invalid URL: longer than 8192/],
    ['http://user:secret@example.org/', /^Not allowed: a name or password/],
    ['http://example.org:25/', /^Not allowed: port 25/],
    ['https://example.org:22/', /^Not allowed: port 22/],
  ])('F75: %j is refused', async (url, error) => {
    const resolve = (): Promise<never> => Promise.reject(new Error('no name is looked up'));
    expect(errorOf(await get(url, { resolve }))).toMatch(error);
  });
});

describe('F75: names', () => {
  const named = (path = '/'): string => `http://name.example:${port}${path}`;

  test('F75: localhost with a final dot is refused, whether the system knows it or not', async () => {
    expect(errorOf(await get(`http://localhost.:${port}/`, {}))).toMatch(/^Not allowed: |ENOTFOUND|EAI_AGAIN/);
    expect(errorOf(await get(`http://localhost.:${port}/`, { resolve: async () => ['127.0.0.1'] }))).toMatch(
      /^Not allowed/,
    );
    expect(seen).toEqual([]);
  });

  test('F75: a name with a denied address is not requested, and the address is not shown', async () => {
    for (const address of ['127.0.0.1', '::1', '169.254.169.254', 'fd00::1', '::ffff:10.0.0.1']) {
      const error = errorOf(await get(named(), { resolve: async () => [address] }));
      expect(error).toBe('Not allowed: name.example is not at a public address');
    }
    expect(seen).toEqual([]);
  });

  test('F75: one denied address among several is enough to refuse', async () => {
    for (const addresses of [
      ['127.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '127.0.0.1'],
      ['1.1.1.1', '::1'],
    ]) {
      expect(errorOf(await get(named(), { ...loopback, resolve: async () => addresses }))).toMatch(/^Not allowed/);
    }
    expect(seen).toEqual([]);
  });

  test('F75: rebinding: a name is looked up once, and the connection uses the checked address', async () => {
    const asked: string[] = [];
    const answers = [['127.0.0.1'], ['10.0.0.1']];
    const resolve = async (host: string): Promise<readonly string[]> => {
      asked.push(host);
      return answers[asked.length - 1] ?? [];
    };
    serve('text/plain', 'here');
    expect((await get(named(), { ...loopback, resolve })).content).toBe('here');
    expect(asked).toEqual(['name.example']);
    expect(reachedAt).toBe('127.0.0.1');
    expect(seen[0]?.headers.host).toBe(`name.example:${port}`);
    expect(seen[0]?.headers.connection).toBe('close');
  });

  test('F75: rebinding between redirects: each address is checked', async () => {
    const answers = [['127.0.0.1'], ['127.0.0.2']];
    serve(undefined, '', { location: '/next' }, 302);
    const outcome = await get(named(), { ...loopback, resolve: async () => answers.shift() ?? [] });
    expect(errorOf(outcome)).toMatch(/^Not allowed/);
    expect(seen.map(({ url }) => url)).toEqual(['/']);
  });

  test('a look-up without addresses and a look-up that fails are refused', async () => {
    expect(errorOf(await get(named(), { resolve: async () => [] }))).toBe('No address found for name.example');
    expect(errorOf(await get(named(), { ...loopback, resolve: async () => ['127.0.0.1', 'x'] }))).toMatch(
      /^No address/,
    );
    const failed = await get(named(), { resolve: () => Promise.reject(new TypeError('no such name')) });
    expect(errorOf(failed)).toBe('TypeError: no such name');
  });

  test('a look-up that is never answered ends when its call times out', async () => {
    const clock = new HandClock();
    const outcome = get(
      named(),
      { resolve: () => new Promise(() => setImmediate(() => clock.advance(5_000))) },
      { clock },
    );
    expect((await outcome).content).toBe('Tool "web_get" timed out after 5 seconds');
  });

  test('a host allowed by name is fetched at any address; other hosts are not', async () => {
    serve('text/plain', 'inside');
    const options = { allow: ['Name.Example.'], resolve: async () => ['127.0.0.1'] };
    expect((await get(named(), options)).content).toBe('inside');
    expect((await get(`http://NAME.example.:${port}/`, options)).content).toBe('inside');
    expect(errorOf(await get(`http://sub.name.example:${port}/`, options))).toMatch(/^Not allowed/);
    expect(errorOf(await get(here(), options))).toMatch(/^Not allowed/);
  });
});

describe('F75: addresses allowed by an embedder', () => {
  test('addresses and ranges of both families are allowed, and nothing beyond them', () => {
    const guard = addressGuard(['10.1.0.0/16', '192.168.0.7', 'fd00::/8', '::1']);
    const allowed = ['10.1.255.1', '192.168.0.7', 'fd12::1', '::1', '1.1.1.1'];
    const refused = ['10.2.0.1', '192.168.0.8', 'fe80::1', '127.0.0.1', 'localhost', '10.1', 'fd12::1%lo'];
    expect([...allowed, ...refused].filter((address) => guard.allowsAddress(address))).toEqual(allowed);
    expect(guard.allowsHost('10.1.255.1')).toBe(false);
  });

  test('F75: a public address of this machine is refused', () => {
    const own = (): readonly string[] => ['93.184.216.34', '2606:4700:4700::1111', 'fe80::1%lo', '10.0.0.1'];
    const guard = addressGuard(['10.0.0.1'], own);
    const refused = ['93.184.216.34', '::ffff:93.184.216.34', '64:ff9b::93.184.216.34', '2606:4700:4700:0::1111'];
    const allowed = ['93.184.216.35', '2606:4700:4700::1112', '10.0.0.1', '::ffff:93.184.216.35'];
    expect([...refused, ...allowed].filter((address) => guard.allowsAddress(address))).toEqual(allowed);
  });

  test.each([
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0.0/x',
    'http://a',
    'a/b',
    'a b',
    'a:80',
    '*.example.org/',
    'u@a',
    ' ',
  ])('%j is refused, and the error names it', (entry) => {
    expect(() => webGet({ allow: [entry] })).toThrow(ConfigError);
    expect(() => webGet({ allow: [entry] })).toThrow(JSON.stringify(entry));
  });

  test('a bad option is refused, and the error names it', () => {
    expect(() => webGet({ maxBytes: 0 })).toThrow(/webGet.maxBytes/);
    expect(() => webGet({ alow: [] } as WebGetOptions)).toThrow(/alow/);
    expect(() => webGet({ resolve: 'x' } as unknown as WebGetOptions)).toThrow(/webGet.resolve/);
  });
});

describe('redirects', () => {
  /** Redirects to the address in the path. */
  const lead: RequestListener = (request, response) => {
    const to = decodeURIComponent((request.url ?? '').slice(1));
    if (to === '') response.end('arrived');
    else response.writeHead(302, { location: to }).end('moved');
  };
  const via = (to: string): string => here(`/${encodeURIComponent(to)}`);

  test.each([
    'http://169.254.169.254/latest/meta-data',
    'http://127.0.0.2/',
    'http://0x7f.2/',
    'http://[::1]/',
    '//10.0.0.1/',
    'http://localhost/',
    'http://[::ffff:10.0.0.1]/',
    'https://192.168.0.1/',
  ])('F75: a redirect to %s is not followed', async (to) => {
    answer = lead;
    const resolve = async (): Promise<readonly string[]> => ['127.0.0.2'];
    expect(errorOf(await get(via(to), { ...loopback, resolve }))).toMatch(
      /^Not allowed: .* is not at a public address/,
    );
    expect(seen).toHaveLength(1);
  });

  test.each([
    ['file:///etc/passwd', /^Only http and https/],
    ['http://u:p@127.0.0.1/', /^Not allowed: a name or password/],
    ['http://127.0.0.1:25/', /^Not allowed: port 25/],
    ['http://[', /^Invalid URL/],
  ])('F75: a redirect to %s is refused as the first URL would be', async (to, error) => {
    answer = lead;
    expect(errorOf(await get(via(to)))).toMatch(error);
  });

  test('Δ41: five redirects are followed, with GET, and the final address is reported', async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      answer = (request, response) => {
        if (request.url === '/5') response.writeHead(200, { 'content-type': 'text/plain' }).end('arrived');
        else response.writeHead(status, { location: `${Number((request.url ?? '').slice(1)) + 1}` }).end();
      };
      expect((await get(here('/0'))).content).toBe(`[Redirected to ${here('/5')}]\n\narrived`);
    }
    expect(new Set(seen.map(({ method }) => method))).toEqual(new Set(['GET']));
  });

  test('Δ41: a loop ends after five', async () => {
    serve(undefined, '', { location: '/' }, 302);
    expect(errorOf(await get(here()))).toBe('More than 5 redirects');
    expect(seen).toHaveLength(6);
  });

  test('F75: a redirect from https to http is not followed; from http to https is', () => {
    expect(() => redirectTarget(new URL('https://a.example/x'), 'http://a.example/y')).toThrow(
      'Not followed: a redirect from https to http (http://a.example/y)',
    );
    expect(redirectTarget(new URL('https://a.example/x'), '//b.example/y').href).toBe('https://b.example/y');
    expect(redirectTarget(new URL('http://a.example/x'), 'https://a.example/').href).toBe('https://a.example/');
  });

  test('a redirect without a location is returned as an answer', async () => {
    serve('text/plain', 'nowhere', {}, 302);
    expect((await get(here())).content).toBe('HTTP 302 Found\n\nnowhere');
  });
});

describe('results', () => {
  test('the status comes first if it is not 200, as number and name', async () => {
    serve('text/plain', 'gone', {}, 404);
    expect(await get(here())).toMatchObject({ content: 'HTTP 404 Not Found\n\ngone', success: true });
    serve(undefined, '', {}, 204);
    expect((await get(here())).content).toBe('HTTP 204 No Content');
    serve('text/plain', 'odd', {}, 799);
    expect((await get(here())).content).toBe('HTTP 799\n\nodd');
  });

  test('Δ19: an empty answer is shown as (no output)', async () => {
    serve('text/plain', '');
    expect((await get(here())).content).toBe('(no output)');
  });

  test('HTML becomes Markdown, whatever the parameters of its type', async () => {
    serve('Text/HTML; charset="UTF-8"; x=y', `<nav>n</nav><main><h1>Hi</h1><p>${'word '.repeat(30)}</main>`);
    expect((await get(here())).content).toBe(`[Converted: HTML → Markdown]\n\n# Hi\n\n${'word '.repeat(30).trim()}`);
  });

  test('a page with little text comes with a warning', async () => {
    serve('text/html', '<div id=root></div><p>Loading');
    expect((await get(here())).content).toBe(
      '[Converted: HTML → Markdown]\n[Warning: the page has little text (7 characters); it may need a browser that runs scripts]\n\nLoading',
    );
    expect((await get(here(), { ...loopback, minCharacters: 7 })).content).not.toContain('Warning');
  });

  test.each(['application/json', 'application/problem+json; charset=utf-8', 'text/json'])(
    '%s is compact',
    async (type) => {
      const json = '{ "a": [1, 12345678901234567890, 1.10],\n\t"b \\" c": "x  \\\\", "a": {} }\r\n';
      serve(type, json);
      expect((await get(here())).content).toBe(
        '[Converted: JSON → compact text]\n\n{"a":[1,12345678901234567890,1.10],"b \\" c":"x  \\\\","a":{}}',
      );
    },
  );

  test('invalid JSON is unchanged', async () => {
    serve('application/json', '{ "a": 1,, }');
    expect((await get(here())).content).toBe('{ "a": 1,, }');
  });

  test.each(['text/plain', 'text/markdown', 'application/xml', 'image/svg+xml', 'application/javascript', 'text/csv'])(
    '%s is unchanged',
    async (type) => {
      serve(type, '<a>  { "b": 1 }\n');
      expect((await get(here())).content).toBe('<a>  { "b": 1 }\n');
    },
  );

  test('a type that is not text is an error that names it, and the body is not read', async () => {
    for (const type of ['image/png', 'application/octet-stream', 'application/pdf; x=y', 'video/mp4', 'nonsense']) {
      // A body without an end.
      answer = (_request, response) => void response.writeHead(200, { 'content-type': type }).write('x');
      expect(errorOf(await get(here()))).toBe(`HTTP 200 OK: ${type.split(';')[0]} is not a text`);
    }
    serve(undefined, Buffer.from([1, 0, 2]));
    expect(errorOf(await get(here()))).toBe('Not a text: the response has no content type and contains a zero byte');
    serve(undefined, 'plain');
    expect((await get(here())).content).toBe('plain');
  });

  test.each([
    ['text/plain; charset=ISO-8859-1', Buffer.from('caf\xe9', 'latin1'), 'café'],
    ['text/plain; charset="shift_jis"', Buffer.from([0x93, 0xfa, 0x96, 0x7b]), '日本'],
    ['text/plain; charset=utf-16le', Buffer.from('héé', 'utf16le'), 'héé'],
    ['text/plain; charset=latin1', Buffer.from('\ufeffcafé'), 'café'],
    ['text/plain; charset=nobody-knows', Buffer.from('café'), 'café'],
    ['text/plain', Buffer.from('\ufeffcafé', 'utf16le'), 'café'],
    ['text/plain', Buffer.from('caf\xe9', 'latin1'), 'caf\uFFFD'],
  ])('%s: the text is decoded as intended', async (type, body, text) => {
    serve(type, body);
    expect((await get(here())).content).toBe(text);
  });

  test('the page can declare its character set', async () => {
    const page = `<head><meta http-equiv=x content="text/html; charset=windows-1252"></head>caf\xe9`;
    serve('text/html', Buffer.from(page, 'latin1'));
    expect((await get(here())).content).toMatch(/\n\ncafé$/);
  });

  test('terminal escapes are removed', async () => {
    serve('text/plain', 'a\u001b[31mb\u001b]0;t\u0007c\u0000d');
    expect((await get(here())).content).toBe('abcd');
  });
});

describe('F76: no more is read than is shown', () => {
  const note = (bytes: number): string =>
    `\n\n[Truncated: the answer is longer than ${bytes} bytes; the text above comes from its first ${bytes} bytes]`;

  test('F76: an endless answer is read up to the bound, and its connection is closed', async () => {
    let closed: Promise<unknown> | undefined;
    answer = (_request, response) => {
      closed = once(response, 'close');
      response.writeHead(200, { 'content-type': 'text/plain' });
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      };
      response.on('drain', more);
      more();
    };
    expect((await get(here())).content).toBe('x'.repeat(100_000) + note(100_000));
    await closed;
  });

  test('F76: the bound is exact, and splits no character', async () => {
    serve('text/plain', 'é'.repeat(5));
    expect((await get(here(), { ...loopback, maxBytes: 10 })).content).toBe('é'.repeat(5));
    expect((await get(here(), { ...loopback, maxBytes: 9 })).content).toBe('é'.repeat(4) + note(9));
    serve('application/json', '[ 1, 2 ]');
    expect((await get(here(), { ...loopback, maxBytes: 6 })).content).toBe(`[ 1, 2${note(6)}`);
  });

  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('F76: %s is decoded, and a compression bomb in it ends at the bound', async (encoding, pack) => {
    serve('text/plain', pack('hello'), { 'content-encoding': encoding });
    expect((await get(here())).content).toBe('hello');
    const bomb = pack(Buffer.alloc(10_000_000, '0'));
    expect(bomb.length).toBeLessThan(11_000);
    serve('text/plain', bomb, { 'content-encoding': encoding });
    expect((await get(here(), { ...loopback, maxBytes: 1_000 })).content).toBe('0'.repeat(1_000) + note(1_000));
  });

  test('F76: only a little of an endless compressed answer is read', async () => {
    const member = gzipSync(Buffer.alloc(10_000_000));
    let taken = 0;
    const endless = Readable.from(
      (function* () {
        for (;;) {
          taken += 1;
          yield member;
        }
      })(),
      { objectMode: false },
    );
    const body = await readBody(endless, 'gzip', 100_000);
    expect(body).toMatchObject({ isTruncated: true, bytes: { length: 100_000 } });
    // The streams read ahead, so they take a few gzip members. One member alone would unpack to a hundred times the
    // bound.
    expect(taken).toBeLessThan(20);
    expect(endless.destroyed).toBe(true);
  });

  test('a body that does not match its encoding is an error', async () => {
    serve('text/plain', 'not gzip', { 'content-encoding': 'gzip' });
    expect(errorOf(await get(here()))).toBe('Error: incorrect header check');
    serve('text/plain', gzipSync('x'.repeat(1_000)).subarray(0, 20), { 'content-encoding': 'gzip' });
    expect(errorOf(await get(here()))).toBe('Error: unexpected end of file');
    serve('text/plain', 'x', { 'content-encoding': 'gzip, br' });
    expect(errorOf(await get(here()))).toBe('Unknown content encoding: "gzip, br"');
  });
});

describe('failures are returned as results', () => {
  test('a refused connection, a broken connection, and an answer that is not HTTP are returned as results', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const free = (other.address() as AddressInfo).port;
    other.close();
    await once(other, 'close');
    expect(errorOf(await get(`http://127.0.0.1:${free}/`))).toBe(`Connection refused: port ${free}`);
    // Both addresses are tried.
    const both = { allow: ['::1', '127.0.0.1'], resolve: async () => ['127.0.0.1', '::1'] };
    expect(errorOf(await get(`http://name.example:${free}/`, both))).toBe(`Connection refused: port ${free}`);
    answer = (request) => void request.socket.destroy();
    expect(errorOf(await get(here()))).toBe('Error: socket hang up');
    answer = (_request, response) =>
      void response.writeHead(200, { 'content-length': 9 }).write('x', () => response.destroy());
    expect(errorOf(await get(here()))).toBe('Error: aborted');
    answer = (request) => void request.socket.end('nonsense\r\n\r\n');
    expect(errorOf(await get(here()))).toMatch(/^Error: Parse Error/);
    expect(errorOf(await get(here().replace('http:', 'https:')))).toMatch(/^Error: /);
  });

  test.each([
    ['before its status', (_response: ServerResponse) => undefined],
    ['in its body', (response: ServerResponse) => response.writeHead(200).write('some')],
  ])('a slow answer times out, and its connection is closed: it stalls %s', async (_when, begin) => {
    const clock = new HandClock();
    let closed: Promise<unknown> | undefined;
    answer = (_request, response) => {
      closed = once(response, 'close');
      begin(response);
      clock.advance(10_000);
    };
    const outcome = await get(here(), loopback, { clock, timeoutMs: 10_000 });
    expect(outcome).toMatchObject({ content: 'Tool "web_get" timed out after 10 seconds', success: false });
    await closed;
  });

  test('an interrupted call closes its connection', async () => {
    let controller = new AbortController();
    let closed: Promise<unknown> | undefined;
    answer = (_request, response) => {
      closed = once(response, 'close');
      response.writeHead(200).write('some');
      controller.abort(new Error('enough'));
    };
    for (const onAbort of ['answer', 'wait'] as const) {
      controller = new AbortController();
      const outcome = await get(here(), loopback, { signal: controller.signal, onAbort });
      expect(outcome.content).toContain('enough');
      await closed;
    }
    expect(seen).toHaveLength(2);
    const before = await get(here(), loopback, { signal: AbortSignal.abort(new Error('too late')) });
    expect(before.content).toContain('too late');
    expect(seen).toHaveLength(2);
  });
});

test('the call starts only once its intent is stored, and is repeated after a crash; the model can set its timeout', () => {
  expect(describeTool(web_get)).toMatchObject({
    name: 'web_get',
    effect: 'keyed',
    timeoutMs: 10_000,
    adjustableTimeout: true,
    truncate: true,
  });
  expect(describeTool(webGet({ timeoutMs: 500 })).timeoutMs).toBe(500);
});

test('F75: the tool is found by its module URL and runs in a tool thread, where no private address is allowed', async () => {
  const under = new PoolUnderTest({ threads: 1 });
  const [described] = await under.pool.describe(webGetTool.href);
  expect(described?.description.name).toBe('web_get');
  const place = { kind: 'thread', url: webGetTool.href, exportName: described?.exportName ?? '' } as const;
  const outcome = await under.runs('web_get', { place, input: { url: here() } });
  expect(outcome.content).toContain('Not allowed: 127.0.0.1');
  expect(seen).toEqual([]);
  await under.pool.close();
});
