/** Classifies the body of a web response and converts it to the text for the model (contract §11.3, F76). */
import { pipeline, type Readable, type Transform } from 'node:stream';
import { TextDecoder } from 'node:util';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { WEB_CHARSET_BYTES } from '../../base/bounds.ts';
import { htmlToMarkdown } from './html-markdown.ts';
import { WebError } from './web-exchange.ts';

/** How a body is shown. A `binary` body is not shown. */
export type BodyKind = 'html' | 'json' | 'text' | 'binary';

/** The type of a body, from the response headers. */
export interface BodyType {
  readonly kind: BodyKind;
  /** Type and subtype, lower case; empty when the response names none. */
  readonly mediaType: string;
  readonly charset: string | undefined;
}

/** A body, or its beginning. */
export interface BodyBytes {
  readonly bytes: Uint8Array;
  readonly isTruncated: boolean;
}

const KINDS: readonly (readonly [RegExp, BodyKind])[] = [
  [/^(?:text\/html|application\/xhtml\+xml)$/u, 'html'],
  [/^(?:application|text)\/json$|\+json$/u, 'json'],
  [/^text\/|\+xml$|\+yaml$/u, 'text'],
  [/^application\/(?:xml|yaml|x-yaml|toml|javascript|ecmascript|x-javascript|graphql|sql|x-sh|rtf)$/u, 'text'],
  [/^application\/(?:x-ndjson|jsonl|json-seq|x-www-form-urlencoded|x-subrip|x-tex|x-bibtex)$/u, 'text'],
];
/** The most characters of a media type that are kept; registered types are shorter. */
const TYPE_SHOWN_MAX = 127;
/**
 * Matches complete strings of a JSON text, and the blanks between its parts. Each can match in one way only, so
 * matching takes linear time.
 */
const JSON_STRINGS_AND_BLANKS = /"[^"\\]*(?:\\.[^"\\]*)*"|[ \t\r\n]+/gsu;

/** Parses `content-type`; a missing header counts as text. */
export function bodyType(header: string | undefined): BodyType {
  const [first = '', ...parameters] = (header ?? '').split(';');
  const mediaType = first.trim().toLowerCase().slice(0, TYPE_SHOWN_MAX);
  const charset = parameters.map((part) => /^\s*charset\s*=\s*"?([^"\s]+)/iu.exec(part)?.[1]).find(Boolean);
  const kind = mediaType === '' ? 'text' : (KINDS.find(([form]) => form.test(mediaType))?.[1] ?? 'binary');
  return { kind, mediaType, charset };
}

/**
 * The first `bytesMax` decoded bytes of a body. The body is decoded as it arrives, and only up to this bound, so a
 * small compressed body cannot fill the memory. Rejects with `WebError` for an unknown encoding, and leaves `source`
 * open; in all other cases `source` is destroyed. Rejects with the connection's error if the connection fails.
 */
export async function readBody(source: Readable, encoding: string | undefined, bytesMax: number): Promise<BodyBytes> {
  const decoder = decoderOf(encoding);
  // A failure of the source must destroy the decoder, so that the reader receives the error.
  if (decoder !== undefined) pipeline(source, decoder, () => undefined);
  const chunks: Buffer[] = [];
  let room = bytesMax;
  try {
    for await (const chunk of (decoder ?? source) as AsyncIterable<Buffer>) {
      if (chunk.length > room) {
        chunks.push(chunk.subarray(0, room));
        return { bytes: Buffer.concat(chunks), isTruncated: true };
      }
      chunks.push(chunk);
      room -= chunk.length;
    }
  } finally {
    source.destroy();
  }
  return { bytes: Buffer.concat(chunks), isTruncated: false };
}

function decoderOf(encoding: string | undefined): Transform | undefined {
  switch ((encoding ?? '').trim().toLowerCase()) {
    case '':
    case 'identity':
      return undefined;
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    default:
      throw new WebError(`Unknown content encoding: ${JSON.stringify(encoding)}`);
  }
}

/** The options for showing a body. */
export interface ShowOptions {
  /** The base of relative links. */
  readonly url: URL;
  /** A page with fewer characters than this gets a warning. */
  readonly charactersMin: number;
}

/**
 * A body as text for the model. If the body was converted, a note says so first. Throws `WebError` for a body that is
 * not text.
 */
export async function showBody(type: BodyType, body: BodyBytes, options: ShowOptions): Promise<string> {
  if (type.kind === 'binary') throw new WebError(`Not a text: ${type.mediaType}`);
  if (type.mediaType === '' && body.bytes.includes(0))
    throw new WebError('Not a text: the response has no content type and contains a zero byte');
  const text = textOf(type, body);
  if (type.kind === 'json') return compactJson(text);
  if (type.kind !== 'html') return text;
  const markdown = await htmlToMarkdown(text, options.url);
  const isShort = markdown.length < options.charactersMin;
  const warning = `\n[Warning: the page has little text (${markdown.length} characters); it may need a browser that runs scripts]`;
  return `[Converted: HTML → Markdown]${isShort ? warning : ''}\n\n${markdown}`;
}

/**
 * The decoded text. The character set comes from a byte order mark, otherwise from the header, otherwise from the page
 * itself, otherwise it is UTF-8.
 */
function textOf({ charset, kind }: BodyType, { bytes, isTruncated }: BodyBytes): string {
  const decoder = decoderFor(markedCharset(bytes) ?? charset ?? (kind === 'html' ? pageCharset(bytes) : undefined));
  // A character that was cut in the middle is left out.
  return decoder.decode(bytes, { stream: isTruncated });
}

function decoderFor(charset: string | undefined): TextDecoder {
  try {
    return new TextDecoder(charset ?? 'utf-8');
  } catch {
    // The character set has an unknown name. UTF-8 is the most likely one, and its decoder marks bytes that do not fit.
    return new TextDecoder();
  }
}

/** The character set of a byte order mark. */
function markedCharset(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 'utf-8' : undefined;
}

function pageCharset(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, WEB_CHARSET_BYTES)).toString('latin1');
  return /<meta\s[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([\w.:-]+)/iu.exec(head)?.[1];
}

/** JSON without the blanks between its parts. The parts do not change, even large numbers and duplicate names. */
function compactJson(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    // The body is not JSON, despite its type, so it is returned unchanged.
    return text;
  }
  const compact = text.replace(JSON_STRINGS_AND_BLANKS, (part) => (part.startsWith('"') ? part : ''));
  return `[Converted: JSON → compact text]\n\n${compact}`;
}
