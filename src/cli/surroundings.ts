/**
 * The surroundings of a command: streams, environment, directory, signals. They are a port, so that tests can run
 * commands in the process of the tests.
 */

/** An output stream of a command. */
export interface Output {
  /** True for a terminal. */
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly rows: number;
  write(text: string): void;
  /** Calls `handler` at each new size, until the returned function is called. */
  onResize(handler: () => void): () => void;
}

/** The standard input of a command. */
export interface PipedInput {
  /** True for a terminal; then nothing is piped in. */
  readonly isTerminal: boolean;
  /** The text in pieces, as it arrives; it can be read once. */
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
  /** The directory at which relative paths start. */
  readonly directory: string;
  /** The name by which a user calls this program, for suggested commands. */
  readonly invocation: string;
  /**
   * Calls `handler` at each signal until the returned function is called. After that a signal ends the process again.
   */
  onStop(handler: (signal: StopSignal) => void): () => void;
  /** Calls `handler` when the process ends for any reason. The handler must be synchronous. */
  onExit(handler: () => void): () => void;
}

/** Columns of a stream that is not a terminal. */
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

/** The stream, shown as one that is no terminal: output to it has no colours and moves no cursor. */
export function plainOutput(output: Output): Output {
  return { ...output, isTerminal: false, columns: output.columns, rows: output.rows };
}

/** Coloured text for a terminal, unless the user disabled colours (NO_COLOR). */
export interface Paint {
  bold(text: string): string;
  dim(text: string): string;
  green(text: string): string;
  red(text: string): string;
  yellow(text: string): string;
}

/** The colours of a stream. */
export function paintFor(output: Output, environment: Surroundings['environment']): Paint {
  const isPlain = !output.isTerminal || (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb';
  const code =
    (on: number, off: number) =>
    (text: string): string =>
      isPlain ? text : `\u001b[${on}m${text}\u001b[${off}m`;
  return { bold: code(1, 22), dim: code(2, 22), green: code(32, 39), red: code(31, 39), yellow: code(33, 39) };
}
