/**
 * The shells of the sessions: which session has one, where it starts, when it is closed.
 *
 * Owns: the shells, their idle timers, the last directory of each session. Does not own: a shell's operation
 * (`shell.ts`), the texts for the model (`shell-calls.ts`).
 *
 * O1 Calls of one session use its shell one after the other, in order of request (Δ15).
 * O2 At most `shellsMax` shells are alive. If there would be more, the least recently used shell is ended. A shell in
 *    use is never ended for this.
 * O3 A session whose shell is gone gets a new one in the directory of the old one, and the result says so (Δ15).
 * O4 A shell that was not used for `idleMs` is ended. Shells and their processes die with this process.
 * O5 A child session's shell starts in the directory of its parent's shell (F121).
 */
import { stat } from 'node:fs/promises';
import { SHELL_DIRECTORIES_MAX, SHELL_IDLE_MS, SHELLS_MAX } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { type CommandOptions, type CommandResult, Shell } from './shell.ts';
import { Turns } from './turns.ts';

/** The options of a shell pool. */
export interface ShellPoolOptions {
  /** The directory of a session that has no parent with a shell. */
  readonly cwd: string;
  readonly environment: () => Readonly<Record<string, string | undefined>>;
  /** The programs, tried in this order until one exists. */
  readonly programs: readonly string[];
  /** Milliseconds that an unused shell is kept; default `SHELL_IDLE_MS`. */
  readonly idleMs?: number;
  /** Maximum number of shells; default `SHELLS_MAX`. */
  readonly shellsMax?: number;
}

/** A shell that was lost with the thread that had it. */
export interface EarlierShell {
  /** How the shell ended, as the result says it. */
  readonly how: string;
  /** The last directory of the shell. */
  readonly cwd: string | undefined;
}

/** A session's shell for the duration of one call. */
export interface ShellLease {
  /**
   * Runs a command, in a new shell if needed; `restarted` then says how the earlier shell ended. Rejects when no shell
   * can be started.
   */
  run(command: string, options: CommandOptions): Promise<CommandResult & { readonly restarted?: string }>;
  /** Gives the shell back. */
  release(): void;
}

interface Slot {
  readonly session: string;
  readonly turns: Turns;
  shell: Shell | undefined;
  /** The last directory of the session's shell. */
  cwd: string | undefined;
  /** Why the session's last shell is gone; undefined before the first shell ended. */
  gone: string | undefined;
  /** The number of calls that have the shell or wait for it. */
  users: number;
  isInUse: boolean;
  idle: NodeJS.Timeout | undefined;
}

/** See the head of the file. */
export class ShellPool {
  readonly #options: ShellPoolOptions;
  readonly #idleMs: number;
  readonly #shellsMax: number;
  /** The slots by session, the least recently used first. */
  readonly #slots = new Map<string, Slot>();
  /** All shells that have processes left. */
  readonly #shells = new Set<Shell>();
  /**
   * Admits at most `shellsMax` calls at once. So if `shellsMax` shells are alive, a call that needs a new shell finds
   * one that is not in use and can be ended (O2).
   */
  readonly #places: Turns;

  constructor(options: ShellPoolOptions) {
    this.#options = options;
    this.#idleMs = options.idleMs ?? SHELL_IDLE_MS;
    this.#shellsMax = options.shellsMax ?? SHELLS_MAX;
    this.#places = new Turns(this.#shellsMax);
  }

  /** The number of living shells. */
  get size(): number {
    return [...this.#slots.values()].filter((slot) => slot.shell !== undefined).length;
  }

  /**
   * Resolves with the session's shell once earlier calls have released it; undefined when the signal fired first (O1).
   * `earlier`: a shell of the session that another pool has lost; O3 also holds for it.
   */
  async take(session: string, signal: AbortSignal, earlier?: EarlierShell): Promise<ShellLease | undefined> {
    const slot = this.#slotOf(session);
    if (slot.shell === undefined && slot.gone === undefined && earlier !== undefined) {
      slot.gone = earlier.how;
      slot.cwd = earlier.cwd;
    }
    slot.users += 1;
    if (await slot.turns.take(signal)) {
      if (await this.#places.take(signal)) {
        slot.isInUse = true;
        clearTimeout(slot.idle);
        return { run: (command, options) => this.#run(slot, command, options), release: () => this.#release(slot) };
      }
      slot.turns.release();
    }
    slot.users -= 1;
    return undefined;
  }

  /** The last directory of the session's shell; undefined if it had none. */
  directoryOf(session: string): string | undefined {
    return this.#slots.get(session)?.cwd;
  }

  /** Ends all shells and their processes. Resolves when no process is left; never rejects. */
  async close(): Promise<void> {
    for (const slot of this.#slots.values()) this.#retire(slot, 'was closed');
    await Promise.all([...this.#shells].map((shell) => shell.end()));
  }

  #slotOf(session: string): Slot {
    const slot: Slot = this.#slots.get(session) ?? {
      session,
      turns: new Turns(1),
      shell: undefined,
      cwd: undefined,
      gone: undefined,
      users: 0,
      isInUse: false,
      idle: undefined,
    };
    // Moves the slot to the end of the map, because its shell is now the most recently used.
    this.#slots.delete(session);
    this.#slots.set(session, slot);
    if (this.#slots.size > SHELL_DIRECTORIES_MAX + this.#shellsMax) this.#forgetOne();
    return slot;
  }

  #forgetOne(): void {
    for (const slot of this.#slots.values()) {
      if (slot.shell !== undefined || slot.users > 0) continue;
      this.#slots.delete(slot.session);
      return;
    }
  }

  #release(slot: Slot): void {
    slot.users -= 1;
    slot.isInUse = false;
    if (slot.shell !== undefined) {
      slot.idle = setTimeout(() => this.#retire(slot, 'was closed after a time without use'), this.#idleMs);
      slot.idle.unref();
    }
    slot.turns.release();
    this.#places.release();
  }

  async #run(slot: Slot, command: string, options: CommandOptions): ReturnType<ShellLease['run']> {
    const { gone } = slot;
    const isNew = slot.shell === undefined;
    const shell = slot.shell ?? (await this.#start(slot));
    const result = await shell.run(command, options);
    slot.cwd = shell.cwd;
    if (!isNew || gone === undefined) return result;
    return { ...result, restarted: gone };
  }

  /** Starts a shell in the first of these directories that still exists: the session's, a parent's, the pool's. */
  async #start(slot: Slot): Promise<Shell> {
    this.#makeRoom();
    const cwd = await this.#startDirectory(slot);
    const { programs, environment } = this.#options;
    let failure: unknown;
    for (const program of programs) {
      try {
        const shell = await Shell.start({
          program,
          cwd,
          environment: environment(),
          onEnd: (how) => this.#ended(slot, shell, how),
        });
        this.#shells.add(shell);
        if (this.#shells.size === 1) process.on('exit', this.#killAll);
        slot.shell = shell;
        return shell;
      } catch (error) {
        failure ??= error;
      }
    }
    throw new Error(`no shell can be started: ${asError(failure).message}`, { cause: failure });
  }

  async #startDirectory(slot: Slot): Promise<string> {
    const wanted = [slot.cwd];
    // After the session's own directory come the directories of its ancestors' shells, from the parent up to the root.
    for (let id = parentOf(slot.session); id !== undefined; id = parentOf(id)) {
      const parent = this.#slots.get(id);
      wanted.push(parent?.shell === undefined ? parent?.cwd : await parent.shell.liveCwd());
    }
    for (const path of wanted) if (path !== undefined && (await isDirectory(path))) return path;
    return this.#options.cwd;
  }

  #makeRoom(): void {
    const slots = [...this.#slots.values()];
    // A slot in use has a shell or is about to have one. Such a slot already counts, so that many simultaneous starts
    // stay within the bound.
    let surplus = slots.filter((slot) => slot.shell !== undefined || slot.isInUse).length - this.#shellsMax;
    for (const slot of slots) {
      if (surplus <= 0) return;
      if (slot.shell === undefined || slot.isInUse) continue;
      this.#retire(slot, 'was closed to make room for others');
      surplus -= 1;
    }
  }

  #retire(slot: Slot, how: string): void {
    const { shell } = slot;
    if (shell === undefined) return;
    this.#ended(slot, shell, how);
    void shell.end();
  }

  /**
   * Notes that the shell can run nothing any more. Ends the remaining processes of the shell; if this process exits
   * first, they are killed.
   */
  #ended(slot: Slot, shell: Shell, how: string): void {
    if (slot.shell !== shell) return;
    clearTimeout(slot.idle);
    slot.shell = undefined;
    slot.cwd = shell.cwd;
    slot.gone = how;
    void shell.end().then(() => {
      this.#shells.delete(shell);
      if (this.#shells.size === 0) process.off('exit', this.#killAll);
    });
  }

  readonly #killAll = (): void => {
    Shell.killAll(this.#shells);
  };
}

/** The parent of a child session: a child's id is `<parent>:<n>`. */
function parentOf(session: string): string | undefined {
  const colon = session.lastIndexOf(':');
  return colon === -1 ? undefined : session.slice(0, colon);
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() ?? false;
}
