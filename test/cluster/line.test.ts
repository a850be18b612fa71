// Goal: only nodes with the secret and the same version get a line, and every line and every failure has an end.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect as connectPlain, createServer, type Server, type Socket } from 'node:net';
import {
  connect as connectTls,
  createServer as createTlsServer,
  type PSKCallbackNegotation,
  type TLSSocket,
} from 'node:tls';
import { promisify } from 'node:util';
import { serialize } from 'node:v8';
import { afterEach, describe, expect, test } from 'vitest';
import {
  LINE_HELLO_BYTES_MAX,
  LINE_HELLO_MS,
  LINE_REPORT_MS,
  LINE_SILENCE_MS,
  LINES_MAX,
} from '../../src/base/bounds.ts';
import { ConfigError, TimeoutError, TroupeError } from '../../src/base/errors.ts';
import { connectLine, type Line } from '../../src/cluster/line/line-client.ts';
import { exchangeHellos } from '../../src/cluster/line/line-hello.ts';
import { type LineServer, listenForLines } from '../../src/cluster/line/line-server.ts';
import { clientTls, serverTls } from '../../src/cluster/line/line-tls.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import type { Endpoint } from '../../src/threads/endpoint.ts';
import { eventually } from '../support/eventually.ts';
import { memoryStreams } from './fixtures/memory-streams.ts';

const SECRET = 'the secret of this cluster, 32 characters';
const VERSION = '1.2.3';
const LOOPBACK = '127.0.0.1';

/** Everything that a test opened. */
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Node {
  readonly server: LineServer;
  readonly clock: ManualClock;
  /** The endpoints of accepted lines. */
  readonly lines: Endpoint[];
  readonly failures: { readonly message: string; readonly error: Error }[];
}

/** A node that answers lines. */
async function node(): Promise<Node> {
  const clock = manualClock();
  const [lines, failures]: [Endpoint[], Node['failures']] = [[], []];
  const server = await listenForLines({
    listen: { host: LOOPBACK, port: 0 },
    secret: SECRET,
    version: VERSION,
    clock,
    failed: (message, error) => void failures.push({ message, error }),
    accepted: (endpoint) => {
      lines.push(endpoint);
      endpoint.handle('echo', (payload) => payload);
      endpoint.handle('never', () => new Promise(() => undefined));
      endpoint.handle('fail', () => {
        throw new ConfigError('refused', { data: { key: 'x' }, cause: new TypeError('below') });
      });
      // Sent before the client can know that the line is open.
      endpoint.notify('welcome', 'first');
    },
  });
  closers.push(() => server.close());
  return { server, clock, lines, failures };
}

interface Asked {
  readonly secret?: string;
  readonly version?: string;
  readonly clock?: ManualClock;
  readonly timeoutMs?: number;
  readonly failed?: (message: string, error: Error) => void;
}

async function lineTo(address: LineServer['address'], asked: Asked = {}): Promise<Line> {
  const line = await connectLine({
    address,
    secret: SECRET,
    version: VERSION,
    clock: manualClock(),
    timeoutMs: 5_000,
    failed: (message, error) => {
      throw new Error(message, { cause: error });
    },
    ...asked,
  });
  closers.push(() => line.close());
  return line;
}

/** A plain server that a test fills with behaviour. */
async function plainServer(connected: (socket: Socket) => void): Promise<LineServer['address']> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    connected(socket);
  });
  server.listen(0, LOOPBACK);
  await once(server, 'listening');
  closers.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return { host: LOOPBACK, port: (server.address() as AddressInfo).port };
}

/** A plain connection, and everything it received when it has closed. */
function plainClient(port: number): { readonly socket: Socket; readonly received: Promise<string> } {
  const socket = connectPlain(port, LOOPBACK);
  const chunks: Buffer[] = [];
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const received = new Promise<string>((resolve) => {
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
  });
  closers.push(() => socket.destroy());
  return { socket, received };
}

/** A connection that knows the secret and does not speak after its handshake. */
async function securedClient(port: number): Promise<{ socket: TLSSocket; closed: Promise<unknown> }> {
  const socket = connectTls({ ...clientTls(SECRET), host: LOOPBACK, port });
  socket.on('error', () => socket.destroy());
  const closed = once(socket, 'close');
  closers.push(() => socket.destroy());
  await once(socket, 'secureConnect');
  socket.resume();
  return { socket, closed };
}

/** The key of the nodes, as a client gives it in a handshake. */
function keyOf(hint: string | null): PSKCallbackNegotation {
  const found = clientTls(SECRET).pskCallback?.(hint);
  if (found === undefined || found === null) throw new Error('a client has the key');
  return found;
}

function helloOf(members: Readonly<Record<string, unknown>> | string): Buffer {
  const body = Buffer.from(typeof members === 'string' ? members : JSON.stringify(members));
  const header = Buffer.alloc(4);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

const FORMAT = Number(serialize(null)[1]);
const PEER = 'the node at test';

describe('hello', () => {
  test('equal hellos are accepted on both sides, and bytes behind them stay in the stream', async () => {
    const [near, far] = memoryStreams();
    near.deliver = (chunk) => {
      for (const byte of chunk) far.push(Buffer.of(byte));
    };
    const both = [exchangeHellos(near, VERSION, PEER), exchangeHellos(far, VERSION, PEER)];
    near.write('behind');
    await Promise.all(both);
    expect(String(far.read('behind'.length))).toBe('behind');
    near.end();
    far.end();
  });

  test.each([
    ['version', { version: '9.9.9', serialization: FORMAT }, ['9.9.9', VERSION]],
    ['format of V8', { version: VERSION, serialization: FORMAT + 1 }, [String(FORMAT + 1), String(FORMAT), VERSION]],
    ['older format of V8', { version: VERSION, serialization: FORMAT - 1 }, [String(FORMAT - 1), String(FORMAT)]],
  ])(
    'another %s is refused with an error that names both, and the own hello still arrives',
    async (_name, hello, names) => {
      const [near, far] = memoryStreams();
      const closed = once(near, 'close');
      far.write(helloOf({ protocol: 'troupe-line', ...hello, later: 'members of a later version' }));
      far.write('bytes that nothing reads');
      const error = await exchangeHellos(near, VERSION, PEER).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ConfigError);
      expect(error).toMatchObject({ data: { key: 'cluster' }, retryable: true });
      for (const name of [PEER, ...names]) expect((error as Error).message).toContain(name);
      far.resume();
      await once(far, 'end');
      far.end();
      await closed;
      expect(near.written).toEqual([helloOf({ protocol: 'troupe-line', version: VERSION, serialization: FORMAT })]);
    },
  );

  test.each([
    ['no JSON', helloOf('no JSON')],
    ['another protocol', helloOf({ protocol: 'other', version: VERSION, serialization: FORMAT })],
    ['no version', helloOf({ protocol: 'troupe-line', serialization: FORMAT })],
    ['null', helloOf('null')],
    ['an empty one', helloOf('')],
    ['one that is too long', helloOf('x'.repeat(LINE_HELLO_BYTES_MAX + 1))],
    ['a length alone, far too long', Buffer.of(0xff, 0xff, 0xff, 0xff)],
  ])('a hello with %s is refused', async (_name, bytes) => {
    const [near, far] = memoryStreams();
    far.write(bytes);
    await expect(exchangeHellos(near, VERSION, PEER)).rejects.toMatchObject({
      code: 'internal',
      retryable: true,
      message: expect.stringContaining('sent no hello'),
    });
    far.end();
  });

  test.each([0, 3, 4, 20])('a stream that ends after %i bytes of a hello is refused', async (bytes) => {
    const [near, far] = memoryStreams();
    far.write(helloOf({ protocol: 'troupe-line', version: VERSION, serialization: FORMAT }).subarray(0, bytes));
    far.end();
    await expect(exchangeHellos(near, VERSION, PEER)).rejects.toMatchObject({ retryable: true });
  });

  test('a stream that has been destroyed is refused', async () => {
    const [near] = memoryStreams();
    near.destroy();
    await expect(exchangeHellos(near, VERSION, PEER)).rejects.toMatchObject({ retryable: true });
  });
});

describe('a line', () => {
  test('carries calls, notes and errors in both directions, in order', async () => {
    const { server, lines, failures } = await node();
    const line = await lineTo(server.address);
    const notes: unknown[] = [];
    line.handle('welcome', (payload) => void notes.push(payload));
    line.handle('double', (payload) => Number(payload) * 2);
    const value = { map: new Map([[1, new Set(['a'])]]), bytes: new Uint8Array([1, 2]), none: undefined, big: 10n };
    expect(await line.call('echo', value)).toEqual(value);
    expect(notes).toEqual(['first']);
    const numbers = Array.from({ length: 5_000 }, (_none, at) => at);
    expect(await Promise.all(numbers.map((number) => line.call('echo', number)))).toEqual(numbers);
    expect(await lines[0]?.call('double', 4)).toBe(8);
    const text = 'ä€'.repeat(2 * 1024 * 1024);
    expect((await line.call('echo', text)) === text).toBe(true);
    const error = await line.call('fail', 0).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ code: 'config', data: { key: 'x' } });
    expect((error as Error).cause).toBeInstanceOf(TypeError);
    expect(failures).toEqual([]);
  });

  test('the time limit counts until the line is open', async () => {
    const { server } = await node();
    const own = manualClock();
    const line = await lineTo(server.address, { clock: own, timeoutMs: LINE_SILENCE_MS / 3 });
    await own.advance(LINE_SILENCE_MS / 2);
    expect(await line.call('echo', 1)).toBe(1);
  });

  test('nothing that it carries can be read on the way', async () => {
    const { server } = await node();
    const passed: Buffer[] = [];
    const address = await plainServer((socket) => {
      const onward = connectPlain(server.address.port, LOOPBACK);
      onward.on('error', () => socket.destroy());
      for (const [from, to] of [[socket, onward] as const, [onward, socket] as const]) {
        from.on('data', (chunk: Buffer) => passed.push(chunk));
        from.pipe(to);
      }
    });
    const own = manualClock();
    const line = await lineTo(address, { clock: own });
    await line.call('echo', 'a text that only the nodes know');
    line.close();
    await eventually(() => own.pending === 0);
    const seen = Buffer.concat(passed).toString('latin1');
    expect(seen.length).toBeGreaterThan(200);
    for (const hidden of ['only the nodes know', SECRET, VERSION, 'echo']) expect(seen).not.toContain(hidden);
  });

  test('calls that wait reject when the other side closes, and the line is gone', async () => {
    const { server, lines } = await node();
    const line = await lineTo(server.address);
    const waiting = line.call('never', 0);
    const gone = new Promise<void>((resolve) => line.onClose(resolve));
    await line.call('echo', 0);
    lines[0]?.close();
    await expect(waiting).rejects.toMatchObject({ code: 'internal', retryable: true });
    await gone;
    await expect(line.call('echo', 0)).rejects.toMatchObject({ retryable: true });
  });

  test('a network that swallows everything ends both sides after the silence', async () => {
    const { server, clock, lines, failures } = await node();
    let isSwallowing = false;
    const address = await plainServer((socket) => {
      const onward = connectPlain(server.address.port, LOOPBACK);
      onward.on('error', () => socket.destroy());
      socket.on('data', (chunk: Buffer) => isSwallowing || onward.write(chunk));
      onward.on('data', (chunk: Buffer) => isSwallowing || socket.write(chunk));
    });
    const own = manualClock();
    const ends: Error[] = [];
    const line = await lineTo(address, { clock: own, failed: (_message, error) => void ends.push(error) });
    await line.call('echo', 0);
    isSwallowing = true;
    const waiting = line.call('echo', 1);
    const refused = expect(waiting).rejects.toMatchObject({ retryable: true });
    const goneThere = new Promise<void>((resolve) => lines[0]?.onClose(resolve));
    await own.advance(LINE_SILENCE_MS);
    await clock.advance(LINE_SILENCE_MS);
    await refused;
    await goneThere;
    expect(ends).toEqual([expect.any(TimeoutError)]);
    expect(failures).toEqual([{ message: expect.stringContaining('broke'), error: expect.any(TimeoutError) }]);
    expect([own.pending, clock.pending]).toEqual([0, 0]);
  });

  test('LS3: close ends every line and connection, sends what was posted, and leaves no timer', async () => {
    const { server, clock, lines } = await node();
    const own = manualClock();
    const line = await lineTo(server.address, { clock: own });
    const notes: unknown[] = [];
    line.handle('last', (payload) => void notes.push(payload));
    const gone = new Promise<void>((resolve) => line.onClose(resolve));
    const silent = plainClient(server.address.port);
    const secured = await securedClient(server.address.port);
    await eventually(() => lines.length === 1);
    lines[0]?.notify('last', 'words');
    await Promise.all([server.close(), server.close()]);
    await Promise.all([gone, silent.received, secured.closed]);
    expect(notes).toEqual(['words']);
    expect([own.pending, clock.pending]).toEqual([0, 0]);
    await expect(lineTo(server.address)).rejects.toMatchObject({ code: 'internal', retryable: true });
  });

  test.each(['closed', 'unclosed'])('LS5: a process whose line server is %s can end', async (how) => {
    const loader = new URL('../loader/register.mjs', import.meta.url).href;
    const program = new URL('./fixtures/line-process.ts', import.meta.url);
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', loader, program.pathname, how]);
    expect(stdout).toBe('answered');
  });
});

describe('a connection that is no line', () => {
  test('another secret is a ConfigError on both sides, and reported once in `LINE_REPORT_MS`', async () => {
    const { server, clock, lines, failures } = await node();
    const own = manualClock();
    const other = { secret: 'another secret, with 32 characters too', clock: own };
    const refused = { code: 'config', data: { key: 'postgres.secret' }, retryable: false };
    for (let attempts = 0; attempts < 2; attempts += 1) {
      const error: unknown = await lineTo(server.address, other).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ConfigError);
      expect(error).toMatchObject(refused);
      for (const secret of [SECRET, other.secret]) expect((error as Error).message).not.toContain(secret);
    }
    await eventually(() => failures.length === 1);
    expect(failures[0]?.error).toBeInstanceOf(ConfigError);
    expect(failures[0]?.error).toMatchObject(refused);
    await clock.advance(LINE_REPORT_MS);
    await expect(lineTo(server.address, other)).rejects.toMatchObject(refused);
    await eventually(() => failures.length === 2 && own.pending === 0);
    expect(lines).toEqual([]);
  });

  test('another version is refused on both sides', async () => {
    const { server, lines, failures } = await node();
    await expect(lineTo(server.address, { version: '9.9.9' })).rejects.toMatchObject({
      name: 'ConfigError',
      data: { key: 'cluster', found: VERSION, expected: '9.9.9' },
    });
    await eventually(() => failures.length === 1);
    expect(failures[0]?.error).toMatchObject({
      name: 'ConfigError',
      data: { key: 'cluster', found: '9.9.9', expected: VERSION },
    });
    expect(lines).toEqual([]);
  });

  test('plain bytes are refused, and receive nothing that helps', async () => {
    const { server, lines, failures } = await node();
    const { socket, received } = plainClient(server.address.port);
    socket.write(helloOf({ protocol: 'troupe-line', version: VERSION, serialization: FORMAT }));
    expect(await received).not.toContain('troupe');
    await eventually(() => failures.length === 1);
    expect(failures[0]?.message).toBe('a connection of no node was refused');
    expect(lines).toEqual([]);
  });

  test.each([
    ['without the key', { rejectUnauthorized: false }, 'HANDSHAKE_FAILURE'],
    [
      'with the key under another name',
      { ...clientTls(SECRET), pskCallback: (hint: string | null) => ({ ...keyOf(hint), identity: 'other' }) },
      'UNKNOWN_PSK_IDENTITY',
    ],
  ])('a TLS client %s is refused', async (_name, options, code) => {
    const { server, lines } = await node();
    const socket = connectTls({ ...options, host: LOOPBACK, port: server.address.port });
    const [error] = await once(socket, 'error');
    expect(error).toMatchObject({ code: expect.stringContaining(code) });
    expect(lines).toEqual([]);
  });

  test('LS2: a client that says nothing is ended, before its handshake and after it', async () => {
    const { server, clock, lines } = await node();
    const silent = plainClient(server.address.port);
    const secured = await securedClient(server.address.port);
    let ended = 0;
    for (const end of [silent.received, secured.closed]) {
      void end.then(() => {
        ended += 1;
      });
    }
    await eventually(() => clock.pending === 2);
    await clock.advance(LINE_HELLO_MS - 1);
    expect(ended).toBe(0);
    await clock.advance(1);
    await eventually(() => ended === 2);
    expect([lines, clock.pending]).toEqual([[], 0]);
  });

  test('garbage after the hello ends the line', async () => {
    const { server, clock, lines, failures } = await node();
    const { socket, closed } = await securedClient(server.address.port);
    socket.write(helloOf({ protocol: 'troupe-line', version: VERSION, serialization: FORMAT }));
    await eventually(() => lines.length === 1);
    const gone = new Promise<void>((resolve) => lines[0]?.onClose(resolve));
    socket.write(Buffer.from('\0\0\0\x07garbage'));
    await Promise.all([gone, closed]);
    expect(failures).toEqual([
      { message: expect.stringContaining('broke'), error: expect.objectContaining({ code: 'internal' }) },
    ]);
    expect(clock.pending).toBe(0);
  });

  test('LS1: a connection beyond `LINES_MAX` is ended, and another has its place later', async () => {
    const { server, clock, failures } = await node();
    const open = Array.from({ length: LINES_MAX }, () => plainClient(server.address.port));
    await eventually(() => clock.pending === LINES_MAX);
    await expect(lineTo(server.address)).rejects.toMatchObject({ code: 'internal', retryable: true });
    await eventually(() => failures.length > 0);
    expect(failures[0]?.error).toMatchObject({ code: 'limit', data: { limit: 'lines' } });
    open[0]?.socket.destroy();
    await eventually(() => clock.pending === LINES_MAX - 1);
    const line = await lineTo(server.address);
    expect(await line.call('echo', 1)).toBe(1);
  });

  test('nobody answers at the address: a retryable error, at once or after the time', async () => {
    const closed = await node();
    await closed.server.close();
    const error: unknown = await lineTo(closed.server.address).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(TroupeError);
    expect(error).toMatchObject({ retryable: true, message: expect.stringContaining('ECONNREFUSED') });

    const clock = manualClock();
    let connections = 0;
    const silent = await plainServer(() => {
      connections += 1;
    });
    const connecting = lineTo(silent, { clock });
    const late = expect(connecting).rejects.toMatchObject({ name: 'TimeoutError', retryable: true });
    await eventually(() => connections === 1);
    await clock.advance(5_000);
    await late;
    expect(clock.pending).toBe(0);
  });

  test('a node that says nothing after the handshake: a TimeoutError', async () => {
    const clock = manualClock();
    let handshakes = 0;
    const silent = createTlsServer(serverTls(SECRET), (socket) => {
      handshakes += 1;
      socket.resume();
    });
    silent.listen(0, LOOPBACK);
    await once(silent, 'listening');
    closers.push(async () => {
      silent.close();
      await once(silent, 'close');
    });
    const connecting = lineTo({ host: LOOPBACK, port: (silent.address() as AddressInfo).port }, { clock });
    const late = expect(connecting).rejects.toMatchObject({ name: 'TimeoutError', retryable: true });
    await eventually(() => handshakes === 1);
    await clock.advance(5_000);
    await late;
    await eventually(() => clock.pending === 0);
  });

  test('an address of another service is a retryable error', async () => {
    const address = await plainServer((socket) => socket.end('220 mail.example.org ESMTP\r\n'));
    await expect(lineTo(address)).rejects.toMatchObject({ code: 'internal', retryable: true });
  });

  test('a port in use is a ConfigError that names the option', async () => {
    const { server } = await node();
    const listening = listenForLines({
      listen: server.address,
      secret: SECRET,
      version: VERSION,
      clock: manualClock(),
      accepted: () => undefined,
      failed: () => undefined,
    });
    await expect(listening).rejects.toMatchObject({
      name: 'ConfigError',
      message: expect.stringContaining('EADDRINUSE'),
      data: { key: 'postgres.listen', port: server.address.port },
    });
  });
});
