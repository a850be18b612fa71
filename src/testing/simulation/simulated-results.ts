/**
 * The disk of the result store: the whole texts of shortened results. A power loss removes a file whose content or name
 * was not synced.
 *
 * Owns: the files and their durable parts, which outlive processes. Does not own: the logs that refer to the files.
 */
import { basename, dirname } from 'node:path';
import type { DiskStep, ResultDisk } from '../../../actors/result-store.ts';
import type { Faults } from './faults.ts';
import type { SimulatedProcess, World } from './world.ts';

/** Maximum milliseconds one operation takes. */
const STEP_MS = 4;

interface SimulatedFile {
  isSynced: boolean;
  /** True if the file's name is durable. */
  isNamed: boolean;
  readonly isPlain: boolean;
}

/** See the file header. */
export class SimulatedResults {
  readonly #files = new Map<string, SimulatedFile>();

  /** True when a file of this name would survive a power loss now. */
  isDurable(path: string): boolean {
    const file = this.#files.get(path);
    return file?.isSynced === true && file.isNamed;
  }

  /** The paths of files whose text is not encrypted. */
  plainPaths(): readonly string[] {
    return [...this.#files].flatMap(([path, { isPlain }]) => (isPlain ? path : []));
  }

  /** The paths of all files. */
  paths(): Iterable<string> {
    return this.#files.keys();
  }

  /** Removes everything that was not durable. */
  losePower(): void {
    for (const path of [...this.#files.keys()]) if (!this.isDurable(path)) this.#files.delete(path);
  }

  /** The disk as a process sees it: operations take time, may fail, and end with the process. */
  diskOf(process: SimulatedProcess, world: World, faults: Faults): ResultDisk {
    const perform = (step: DiskStep): void => {
      if (step.kind === 'write' && faults.strikes('shelf.full', 0.3)) {
        throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
      }
      this.#perform(step);
    };
    return {
      perform: (step) =>
        new Promise((resolve, reject) => {
          world.schedule(process, world.random.number() * STEP_MS, () => {
            try {
              perform(step);
              resolve();
            } catch (error) {
              reject(error);
            }
          });
        }),
      performNow: perform,
      has: async (path) => this.#files.has(path) || [...this.#files.keys()].some((file) => dirname(file) === path),
      list: (directory) =>
        new Promise((resolve) => {
          world.schedule(process, world.random.number() * STEP_MS, () =>
            resolve(
              [...this.#files.keys()].filter((path) => dirname(path) === directory).map((path) => basename(path)),
            ),
          );
        }),
    };
  }

  #perform(step: DiskStep): void {
    const file = this.#files.get(step.path);
    switch (step.kind) {
      case 'makeDirectory':
        return;
      case 'write':
        this.#files.set(step.path, { isSynced: false, isNamed: false, isPlain: typeof step.text === 'string' });
        return;
      case 'syncFile':
        if (file === undefined) throw new Error(`no file ${step.path}`);
        file.isSynced = true;
        return;
      case 'move':
        if (file === undefined) throw new Error(`no file ${step.path}`);
        this.#files.delete(step.path);
        // If the new name is already durable, it stays so: the file with that name is replaced by one with the same
        // content.
        this.#files.set(step.to, { ...file, isNamed: this.isDurable(step.to) });
        return;
      case 'remove':
        this.#files.delete(step.path);
        return;
      case 'syncDirectory':
        for (const [path, each] of this.#files) if (dirname(path) === step.path) each.isNamed = true;
    }
  }
}
