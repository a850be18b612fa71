/** The index of the first item that is not below `item` in an ascending list; the list's length if there is none. */
export function lowerBound<Item extends string | number>(items: readonly Item[], item: Item): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((items[middle] ?? item) < item) low = middle + 1;
    else high = middle;
  }
  return low;
}
