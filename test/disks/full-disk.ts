/**
 * One small disk, which a child process fills completely. The full disk must not end the child, and no acknowledged
 * entry may be lost. A disk is a file system in memory, or an ext4 image on a loop device; both need root.
 */
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { readManifest, shardDirectory } from '../../src/journal/store/manifest.ts';
import { startChild } from '../support/children.ts';

const KIB = 1024;
const BALLAST_FILES = 6;
const BALLAST_BYTES = 96 * KIB;

/** Kinds of file systems. */
export type DiskKind = 'tmpfs' | 'ext4';

/** The outcome of a filled disk. */
export interface FilledDisk {
  readonly kind: DiskKind;
  readonly bytes: number;
  /** How often a commit, or an open, was refused for lack of room. */
  readonly refusals: number;
  /** Entries that were acknowledged. */
  readonly acknowledged: number;
  /** The faults found; empty if there are none. */
  readonly faults: readonly string[];
}

/** A disk of that many bytes; `undefined` if this process may not mount a disk, or the tools are missing. */
async function mountDisk(kind: DiskKind, bytes: number, base: string): Promise<string | undefined> {
  const path = join(base, 'disk');
  await mkdir(path);
  try {
    if (kind === 'tmpfs') {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path], { stdio: 'ignore' });
      return path;
    }
    const image = join(base, 'image');
    await writeFile(image, '');
    await truncate(image, bytes);
    execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', '-b', '4096', image], { stdio: 'ignore' });
    execFileSync('mount', ['-o', 'loop', image, path], { stdio: 'ignore' });
    return path;
  } catch {
    return undefined;
  }
}

/** Fills a disk. Resolves to `undefined` if the disk cannot be made. */
export async function fillDisk(kind: DiskKind, bytes: number, seed: number): Promise<FilledDisk | undefined> {
  const base = await mkdtemp(join(tmpdir(), 'troupe-disk-'));
  const disk = await mountDisk(kind, bytes, base);
  try {
    if (disk === undefined) return undefined;
    const ballast = Array.from({ length: BALLAST_FILES + 2 }, (_, index) => join(disk, `ballast-${index}`));
    for (const file of ballast) await writeFile(file, Buffer.alloc(BALLAST_BYTES, 1));
    const [first = '', second = '', ...removed] = ballast;
    const store = join(disk, 'store');
    const child = startChild(new URL('./filler.ts', import.meta.url), [store, String(seed), ...removed]);
    const code = await child.ended();
    const faults: string[] = [];
    if (code !== 0) faults.push(`the child ended with ${child.process.signalCode ?? code}: ${child.errors()}`);
    if (child.errors() !== '') faults.push(`LMDB met the full disk: ${child.errors()}`);
    const lines = child.output().split('\n').slice(0, -1);
    if (lines.at(-1) !== 'full') faults.push('the child did not come to its end');
    // Room for an owner to open it again.
    await rm(first);
    await rm(second);
    faults.push(...(await missing(store, lines)));
    return {
      kind,
      bytes,
      refusals: lines.filter((line) => line.startsWith('refused ')).length,
      acknowledged: lines.filter((line) => line.startsWith('durable ')).length,
      faults,
    };
  } finally {
    if (disk !== undefined) execFileSync('umount', [disk]);
    await rm(base, { recursive: true, force: true });
  }
}

/** Acknowledged entries that are missing, or not in order. */
async function missing(store: string, lines: readonly string[]): Promise<readonly string[]> {
  const acknowledged = new Map<string, number>();
  for (const line of lines) {
    const [word, name = '', number] = line.split(' ');
    if (word === 'durable') acknowledged.set(name, Number(number));
  }
  if (acknowledged.size === 0) return [];
  if ((await readManifest(store)) === undefined) return ['the manifest is gone'];
  const journal = await openLmdbJournal({ directory: shardDirectory(store, 0), durability: 'flush' });
  try {
    return [...acknowledged].flatMap(([name, last]) => {
      const key = journal.keyOf(name);
      const found = key === undefined ? [] : [...journal.read(key, 0)];
      const numbers = found.map(({ data }) => (JSON.parse(data) as { readonly n: number }).n);
      const isRight = numbers.length > last && numbers.every((number, index) => number === index);
      return isRight ? [] : [`${name} should have ${last + 1} entries in order, and ${numbers.length} are there`];
    });
  } finally {
    await journal.close();
  }
}
