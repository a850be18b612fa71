/** Tables that fit the terminal: columns are shortened, never wrapped. Pure. */
import type { Paint } from './surroundings.ts';
import { clip, clipEnd, displayWidth, left, right } from './text-layout.ts';

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  /** The width below which the column is not shortened. Missing: the column is never shortened. */
  readonly min?: number;
  /** True if a text that does not fit is cut at its beginning, because its end says most. */
  readonly keepsEnd?: boolean;
  readonly isRight?: boolean;
}

const GAP = '  ';

/**
 * The lines of a table: the titles, and a line for each row. Each is at most `columns - 1` wide, because some terminals
 * wrap a line that fills the last column. A column without any text is left out.
 */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  view: { readonly columns: number; readonly paint: Paint },
  tone: (row: Row, line: string) => string = (_row, line) => line,
): readonly string[] {
  const cells = rows.map((row) => columns.map(({ text }) => text(row)));
  const shown = columns.flatMap((column, index) =>
    cells.some((texts) => texts[index] !== '') ? [{ column, index }] : [],
  );
  const natural = shown.map(({ column, index }) =>
    Math.max(displayWidth(column.title), ...cells.map((texts) => displayWidth(texts[index] ?? ''))),
  );
  const room = Math.max(1, view.columns - 1);
  const widths = fitted(
    natural,
    shown.map(({ column }) => column),
    room - GAP.length * (shown.length - 1),
  );
  const line = (textOf: (index: number) => string, last: number): string =>
    clip(
      shown
        .map(({ column, index }, at) => {
          const width = widths[at] ?? 0;
          const text = column.keepsEnd === true ? clipEnd(textOf(index), width) : clip(textOf(index), width);
          if (column.isRight === true) return right(text, width);
          return at === last ? text : left(text, width);
        })
        .join(GAP),
      room,
    );
  const last = shown.length - 1;
  const titles = line((index) => columns[index]?.title ?? '', last);
  return [
    view.paint.dim(titles),
    ...rows.map((row, at) =>
      tone(
        row,
        line((index) => cells[at]?.[index] ?? '', last),
      ),
    ),
  ];
}

/** The widths of the columns. The widest column is shortened first, until all fit or none may be shortened. */
function fitted<Row>(natural: readonly number[], columns: readonly Column<Row>[], room: number): readonly number[] {
  const widths = [...natural];
  for (let excess = widths.reduce((sum, width) => sum + width, 0) - room; excess > 0; excess -= 1) {
    let widest: number | undefined;
    for (const [at, width] of widths.entries()) {
      const mayGive = width > (columns[at]?.min ?? width);
      if (mayGive && width > (widest === undefined ? 0 : (widths[widest] ?? 0))) widest = at;
    }
    if (widest === undefined) break;
    widths[widest] = (widths[widest] ?? 1) - 1;
  }
  return widths;
}
