/** The planted bugs fit the source, and the simulator finds them. `npm run planted` hunts for all of them. */
import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { plantedBugs } from './bugs.ts';
import { huntOnce } from './hunting.ts';
import { type PlantedBug, plant } from './planted-bug.ts';

/** Bugs of three kinds, each with a seed that finds it. */
const CHOSEN: readonly (readonly [string, number])[] = [
  ['acknowledge-before-flush', 4],
  ['once-tool-runs-again', 11],
  ['events-counted-when-read', 2],
];
/** Seeds from each start, at most. */
const SEEDS = 40;

function sourceOf(bug: PlantedBug): Promise<string> {
  return readFile(new URL(`../../${bug.file}`, import.meta.url), 'utf8');
}

describe('planted bugs', () => {
  it('T12: there are at least 30, each with a different name', () => {
    const names = plantedBugs.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThanOrEqual(30);
    for (const name of names) expect(name).toMatch(/^[a-z]+(-[a-z]+)*$/);
  });

  it.each(plantedBugs.map((bug) => [bug.name, bug] as const))('T12: %s occurs once in the source', async (_, bug) => {
    const source = await sourceOf(bug);
    const planted = plant(source, bug);
    expect(planted).not.toBe(source);
    expect(planted.split(bug.find).length - 1).toBe(bug.replace.split(bug.find).length - 1);
  });

  it('T12: a bug whose text is missing or occurs twice is refused', () => {
    const bug = { name: 'none', what: '', file: 'none.ts', find: 'one', replace: 'two' };
    expect(() => plant('three', bug)).toThrow('stands 0 times');
    expect(() => plant('one and one', bug)).toThrow('stands 2 times');
    expect(() => plant('one', { ...bug, replace: 'one' })).toThrow('changes nothing');
  });

  it('T12: an unknown bug stops the hunt before it begins', async () => {
    await expect(huntOnce({ bug: 'no-such-bug', starts: [1], seeds: 1 })).rejects.toThrow('no planted bug is named');
  });

  it('T12: three chosen bugs are found, and the seeds that find them pass without the bugs', async () => {
    const found: number[] = [];
    for (const [bug, start] of CHOSEN) {
      const [hunt] = await huntOnce({ bug, starts: [start], seeds: SEEDS });
      expect(hunt?.seed, `${bug} from seed ${start}`).not.toBeNull();
      found.push(hunt?.seed ?? 0);
    }
    const seeds = [...new Set(found)];
    const hunts = await huntOnce({ starts: seeds, seeds: 1 });
    expect(hunts.map(({ seed, what }) => ({ seed, what }))).toEqual(seeds.map(() => ({ seed: null, what: null })));
    // More than the usual two minutes on a busy machine.
  }, 600_000);
});
