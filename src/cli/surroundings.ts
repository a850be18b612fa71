/** What a command has around it: streams, environment, directory, signals. A port, so that tests run commands in place. */

/** A stream a command writes to. */
export interface Output {
  /** True where a person watches: a terminal. */
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly rows: number;
  write(text: string): void;
  /** Tells of a new size; returns what stops that. */
  onResize(handler: () => void): () => void;
}

/** What is piped into a command. */
export interface PipedInput {
  /** True where a person would have to type: nothing is piped in. */
  readonly isTerminal: boolean;
  /** The text, as it comes; to be read once. */
  pieces(): AsyncIterable<string>;
}

/** A signal that asks a command to stop. */
export type StopSignal = 'SIGINT' | 'SIGTERM';

/** See the head of the file. */
export interface Surroundings {
  readonly stdin: PipedInput;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Directory relative paths start at. */
  readonly directory: string;
  /** How a user calls this program, for the commands it proposes. */
  readonly invocation: string;
  /** Calls `handler` at each signal until the returned function is called; then a signal ends the process again. */
  onStop(handler: (signal: StopSignal) => void): () => void;
  /** Calls `handler`, which must be synchronous, when the process ends however it ends. */
  onExit(handler: () => void): () => void;
}

/** Columns of a stream that is no terminal. */
const PLAIN_COLUMNS = 80;
const PLAIN_ROWS = 24;
const STOP_SIGNALS: readonly StopSignal[] = ['SIGINT', 'SIGTERM'];

/** The process's own surroundings. */
export function processSurroundings(): Surroundings {
  return {
    stdin: {
      get isTerminal() {
        return process.stdin.isTTY === true;
      },
      pieces: () => process.stdin.setEncoding('utf8') as AsyncIterable<string>,
    },
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    environment: process.env,
    directory: process.cwd(),
    invocation: 'npx troupe',
    onStop: (handler) => {
      for (const signal of STOP_SIGNALS) process.on(signal, handler);
      return () => {
        for (const signal of STOP_SIGNALS) process.off(signal, handler);
      };
    },
    onExit: (handler) => {
      process.on('exit', handler);
      return () => process.off('exit', handler);
    },
  };
}

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return stream.columns ?? PLAIN_COLUMNS;
    },
    get rows() {
      return stream.rows ?? PLAIN_ROWS;
    },
    write: (text) => void stream.write(text),
    onResize: (handler) => {
      stream.on('resize', handler);
      return () => stream.off('resize', handler);
    },
  };
}

/** Texts in colour where a person watches and has not said otherwise (NO_COLOR). */
export interface Paint {
  bold(text: string): string;
  dim(text: string): string;
  green(text: string): string;
  red(text: string): string;
  yellow(text: string): string;
}

/** The paint of a stream. */
export function paintFor(output: Output, environment: Surroundings['environment']): Paint {
  const isPlain = !output.isTerminal || (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb';
  const code =
    (on: number, off: number) =>
    (text: string): string =>
      isPlain ? text : `\u001b[${on}m${text}\u001b[${off}m`;
  return { bold: code(1, 22), dim: code(2, 22), green: code(32, 39), red: code(31, 39), yellow: code(33, 39) };
}
