/** Images for tests: the head of a file with its size, and bytes that hardly compress. */
import { createHash } from 'node:crypto';
import type { ContentBlock } from '../../src/index.ts';

/** Base64 of a PNG with this size in its header, of so many bytes. The same seed gives the same image. */
export function png(
  bytes: number,
  { width = 640, height = 480, seed = '' }: { width?: number; height?: number; seed?: string } = {},
): string {
  const head = Buffer.from('89504e470d0a1a0a0000000d494844520000000000000000080200000000000000', 'hex');
  head.writeUInt32BE(width, 16);
  head.writeUInt32BE(height, 20);
  const pixels = createHash('shake256', { outputLength: Math.max(bytes - head.length, 1) })
    .update(seed)
    .digest();
  return Buffer.concat([head, pixels]).toString('base64');
}

/** A block with an image. */
export function imageBlock(data: string, mediaType: 'image/png' | 'image/jpeg' = 'image/png'): ContentBlock {
  return { type: 'image', source: { type: 'base64', media_type: mediaType, data } };
}
