/** One part of the page: a title, how to read it, and drawings for wide and narrow windows. */

/** See the head of the file. */
export interface Panel {
  readonly title: string;
  /** Explains the drawing in a sentence or two. HTML is escaped. */
  readonly reading: string;
  /** Names and colours, if the drawing itself does not have them. */
  readonly legend?: readonly { readonly name: string; readonly color: string }[];
  /** The panel takes the whole width. */
  readonly isFull?: boolean;
  /** Returns SVG texts for a width in pixels; missing if this run did not measure it. */
  readonly draw: ((width: number) => readonly string[]) | undefined;
}

/** Widths drawings are made for, in pixels. */
export const WIDTHS = { wide: 560, full: 1_160, narrow: 334 } as const;
