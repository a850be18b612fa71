/**
 * Goal: the files of a directory become a plan with a valid, unique reader for each file. The plan can be read back
 * from its message.
 */
import { chmod, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkNickname } from '../../../src/base/ids.ts';
import { pathOfTask, planMessage, planOf, planReview, reviewId, taskOf } from '../../../src/cli/review/plan.ts';
import { findSourceFiles } from '../../../src/cli/review/source-files.ts';
import { directoryWith } from '../support/program.ts';

const order = { directory: '/d', model: 'scripted', limit: 500 } as const;

describe('the walk', () => {
  test('finds text files with source names, by path, and skips hidden files, dependencies and builds', async () => {
    const root = await directoryWith({
      'b.ts': 'b',
      'a/z.py': 'z',
      'a/deep/er/x.rs': 'x',
      'empty.js': '',
      'README.md': 'no source',
      'node_modules/pkg/index.js': 'not ours',
      'dist/b.js': 'made',
      '.git/hook.sh': 'hidden',
      '.hidden.ts': 'hidden',
    });
    expect(await findSourceFiles(root)).toEqual({
      files: [
        { path: 'a/deep/er/x.rs', bytes: 1 },
        { path: 'a/z.py', bytes: 1 },
        { path: 'b.ts', bytes: 1 },
        { path: 'empty.js', bytes: 0 },
      ],
      passedOver: [],
      isCut: false,
    });
  });

  test('skips files that are too large, binary or unreadable, and follows no link', async () => {
    const root = await directoryWith({
      'ok.ts': 'ok',
      'large.ts': 'x'.repeat(200_001),
      'limit.ts': 'x'.repeat(200_000),
      'film.ts': new Uint8Array([71, 0, 0, 16]),
      'locked.ts': 'secret',
    });
    await chmod(join(root, 'locked.ts'), 0o000);
    await symlink(join(root, 'ok.ts'), join(root, 'link.ts'));
    await symlink(root, join(root, 'loop'));
    const { files, passedOver } = await findSourceFiles(root);
    const paths = files.map(({ path }) => path).filter((path) => path !== 'locked.ts');
    expect(paths).toEqual(['limit.ts', 'ok.ts']);
    // Root may read everything, so root also reads that file.
    expect(passedOver.filter((path) => path !== 'locked.ts')).toEqual(['film.ts', 'large.ts']);
  });

  test('rejects for a missing directory', async () => {
    await expect(findSourceFiles('/nonexistent/directory')).rejects.toThrow('ENOENT');
  });
});

describe('the plan', () => {
  test('gives every file a valid, unique nickname, whatever its path', () => {
    const part = fc.oneof(
      fc.stringMatching(/^[\w.-]{1,20}$/),
      fc.string({ minLength: 1, maxLength: 8, unit: 'grapheme' }),
    );
    const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
    fc.assert(
      fc.property(fc.array(path, { maxLength: 40 }), (paths) => {
        const files = paths.map((each) => ({ path: each, bytes: 1 }));
        const taken = new Set<string>();
        for (const { reader } of planReview(order, { files, passedOver: [], isCut: false }).files) {
          expect(checkNickname(reader, taken)).toEqual({ name: reader });
          taken.add(reader);
        }
        expect(taken.size).toBe(paths.length);
      }),
    );
  });

  test('names readers by the end of the path; the limit cuts the plan, and the files left out are counted', () => {
    const files = ['src/runtime/shard.ts', 'src/melete.ts', '1.ts', 'src/runtime/shard.js'].map((path) => ({
      path,
      bytes: 1,
    }));
    const plan = planReview(
      { ...order, limit: 4 },
      { files: [...files, { path: 'z.ts', bytes: 1 }], passedOver: ['big.ts'], isCut: false },
    );
    expect(plan.files.map(({ reader }) => reader)).toEqual([
      'src-runtime-shard',
      'src-melete',
      'file-1',
      'src-runtime-shard-2',
    ]);
    expect(plan.leftOut).toBe(2);
  });

  test('is read back from its message; other messages hold no plan', () => {
    const plan = planReview(order, { files: [{ path: 'a "b".ts', bytes: 3 }], passedOver: [], isCut: false });
    expect(planOf(planMessage(plan))).toEqual(plan);
    for (const text of ['{"plan":', '{"plan":2}', 'hello']) expect(planOf([{ type: 'text', text }])).toBeUndefined();
    expect(planOf('{"plan":1}')).toBeUndefined();
  });

  test('a task names its file; the id of a review is that of its order', () => {
    expect(pathOfTask(taskOf({ path: 'a b.ts', reader: 'a-b', bytes: 1 }))).toBe('a b.ts');
    expect(pathOfTask('Something else')).toBeUndefined();
    expect(reviewId(order)).toBe(reviewId({ ...order }));
    expect(reviewId({ ...order, isStaged: false })).toBe(reviewId(order));
    expect(reviewId({ ...order, isStaged: true })).not.toBe(reviewId(order));
    expect(
      new Set(
        [order, { ...order, limit: 1 }, { ...order, model: 'claude' as const }, { ...order, directory: '/e' }].map(
          reviewId,
        ),
      ).size,
    ).toBe(4);
  });
});
