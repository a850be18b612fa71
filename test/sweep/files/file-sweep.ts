/**
 * Fails every change of the file system by work on the files of a store, in turn. A crash: one run of the work copies
 * all directories before each change, as a kill at that moment leaves them, and each copy is opened and checked. An
 * error: one run for each change and each error of the system.
 *
 * LMDB's own writes are atomic commits, which the store operations of the other scenarios stand for.
 */
import { cpSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { watchSteps } from './file-steps.ts';

/** Work on files, and the checks of what a fault left. All paths are below `base`. */
export interface FileScenario {
  readonly name: string;
  /** Makes what the work begins with. */
  readonly prepare: (base: string) => Promise<void>;
  /** The work. May be repeated after a fault. */
  readonly run: (base: string) => Promise<void>;
  /** Opens and checks what is there; throws if something is wrong. `isDone`: the work was complete. */
  readonly check: (base: string, isDone: boolean) => Promise<void>;
}

/** The options of a sweep. */
export interface FileSweepOptions {
  /** Sweeps each change whose number, divided by this, leaves no rest. 1: all. */
  readonly every: number;
  /** A second crash at each change of the recovery from the first. */
  readonly pairs?: boolean;
}

/** The result of a sweep. */
export interface FileSweepReport {
  readonly steps: number;
  readonly crashes: number;
  readonly errors: number;
  readonly pairs: number;
  readonly failures: readonly string[];
}

const ERRORS = ['ENOSPC', 'EIO'] as const;
const FAILURES_MAX = 3;

/** Sweeps one scenario. */
export async function sweepFiles(scenario: FileScenario, options: FileSweepOptions): Promise<FileSweepReport> {
  const root = await mkdtemp(join(tmpdir(), 'troupe-sweep-'));
  try {
    return await new FileSweep(scenario, options, root).run();
  } finally {
    watchSteps(undefined);
    await rm(root, { recursive: true, force: true });
  }
}

class FileSweep {
  readonly #scenario: FileScenario;
  readonly #options: FileSweepOptions;
  readonly #root: string;
  readonly #failures: string[] = [];
  #made = 0;

  constructor(scenario: FileScenario, options: FileSweepOptions, root: string) {
    this.#scenario = scenario;
    this.#options = options;
    this.#root = root;
  }

  async run(): Promise<FileSweepReport> {
    const { prepare, run, check } = this.#scenario;
    const begin = this.#nextName();
    await mkdir(begin);
    await prepare(begin);
    const whole = await this.#copy(begin);
    const { steps, images } = await this.#imagesOf(whole, () => run(whole));
    await this.#attempt('no fault', () => check(whole, true));
    let pairs = 0;
    for (const { step, path } of images) {
      if (this.#isOver) break;
      if (this.#options.pairs === true) pairs += await this.#pairsOf(step, path);
      await this.#attempt(`a crash before change ${step}`, () => this.#recover(path));
      await rm(path, { recursive: true, force: true });
    }
    let errors = 0;
    for (let step = 1; step <= steps && !this.#isOver; step += 1) {
      if (step % this.#options.every !== 0) continue;
      for (const code of ERRORS) {
        errors += 1;
        await this.#attempt(`${code} at change ${step}`, () => this.#fail(begin, step, code));
      }
    }
    return { steps, crashes: images.length, errors, pairs, failures: this.#failures };
  }

  get #isOver(): boolean {
    return this.#failures.length >= FAILURES_MAX;
  }

  /** The directories are whole after a fault, and the work can be done again. */
  async #recover(path: string): Promise<void> {
    const { run, check } = this.#scenario;
    await check(path, false);
    await run(path);
    await check(path, true);
  }

  /** A second crash at each change of the first check, which opens the store, and of the repeated work. */
  async #pairsOf(first: number, image: string): Promise<number> {
    const again = await this.#copy(image);
    const { images } = await this.#imagesOf(again, () => this.#recover(again));
    for (const { step, path } of images) {
      await this.#attempt(`a crash before change ${first}, then before change ${step}`, () => this.#recover(path));
      await rm(path, { recursive: true, force: true });
    }
    await rm(again, { recursive: true, force: true });
    return images.length;
  }

  async #fail(begin: string, at: number, code: string): Promise<void> {
    const path = await this.#copy(begin);
    let step = 0;
    watchSteps((changed, operation) => {
      if (!changed.startsWith(path)) return;
      step += 1;
      // A removal needs no room, and a claim that cannot be removed is one of a living process.
      if (step === at && operation !== 'rm')
        throw Object.assign(new Error(`${code}: refused`), { code, syscall: 'write', path: changed });
    });
    try {
      await this.#scenario.run(path);
    } catch (error) {
      if (!(error instanceof Error && 'code' in error)) throw error;
    } finally {
      watchSteps(undefined);
    }
    await this.#recover(path);
    await rm(path, { recursive: true, force: true });
  }

  /** Runs `work` on the directories below `path`, and copies them before each change. */
  async #imagesOf(
    path: string,
    work: () => Promise<void>,
  ): Promise<{ readonly steps: number; readonly images: readonly { readonly step: number; readonly path: string }[] }> {
    const images: { readonly step: number; readonly path: string }[] = [];
    let steps = 0;
    watchSteps((changed) => {
      if (!changed.startsWith(path)) return;
      steps += 1;
      if (steps % this.#options.every !== 0) return;
      const image = this.#nextName();
      // The changes of the copy itself are below another path. The claims of this process are stale after a crash.
      cpSync(path, image, { recursive: true, filter: (each) => !isLock(each) });
      images.push({ step: steps, path: image });
    });
    try {
      await work();
    } finally {
      watchSteps(undefined);
    }
    return { steps, images };
  }

  async #attempt(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const text = error instanceof Error ? error.stack : String(error);
      this.#failures.push(`${this.#scenario.name}: ${what}: ${text}`);
    }
  }

  async #copy(from: string): Promise<string> {
    const to = this.#nextName();
    await cp(from, to, { recursive: true, filter: (path) => !isLock(path) });
    return to;
  }

  #nextName(): string {
    this.#made += 1;
    return join(this.#root, `${this.#made}-`);
  }
}

function isLock(path: string): boolean {
  return basename(path).startsWith('owner-') || basename(path) === 'lock.mdb';
}
