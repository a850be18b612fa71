/**
 * The conditions of a statement, read from its own text: a statement that compares less than it should writes more than
 * it should, here as in PostgreSQL.
 */

/** A value of a column, or of a parameter. */
export type SqlValue = string | number | Buffer | null;

/** The surroundings in which conditions are evaluated. */
export interface ConditionScope {
  readonly row: Readonly<Record<string, SqlValue>>;
  readonly values: readonly unknown[];
  /** The database's clock, in milliseconds. */
  readonly nowMs: number;
}

/** True if a row fits all conditions of the first `WHERE` after `from`, up to `RETURNING`, `LIMIT`, `ORDER` or the end. */
export function fits(text: string, from: string, scope: ConditionScope): boolean {
  const rest = text.slice(text.indexOf(from) + from.length);
  const where = /\bWHERE (.*?)(?: RETURNING\b| LIMIT\b| ORDER\b|$)/u.exec(rest)?.[1];
  if (where === undefined) return true;
  return where.split(' AND ').every((condition) => holds(condition.trim(), scope));
}

/** A moment on the database's clock, in milliseconds, that the statement names (PD5 of `directory.ts`). */
const BEFORE_MOMENT = /^\(extract\(epoch FROM clock_timestamp\(\)\) \* 1000\)::float8 < ([\d.]+)$/u;

function holds(condition: string, scope: ConditionScope): boolean {
  const moment = BEFORE_MOMENT.exec(condition)?.[1];
  if (moment !== undefined) return scope.nowMs < Number(moment);
  const parts = /^(?:\w+\.)?(\w+) (=|<>|<|>) (.+)$/u.exec(condition);
  if (parts === null) throw new Error(`the simulated database does not know the condition ${condition}`);
  const [, column = '', operator, expression = ''] = parts;
  const found = scope.row[column];
  if (found === undefined) throw new Error(`the simulated database has no column ${column}`);
  const wanted = sqlValue(expression, scope);
  // A comparison with NULL is not true.
  if (found === null || wanted === null) return false;
  if (operator === '<') return Number(found) < Number(wanted);
  if (operator === '>') return Number(found) > Number(wanted);
  return isEqual(found, wanted) === (operator === '=');
}

function sqlValue(expression: string, { values, nowMs }: ConditionScope): SqlValue {
  if (expression === 'clock_timestamp()') return nowMs;
  const text = /^'([^']*)'$/u.exec(expression)?.[1];
  if (text !== undefined) return text;
  const parameter = /^\$(\d+)(?:::bigint)?( - 1)?$/u.exec(expression);
  if (parameter === null) throw new Error(`the simulated database does not know the expression ${expression}`);
  const value = values[Number(parameter[1]) - 1] as SqlValue;
  return parameter[2] === undefined ? value : Number(value) - 1;
}

function isEqual(a: SqlValue, b: SqlValue): boolean {
  return Buffer.isBuffer(a) && Buffer.isBuffer(b) ? a.equals(b) : a === b;
}
