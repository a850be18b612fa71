/**
 * The skills and workflows (definitions) of a runtime. They are read when the runtime opens, and again when their files
 * change. Used on the host thread.
 *
 * Owns: the results of the last reading, the watches on the directories. Does not own: the files; the active skills. An
 * active skill and the text that was shown belong to the session.
 *
 * Invariants:
 *  D1 a caller sees the results of one whole reading, never a mixture of two;
 *  D2 changes are collected for `DEFINITIONS_SETTLE_MS`, and one reading runs at a time;
 *  D3 after `close` nothing is read and nothing is watched.
 */
import { type FSWatcher, watch } from 'node:fs';
import { DEFINITIONS_SETTLE_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { asError } from '../base/errors.ts';
import type { Definition, DefinitionSource } from './definition.ts';
import { type DefinitionPlace, type DefinitionsRead, readDefinitions, type Warn } from './definition-files.ts';
import { parseDefinition } from './definition-text.ts';

/** The file that makes a folder a skill. */
const SKILL_FILE = 'SKILL.md';

/** The directories that a library reads, and the functions that it calls. */
export interface LibraryOptions {
  readonly skills: readonly string[];
  readonly workflows: readonly string[];
  readonly clock: Clock;
  readonly warn: Warn;
  /** Called after each reading that followed a change. Must not throw. */
  readonly onChange?: () => void;
}

/** The skills and workflows of a runtime (see the head of the file). */
export class DefinitionLibrary implements DefinitionSource {
  readonly #options: LibraryOptions;
  readonly #places: { readonly skills: DefinitionPlace; readonly workflows: DefinitionPlace };
  readonly #watchers = new Map<string, FSWatcher>();
  #skills: DefinitionsRead<Definition> = NOTHING_READ;
  #workflows: DefinitionsRead<Definition> = NOTHING_READ;
  #timer: unknown;
  #isReading = false;
  #isClosed = false;

  private constructor(options: LibraryOptions) {
    this.#options = options;
    this.#places = {
      skills: { directories: options.skills, folderFile: SKILL_FILE },
      workflows: { directories: options.workflows },
    };
  }

  /** Reads everything once and starts the watches. */
  static async open(options: LibraryOptions): Promise<DefinitionLibrary> {
    const library = new DefinitionLibrary(options);
    await library.#readAlone();
    return library;
  }

  /** Names, ascending. */
  get skillNames(): readonly string[] {
    return [...this.#skills.byName.keys()].sort();
  }

  get workflowNames(): readonly string[] {
    return [...this.#workflows.byName.keys()].sort();
  }

  skill(name: string): Definition | undefined {
    return this.#skills.byName.get(name);
  }

  workflow(name: string): Definition | undefined {
    return this.#workflows.byName.get(name);
  }

  skills(): readonly Definition[] {
    return sorted(this.#skills);
  }

  workflows(): readonly Definition[] {
    return sorted(this.#workflows);
  }

  /** Ends the watches. A second call has no effect. */
  close(): void {
    this.#isClosed = true;
    this.#options.clock.clearTimer(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  async #read(): Promise<void> {
    const { warn } = this.#options;
    const entered = new Set<string>();
    // A directory is watched before it is read, so that a change during the reading causes another reading.
    const entering = (path: string): void => {
      entered.add(path);
      this.#watch(path);
    };
    const [skills, workflows] = await Promise.all([
      readDefinitions(this.#places.skills, parseDefinition, warn, entering),
      readDefinitions(this.#places.workflows, parseDefinition, warn, entering),
    ]);
    if (this.#isClosed) return;
    this.#skills = skills;
    this.#workflows = workflows;
    for (const [path, watcher] of this.#watchers) {
      if (entered.has(path)) continue;
      watcher.close();
      this.#watchers.delete(path);
    }
  }

  #watch(path: string): void {
    if (this.#isClosed || this.#watchers.has(path)) return;
    const lost = (error: unknown): void => {
      this.#watchers.get(path)?.close();
      this.#watchers.delete(path);
      this.#options.warn(`changes are not followed: ${asError(error).message}`, path);
    };
    try {
      const watcher = watch(path, { persistent: false }, () => this.#changed());
      watcher.on('error', lost);
      this.#watchers.set(path, watcher);
    } catch (error) {
      lost(error);
    }
  }

  #changed(): void {
    if (this.#isClosed || this.#timer !== undefined) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = undefined;
      void this.#readAgain();
    }, DEFINITIONS_SETTLE_MS);
  }

  async #readAgain(): Promise<void> {
    if (this.#isClosed) return;
    if (this.#isReading) {
      this.#changed();
      return;
    }
    await this.#readAlone();
    if (!this.#isClosed) this.#options.onChange?.();
  }

  /** Reads everything. A change during a reading, also during the first, causes another reading afterwards (D2). */
  async #readAlone(): Promise<void> {
    this.#isReading = true;
    try {
      await this.#read();
    } finally {
      this.#isReading = false;
    }
  }
}

function sorted({ byName }: DefinitionsRead<Definition>): readonly Definition[] {
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const NOTHING_READ: DefinitionsRead<Definition> = { byName: new Map() };
