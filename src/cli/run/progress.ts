/** The progress display of a review: a live tree on a terminal, plain lines elsewhere. */
import { REDRAW_INTERVAL_MS, TREE_LINES_MAX } from '../../base/bounds.ts';
import { type Output, type Paint, paintFor, type Surroundings } from '../surroundings.ts';
import { clip, clipEnd, counted, displayWidth, left, number } from '../text-layout.ts';
import type { ReaderRow, ReviewBoard } from './board.ts';

/** The data that the progress shows. */
export interface ProgressSource {
  readonly board: ReviewBoard;
  readonly id: string;
  /** Seconds since the start. */
  seconds(): number;
}

/** Shows progress until `stop` is called. */
export interface Progress {
  /** Called when the board has changed. */
  changed(): void;
  /** Writes a line that stays above the progress. */
  note(text: string): void;
  /** Restores the terminal. Later calls do nothing. */
  stop(): void;
}

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const CLEAR_BELOW = '\u001b[J';
const BAR_COLUMNS = 24;
/** Lines of the tree that do not show a reader: the reviewer, the count of hidden readers, the bar, a warning. */
const FRAME_LINES = 4;
const STATE_COLUMNS = 26;
/** Column of the state's sign in a reader's line. */
const SIGN_AT = 2;
/** Plain progress prints a line each time that another tenth of the files is read. */
const TENTHS = 10;
/** Maximum number of page signs in a reader's line. */
const PAGE_SIGNS = 12;

/**
 * The progress for a stream: plain lines if the stream is not a terminal, or if the terminal cannot move its cursor.
 */
export function showProgress(output: Output, source: ProgressSource, surroundings: Surroundings): Progress {
  if (!output.isTerminal || surroundings.environment['TERM'] === 'dumb') return plainLines(output, source);
  return new LiveTree(output, source, surroundings);
}

function plainLines(output: Output, source: ProgressSource): Progress {
  const { board } = source;
  let tenthWritten = 0;
  let hasAsked = false;
  return {
    changed: () => {
      const tenth = board.total === 0 ? 0 : Math.floor((TENTHS * board.over) / board.total);
      if (tenth > tenthWritten) {
        tenthWritten = tenth;
        output.write(`${progressLine(source)}\n`);
      }
      if (board.isAsking && !hasAsked) {
        hasAsked = true;
        output.write('       the reviewer writes the index\n');
      }
    },
    note: (text) => output.write(`${text}\n`),
    stop: () => undefined,
  };
}

function progressLine({ board, seconds }: ProgressSource): string {
  const share = String(Math.floor((100 * board.over) / board.total)).padStart(3);
  const read = `${number(board.over)} of ${counted(board.total, 'file')} read`;
  return `${share} %  ${read}  ${number(board.rate)} half-steps/s  ${number(seconds(), 1)} s`;
}

/**
 * A bounded number of lines that are redrawn in place.
 *
 * Owns: the terminal's cursor until `stop`.
 *  T1 the cursor is shown again however the process ends, except by a kill;
 *  T2 no line is wider than the terminal, and the terminal has a row for each line, so that a frame can be drawn over
 *     the previous one;
 *  T3 a note is written above the frame, and stays.
 */
class LiveTree implements Progress {
  readonly #output: Output;
  readonly #source: ProgressSource;
  readonly #paint: Paint;
  readonly #timer: NodeJS.Timeout;
  readonly #undo: readonly (() => void)[];
  /** Widths of the lines that are on the terminal. */
  #drawn: readonly number[] = [];
  #isOver = false;

  constructor(output: Output, source: ProgressSource, surroundings: Surroundings) {
    this.#output = output;
    this.#source = source;
    this.#paint = paintFor(output, surroundings.environment);
    this.#undo = [output.onResize(() => this.#draw()), surroundings.onExit(() => this.stop())];
    output.write(HIDE_CURSOR);
    this.#timer = setInterval(() => this.#draw(), REDRAW_INTERVAL_MS);
    this.#draw();
  }

  /** Does nothing: the tree is redrawn at intervals, because there may be thousands of changes per second. */
  changed(): void {}

  note(text: string): void {
    if (this.#isOver) return;
    this.#output.write(`${this.#erase()}${text}\n`);
    this.#draw();
  }

  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#timer);
    for (const undo of this.#undo) undo();
    this.#output.write(this.#erase() + SHOW_CURSOR);
  }

  #draw(): void {
    if (this.#isOver) return;
    const lines = treeLines(this.#source, { columns: this.#output.columns - 1, rows: this.#output.rows - 1 });
    const erase = this.#erase();
    this.#drawn = lines.map((line) => displayWidth(line.text));
    this.#output.write(`${erase}${lines.map((line) => paintLine(line, this.#paint)).join('\n')}\n`);
  }

  /**
   * Returns the codes that erase the frame. A terminal that became narrower has wrapped the lines, so their widths give
   * the number of rows.
   */
  #erase(): string {
    const columns = Math.max(1, this.#output.columns);
    const rows = this.#drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
    this.#drawn = [];
    return rows === 0 ? '' : `\u001b[${rows}A\r${CLEAR_BELOW}`;
  }
}

/** One line of the tree, before its colour. */
export interface TreeLine {
  readonly text: string;
  readonly tone: 'head' | 'plain' | 'done' | 'failed' | 'dim' | 'warning';
}

/** The current tree, fitted to a terminal. Pure. */
export function treeLines(
  { board, id, seconds }: ProgressSource,
  size: { readonly columns: number; readonly rows: number },
): readonly TreeLine[] {
  const lines: TreeLine[] = [];
  const rows = board.rows(Math.max(0, Math.min(TREE_LINES_MAX, size.rows) - FRAME_LINES));
  const doing = board.isAsking
    ? 'writes the index'
    : `waits for ${number(board.total - board.over)} of ${counted(board.total, 'reader')}`;
  lines.push({ text: `reviewer  ${id}  ${doing}`, tone: 'head' });
  for (const row of rows) lines.push({ text: readerText(row, size.columns), tone: toneOf(row) });
  const hidden = board.total - rows.length;
  if (hidden > 0)
    lines.push({ text: `└ ${counted(hidden, 'other reader')}, ${number(board.over)} done in all`, tone: 'dim' });
  const share = board.total === 0 ? 0 : board.over / board.total;
  const full = Math.round(BAR_COLUMNS * share);
  const bar = '█'.repeat(full) + '░'.repeat(BAR_COLUMNS - full);
  lines.push({
    text: `${bar}  ${String(Math.floor(100 * share)).padStart(3)} %  ${number(board.rate)} half-steps/s  ${number(seconds(), 1)} s`,
    tone: 'plain',
  });
  if (board.warning !== undefined) lines.push({ text: board.warning, tone: 'warning' });
  return lines.slice(0, Math.max(1, size.rows)).map((line) => ({ ...line, text: clip(line.text, size.columns) }));
}

function readerText({ file, state, note, calls, isSteered }: ReaderRow, columns: number): string {
  const isOver = state === 'done' || state === 'failed';
  const doing = `${left(state, 6)} ${'▪'.repeat(Math.min(calls, PAGE_SIGNS))}${isSteered ? ' steered' : ''}`;
  const sign = state === 'done' ? '✓' : state === 'failed' ? '✗' : '●';
  const path = Math.max(10, columns - STATE_COLUMNS - 6);
  return `├ ${sign} ${left(clipEnd(file.path, path), path)}  ${!isOver ? doing.trimEnd() : note === '' ? state : note}`;
}

function toneOf({ state }: ReaderRow): TreeLine['tone'] {
  if (state === 'done') return 'done';
  return state === 'failed' ? 'failed' : 'plain';
}

function paintLine({ text, tone }: TreeLine, paint: Paint): string {
  switch (tone) {
    case 'head':
      return paint.bold(text);
    case 'done':
      return `${text.slice(0, SIGN_AT)}${paint.green(text.slice(SIGN_AT, SIGN_AT + 1))}${text.slice(SIGN_AT + 1)}`;
    case 'failed':
      return paint.red(text);
    case 'warning':
      return paint.yellow(text);
    case 'dim':
      return paint.dim(text);
    case 'plain':
      return text;
  }
}
