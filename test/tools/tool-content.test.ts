/** Results of blocks: what a tool returns with `content()`, and what becomes of it. */
import { describe, expect, test } from 'vitest';
import { content } from '../../src/index.ts';
import { NO_OUTPUT, resultContent } from '../../src/tools/result-text.ts';
import { imageBlock, png } from '../support/images.ts';

const image = imageBlock(png(1_000)) as Parameters<typeof content>[0][number];

describe('resultContent', () => {
  test('blocks stay blocks, in their order, with clean texts; a plain list stays JSON', () => {
    const found = {
      type: 'search_result',
      source: 'https://a.test',
      title: 'A',
      content: [{ type: 'text', text: 'b' }],
    };
    const blocks = [{ type: 'text', text: 'a\u001b[31m red' }, image, found] as Parameters<typeof content>[0];
    expect(resultContent(content(blocks), 10_000)).toEqual({
      content: '',
      blocks: [{ type: 'text', text: 'a red' }, image, found],
      success: true,
    });
    const list = [{ type: 'text', text: 'a' }];
    expect(resultContent(list, 10_000)).toEqual({ content: JSON.stringify(list), success: true });
  });

  test('a failed call may have blocks; blank texts are left out, and nothing else is no output', () => {
    expect(resultContent(content([image], { isError: true }), 10_000)).toEqual({
      content: '',
      blocks: [image],
      success: false,
    });
    expect(resultContent(content([{ type: 'text', text: ' ' }, image]), 10_000).blocks).toEqual([image]);
    expect(resultContent(content([]), 10_000)).toEqual({ content: NO_OUTPUT, success: true });
  });

  test.each([
    [[{ type: 'video' }], 'content[0].type must be one of text, image, document, search_result; got string "video"'],
    [
      [
        { type: 'text', text: 'a' },
        { type: 'image', source: { type: 'base64' } },
      ],
      'content[1].source.media_type must be',
    ],
    [[{ type: 'text', text: 'a', citations: [] }], 'content[0].citations must be left out'],
    [
      [{ type: 'search_result', source: 'a', title: 'b', content: [] }],
      'content[0].content must be a list of text blocks',
    ],
    [
      [{ type: 'search_result', source: 'a', title: 'b', content: [{ type: 'image' }] }],
      'content[0].content[0] must be a text',
    ],
    ['no list', 'content must be a string or a list of blocks'],
    [[() => 1], 'not serialisable'],
  ])('a block that the API would refuse fails the call and is named: %j', (blocks, why) => {
    const result = resultContent(content(blocks as never), 10_000);
    expect(result.success).toBe(false);
    expect(result.content).toContain(why);
  });

  test('more bytes than may cross are a failure that says how many', () => {
    const result = resultContent(content([image]), 500);
    expect(result).toEqual({
      content: expect.stringMatching(/^result has \d+ bytes, of which 500 are allowed/),
      success: false,
    });
  });
});
