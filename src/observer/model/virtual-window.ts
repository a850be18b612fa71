/** Computes which rows of a long list are drawn. Pure. */

/** Number of rows drawn beyond each edge, so that a step of the mouse wheel shows no blank area. */
const OVERSCAN = 8;

/** The drawn rows of a list: from `first` up to but not including `end`. `heightPx`: the height of the whole list. */
export interface VirtualWindow {
  readonly first: number;
  readonly end: number;
  readonly heightPx: number;
}

/** The window of a list of `count` rows of equal height, scrolled by `topPx` in a frame of `framePx`. */
export function virtualWindow(list: {
  readonly count: number;
  readonly rowPx: number;
  readonly topPx: number;
  readonly framePx: number;
}): VirtualWindow {
  const { count, rowPx, framePx } = list;
  const heightPx = count * rowPx;
  // If the list became shorter, its scroll position is beyond the end until the browser corrects it.
  const topPx = Math.max(0, Math.min(list.topPx, heightPx - framePx));
  const first = Math.max(0, Math.floor(topPx / rowPx) - OVERSCAN);
  const end = Math.min(count, Math.ceil((topPx + framePx) / rowPx) + OVERSCAN);
  return { first: Math.min(first, end), end, heightPx };
}

/** The scroll position that brings row `index` into view; undefined when it is in view. */
export function scrollTo(
  index: number,
  list: { readonly rowPx: number; readonly topPx: number; readonly framePx: number },
): number | undefined {
  const { rowPx, topPx, framePx } = list;
  const start = index * rowPx;
  if (start < topPx) return start;
  if (start + rowPx > topPx + framePx) return start + rowPx - framePx;
  return undefined;
}
