/**
 * The hello of a line: the first message of each side, before any frame. It is four bytes with a length (big-endian) and
 * JSON of that length, so that any later version of troupe can read it.
 */
import type { Duplex } from 'node:stream';
import { serialize } from 'node:v8';
import { z } from 'zod';
import { LINE_HELLO_BYTES_MAX } from '../../base/bounds.ts';
import { asError, ConfigError, TroupeError } from '../../base/errors.ts';

const HEADER_BYTES = 4;

const helloSchema = z.object({
  protocol: z.literal('troupe-line'),
  /** The sender's version of troupe. */
  version: z.string().min(1),
  /** The format in which the sender's V8 serialises values. */
  serialization: z.int(),
});
type Hello = z.infer<typeof helloSchema>;

/** The format in which this V8 serialises values. */
const SERIALIZATION = Number(serialize(null)[1]);

/**
 * Sends the hello of this side and reads that of the other side. Both sides judge both hellos alike, so a line that one
 * side accepts is accepted by the other. Bytes after the hello stay in the stream. `peer`: names the other side in
 * errors.
 *
 * Rejects with `ConfigError` if the other side has another version of troupe or of V8's format; it is retryable, since
 * an update of all nodes may be under way. Rejects with a retryable `TroupeError` for a stream that ends, and for bytes
 * that are no hello. After a rejection the stream is ending, and what was sent still arrives.
 */
export async function exchangeHellos(stream: Duplex, version: string, peer: string): Promise<void> {
  const own: Hello = { protocol: 'troupe-line', version, serialization: SERIALIZATION };
  try {
    stream.write(framed(JSON.stringify(own)));
    check(own, parsed(await readHello(stream, peer), peer), peer);
  } catch (error) {
    stream.end();
    // Bytes that nothing reads would keep the stream from its end.
    stream.resume();
    throw error;
  }
}

function framed(text: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  const body = Buffer.from(text);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

function parsed(text: string, peer: string): Hello {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw noHello(peer, asError(error));
  }
  const result = helloSchema.safeParse(value);
  if (!result.success) throw noHello(peer, result.error);
  return result.data;
}

function check(own: Hello, other: Hello, peer: string): void {
  if (other.version !== own.version) {
    throw new ConfigError(
      `${peer} has version ${JSON.stringify(other.version)} of troupe, this node ${JSON.stringify(own.version)}; ` +
        'give all nodes of a cluster the same version',
      { data: { key: 'cluster', found: other.version, expected: own.version }, retryable: true },
    );
  }
  if (other.serialization !== own.serialization) {
    throw new ConfigError(
      `V8 of ${peer} writes format ${other.serialization}, that of this node ${own.serialization} (troupe ` +
        `${own.version}); run all nodes of a cluster on the same version of Node`,
      { data: { key: 'cluster', found: other.serialization, expected: own.serialization }, retryable: true },
    );
  }
}

/** Reads exactly the bytes of a hello, so that the bytes after it stay in the stream. */
function readHello(stream: Duplex, peer: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let length: number | undefined;
    const settled = (): void => {
      stream.off('readable', look);
      stream.off('error', failed);
      stream.off('end', ended);
      stream.off('close', ended);
    };
    const failed = (error: Error): void => {
      settled();
      reject(error);
    };
    const ended = (): void => failed(gone(peer));
    const look = (): void => {
      length ??= bytesOf(stream.read(HEADER_BYTES), HEADER_BYTES)?.readUInt32BE();
      if (length === undefined) return;
      if (length === 0 || length > LINE_HELLO_BYTES_MAX) {
        failed(noHello(peer, new RangeError(`a hello of ${length} bytes: at most ${LINE_HELLO_BYTES_MAX}`)));
        return;
      }
      const body = bytesOf(stream.read(length), length);
      if (body === undefined) return;
      settled();
      resolve(body.toString());
    };
    if (stream.destroyed) {
      reject(gone(peer));
      return;
    }
    stream.on('readable', look);
    stream.on('error', failed);
    stream.on('end', ended);
    stream.on('close', ended);
  });
}

/** The bytes of a read; undefined if they have not arrived. At its end a stream gives fewer bytes than were asked for. */
function bytesOf(read: unknown, bytes: number): Buffer | undefined {
  return Buffer.isBuffer(read) && read.length === bytes ? read : undefined;
}

function gone(peer: string): TroupeError {
  return new TroupeError('internal', `${peer} ended the line before its hello`, { retryable: true });
}

function noHello(peer: string, cause: Error): TroupeError {
  return new TroupeError('internal', `${peer} sent no hello of a line: ${cause.message}`, { retryable: true, cause });
}
