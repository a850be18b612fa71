/**
 * Surroundings of a command that runs in the process of the test: they keep its output, and the test sends the signals.
 */
import { runCommandLine } from '../../../src/cli/command-line.ts';
import type { Output, StopSignal, Surroundings } from '../../../src/cli/surroundings.ts';

/** An output that keeps its text. */
export interface KeptOutput extends Output {
  readonly text: () => string;
  /** Changes the size and notifies the listeners. */
  readonly resize: (columns: number, rows: number) => void;
}

/** A stream of this size, a terminal or not. */
export function keptOutput(isTerminal = false, columns = 80, rows = 24): KeptOutput {
  let text = '';
  const size = { columns, rows };
  const handlers = new Set<() => void>();
  return {
    isTerminal,
    get columns() {
      return size.columns;
    },
    get rows() {
      return size.rows;
    },
    write: (piece) => {
      text += piece;
    },
    onResize: (handler) => {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
    text: () => text,
    resize: (newColumns, newRows) => {
      size.columns = newColumns;
      size.rows = newRows;
      for (const handler of handlers) handler();
    },
  };
}

/** Surroundings in a directory, with access to their outputs and handlers. */
export interface TestSurroundings extends Surroundings {
  readonly stdout: KeptOutput;
  readonly stderr: KeptOutput;
  readonly signal: (signal: StopSignal) => void;
  /** Runs the handlers of the process's `exit` event. */
  readonly exit: () => void;
  /** Handlers still registered. */
  readonly handlers: () => number;
}

/** Surroundings without a terminal and without a key, in `directory`. */
export function testSurroundings(
  directory: string,
  given: {
    readonly environment?: Surroundings['environment'];
    readonly stdout?: KeptOutput;
    readonly stdin?: string;
  } = {},
): TestSurroundings {
  const stops = new Set<(signal: StopSignal) => void>();
  const exits = new Set<() => void>();
  return {
    stdin: { isTerminal: given.stdin === undefined, pieces: () => piecesOf(given.stdin ?? '') },
    stdout: given.stdout ?? keptOutput(),
    stderr: keptOutput(),
    environment: given.environment ?? {},
    directory,
    invocation: 'troupe',
    onStop: (handler) => {
      stops.add(handler);
      return () => stops.delete(handler);
    },
    onExit: (handler) => {
      exits.add(handler);
      return () => exits.delete(handler);
    },
    signal: (signal) => {
      for (const handler of [...stops]) handler(signal);
    },
    exit: () => {
      for (const handler of [...exits]) handler();
    },
    handlers: () => stops.size + exits.size,
  };
}

/** A text in pieces cut anywhere, as a pipe delivers it. */
async function* piecesOf(text: string): AsyncGenerator<string, void, undefined> {
  for (let from = 0; from < text.length; from += 100) yield text.slice(from, from + 100);
}

/** The outcome of a command line. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line in this process. */
export async function command(
  line: readonly string[],
  directory: string,
  given: Parameters<typeof testSurroundings>[1] = {},
): Promise<Outcome> {
  const surroundings = testSurroundings(directory, given);
  const code = await runCommandLine(line, surroundings);
  return { code, stdout: surroundings.stdout.text(), stderr: surroundings.stderr.text() };
}
