/** R61 where content enters: the type of an image, its size, and its size among many. */
import { describe, expect, test } from 'vitest';
import { checkBlocks } from '../../src/base/content-rules.ts';
import { ContentError } from '../../src/base/errors.ts';
import { imageBlock, png } from '../support/images.ts';

function problemOf(blocks: readonly unknown[]): string | undefined {
  try {
    checkBlocks(blocks, 'content', 'message');
    return undefined;
  } catch (error) {
    if (error instanceof ContentError) return error.message;
    throw error;
  }
}

const text = { type: 'text', text: 'look' };

describe('R61', () => {
  test('an image whose bytes are of another type is refused, and both types are named', () => {
    expect(problemOf([text, imageBlock(png(100), 'image/jpeg')])).toBe(
      'content[1].source.media_type must be image/png, as the data is; got string "image/jpeg"',
    );
    const pdf = { type: 'base64', media_type: 'application/pdf', data: png(100) };
    expect(problemOf([{ type: 'document', source: pdf }])).toContain('must be image/png');
    expect(problemOf([text, imageBlock(png(100))])).toBeUndefined();
  });

  test('an image of more than 8000 pixels a side is refused with its place, its size and the remedy', () => {
    expect(problemOf([text, imageBlock(png(100, { width: 8_000, height: 8_000 }))])).toBeUndefined();
    const problem = problemOf([text, imageBlock(png(100, { width: 8_001, height: 20 }))]);
    expect(problem).toContain('content[1].source.data must be an image of at most 8000 pixels a side; scale it down');
    expect(problem).toContain('8001 x 20 pixels');
  });

  test('among more than 20 images none may have more than 2000 pixels a side', () => {
    const large = imageBlock(png(100, { width: 2_001, height: 20 }));
    const small = imageBlock(png(100, { width: 2_000, height: 20 }));
    expect(problemOf([large, ...Array<unknown>(19).fill(small)])).toBeUndefined();
    expect(problemOf(Array<unknown>(21).fill(small))).toBeUndefined();
    expect(problemOf([...Array<unknown>(20).fill(small), large])).toContain('content[20].source.data must be');
  });
});
