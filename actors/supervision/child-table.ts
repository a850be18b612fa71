/**
 * The children of one supervisor as a persistent (immutable) table. A changed copy shares all but three small arrays
 * with its original, so one of 100,000 children can change without copying the others.
 *
 * A row is found by its id. `order` gives the order of start; its numbers rise and are never reused. Rows are sorted
 * only when all children are stopped or started.
 */
import { hashText } from './backoff.ts';

/** The members that every row has. */
export interface TableRow {
  readonly id: string;
  /** Position in the order of start. */
  readonly order: number;
}

/** Rows in 64 groups of 64 buckets by the id's hash. An empty group or bucket is absent. */
export interface ChildTable<Row extends TableRow> {
  readonly size: number;
  readonly groups: readonly (readonly (readonly Row[] | undefined)[] | undefined)[];
}

const BITS = 6;
const MASK = 2 ** BITS - 1;

/** A table without rows. */
export const EMPTY_TABLE: ChildTable<never> = Object.freeze({ size: 0, groups: [] });

/** The row with this id. */
export function rowOf<Row extends TableRow>(table: ChildTable<Row>, id: string): Row | undefined {
  const hash = hashText(id);
  return table.groups[hash & MASK]?.[(hash >>> BITS) & MASK]?.find((row) => row.id === id);
}

/** A table with this row. The row replaces the row with the same id, if there is one. */
export function withRow<Row extends TableRow>(table: ChildTable<Row>, row: Row): ChildTable<Row> {
  return replace(table, row.id, row);
}

/** A table without the row of this id. */
export function withoutRow<Row extends TableRow>(table: ChildTable<Row>, id: string): ChildTable<Row> {
  return replace(table, id, undefined);
}

/** All rows, in the order of start. */
export function rowsInOrder<Row extends TableRow>(table: ChildTable<Row>): Row[] {
  const rows: Row[] = [];
  for (const group of table.groups) for (const bucket of group ?? []) rows.push(...(bucket ?? []));
  return rows.sort((a, b) => a.order - b.order);
}

function replace<Row extends TableRow>(table: ChildTable<Row>, id: string, row: Row | undefined): ChildTable<Row> {
  const hash = hashText(id);
  const groupIndex = hash & MASK;
  const bucketIndex = (hash >>> BITS) & MASK;
  const old = table.groups[groupIndex]?.[bucketIndex] ?? [];
  const others = old.filter((other) => other.id !== id);
  const bucket = row === undefined ? others : [...others, row];
  const group = withItem(table.groups[groupIndex] ?? [], bucketIndex, bucket.length > 0 ? bucket : undefined);
  return {
    size: table.size + bucket.length - old.length,
    groups: withItem(table.groups, groupIndex, group.some((each) => each !== undefined) ? group : undefined),
  };
}

function withItem<T>(
  items: readonly (T | undefined)[],
  index: number,
  item: T | undefined,
): readonly (T | undefined)[] {
  const copy = items.slice();
  copy[index] = item;
  return copy;
}
