/** The size of an image is read from the first bytes of its file, in each format the API takes. */
import { describe, expect, it } from 'vitest';
import { imageSize } from '../../src/base/image-size.ts';

/** Bytes given as text in hexadecimal digits; blanks do not count. */
function sizeOf(hex: string): ReturnType<typeof imageSize> {
  return imageSize(Buffer.from(hex.replaceAll(' ', ''), 'hex').toString('base64'));
}

const WEBP = '52494646 00000000 57454250';

describe('imageSize', () => {
  it.each([
    ['PNG', '89504e470d0a1a0a 0000000d 49484452 00000280 000001e0', 640, 480],
    ['GIF', '474946383961 8002 e001', 640, 480],
    ['JPEG with a segment before its frame', 'ffd8 ffe0 0004 0000 ffc2 0011 08 01e0 0280', 640, 480],
    ['WebP, lossy', `${WEBP} 56503820 00000000 000000 9d012a 8042 e001`, 640, 480],
    ['WebP, lossless', `${WEBP} 5650384c 00000000 2f 7fc27700 0000000000`, 640, 480],
    ['WebP, extended', `${WEBP} 56503858 0a000000 00000000 7f0200 df0100`, 640, 480],
  ])('%s', (_format, hex, width, height) => {
    expect(sizeOf(hex)).toEqual({ width, height });
  });

  it.each([
    ['nothing', ''],
    ['a PNG that breaks off', '89504e470d0a1a0a'],
    ['a JPEG without a frame', 'ffd8 ffe0 0004 0000'],
    ['a JPEG whose segment has no length', 'ffd8 ffe0 0000 0000 0000 0000 0000'],
    ['a WebP of another kind', `${WEBP} 41424344 00000000 0000000000000000000000`],
    ['text', '68656c6c6f'],
  ])('%s has no size', (_what, hex) => {
    expect(sizeOf(hex)).toBeUndefined();
  });

  it('never throws, whatever the bytes', () => {
    for (const start of ['89504e47', '47494638', 'ffd8', WEBP]) {
      for (let length = 0; length < 40; length += 1) {
        for (const byte of ['00', 'ff', 'c0']) sizeOf(start + byte.repeat(length));
      }
    }
  });
});
