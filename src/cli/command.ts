/** The definition of a command: one table of options, from which arguments are read and help is written. */
import type { Surroundings } from './surroundings.ts';

/**
 * One option. `flag`: has no value. `text`: takes a value; `words`: the values that a shell completes. `count`: takes a
 * whole number from `min` to `max`.
 */
export type OptionSpec =
  | { readonly kind: 'flag'; readonly help: string }
  | { readonly kind: 'text'; readonly value: string; readonly help: string; readonly words?: readonly string[] }
  | {
      readonly kind: 'count';
      readonly value: string;
      readonly min: number;
      readonly max: number;
      readonly help: string;
    };

/** One positional argument. */
export interface PositionalSpec {
  readonly name: string;
  readonly required: boolean;
  readonly help: string;
  /**
   * True if the argument takes all remaining arguments, joined by blanks. Allowed for the last positional argument
   * only.
   */
  readonly rest?: boolean;
  /** Words for the completion of a shell: ids of sessions, directories, or these words. Missing: none. */
  readonly completes?: 'session' | 'directory' | readonly string[];
}

/** Arguments of a command, read and checked. */
export interface Arguments {
  /** The value of a `text` option; undefined when it was not given. */
  text(name: string): string | undefined;
  /** The value of a `count` option. */
  count(name: string): number | undefined;
  /** True when a `flag` was given. */
  flag(name: string): boolean;
  /** A positional argument. */
  positional(name: string): string | undefined;
}

/** One command in the program's list. */
export interface CommandEntry {
  readonly name: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** Loads the module of the command. */
  readonly load: () => Promise<Command>;
}

/** One command of the program. */
export interface Command {
  readonly positionals: readonly PositionalSpec[];
  readonly options: Readonly<Record<string, OptionSpec>>;
  /** Paragraphs of the help after the options. */
  readonly details: readonly string[];
  /**
   * Runs the command. Resolves to the exit code. Rejects with `UsageError` for a wrong argument, and with any other
   * error for a failure.
   */
  readonly run: (given: Arguments, surroundings: Surroundings) => Promise<number>;
}

/** A wrong argument: exit code 2. The message names the argument. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError';
}

/** The thing that an argument names does not exist: exit code 1. */
export class NotFoundError extends Error {
  override readonly name: string = 'NotFoundError';
}

/** A running server does not answer, or its answer is not the expected one. */
export class ServerError extends Error {
  override readonly name: string = 'ServerError';
  /** The code in the server's error answer; `server` if there is none. */
  readonly code: string;

  constructor(message: string, details: ErrorOptions & { readonly code?: string | undefined } = {}) {
    super(message, details);
    this.code = details.code ?? 'server';
  }
}

/**
 * Exit codes. 1: the command failed, or the named thing does not exist. 2: the arguments were wrong. A signal adds its
 * number to 128.
 */
export const EXIT: {
  readonly ok: 0;
  readonly failed: 1;
  readonly usage: 2;
  readonly SIGINT: 130;
  readonly SIGTERM: 143;
} = Object.freeze({ ok: 0, failed: 1, usage: 2, SIGINT: 130, SIGTERM: 143 });
