/**
 * Type, width and height of an image, from the first bytes of its file: PNG, GIF, JPEG and WebP. Pure.
 * Sources: PNG (W3C), GIF89a, ITU T.81 (JPEG markers), RFC 9649 (WebP).
 */

/** Pixels of an image. */
export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** Base64 characters of the bytes that identify a format. */
const MAGIC_CHARACTERS = 16;
/** Base64 characters that are decoded: in a photograph, the size may come after a preview image. */
const CHARACTERS_READ = 262_144;

/**
 * The media type that the first bytes of a file in base64 show; undefined if they match no image type that the API
 * accepts.
 */
export function imageType(base64: string): string | undefined {
  const magic = Buffer.from(base64.slice(0, MAGIC_CHARACTERS), 'base64').toString('latin1');
  if (magic.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (magic.startsWith('GIF87a') || magic.startsWith('GIF89a')) return 'image/gif';
  if (magic.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  return magic.startsWith('RIFF') && magic.slice(8, 12) === 'WEBP' ? 'image/webp' : undefined;
}

/** The longest side of an image in base64, in pixels; 0 if its first bytes do not reveal it. */
export function imageSide(base64: string): number {
  const size = imageSize(base64);
  return size === undefined ? 0 : Math.max(size.width, size.height);
}

/** The size of an image in base64; undefined if its first bytes do not reveal it. */
export function imageSize(base64: string): ImageSize | undefined {
  const bytes = Buffer.from(base64.slice(0, CHARACTERS_READ), 'base64');
  const magic = bytes.toString('latin1', 0, 16);
  if (magic.startsWith('\x89PNG') && bytes.length >= 24) {
    return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  }
  if (magic.startsWith('GIF8') && bytes.length >= 10) {
    return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
  }
  if (magic.startsWith('\xff\xd8')) return jpegSize(bytes);
  if (magic.startsWith('RIFF') && magic.slice(8, 12) === 'WEBP' && bytes.length >= 30) return webpSize(bytes);
  return undefined;
}

/** The size of a JPEG. Its frame header is found by the lengths of the segments before it. */
function jpegSize(bytes: Buffer): ImageSize | undefined {
  let at = 2;
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    // The markers c4, c8 and cc are in the range of the frame headers, but are not: they stand for Huffman tables, an
    // extension and arithmetic tables.
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return undefined;
}

function webpSize(bytes: Buffer): ImageSize | undefined {
  const kind = bytes.toString('latin1', 12, 16);
  if (kind === 'VP8 ') return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
  if (kind === 'VP8X') return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  if (kind !== 'VP8L') return undefined;
  const packed = bytes.readUInt32LE(21);
  return { width: (packed & 0x3fff) + 1, height: ((packed >>> 14) & 0x3fff) + 1 };
}
