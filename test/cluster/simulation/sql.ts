/**
 * The part of SQL that the statements of `src/postgres` about nodes and shards are written in. A statement is read from
 * its own text: one that compares less than it should changes more than it should, here as in PostgreSQL.
 *
 * Owns: the reading of statements. Does not own: the rows (`simulated-database.ts`).
 *  SQ1 a comparison with NULL is not true, and a condition that is not true excludes a row;
 *  SQ2 the conditions of a statement see the rows as they were before it;
 *  SQ3 what it does not know is an error.
 */

/** A value of a column, or of a parameter. Moments are milliseconds. */
export type SqlValue = string | number | boolean | Buffer | null;
/** A row. */
export interface SqlRow {
  readonly [column: string]: SqlValue;
}

/** The tables that a statement works on. */
export interface SqlTables {
  /** The rows of a table, without its schema and the prefix of its name. */
  readonly rows: (table: string) => readonly SqlRow[];
  /** Replaces a row, or removes it (`undefined`). */
  readonly put: (table: string, row: SqlRow, changed: SqlRow | undefined) => void;
  /** The database's clock, in milliseconds. */
  readonly nowMs: number;
}

/** The result of one statement. */
export interface SqlResult {
  readonly rows: readonly SqlRow[];
  readonly rowCount: number;
}

/** The surroundings of an expression: the rows in sight, and those around a subquery. */
interface Scope {
  readonly tables: SqlTables;
  readonly values: readonly unknown[];
  readonly literals: readonly SqlValue[];
  /** By alias. A row that a join has not found is null. */
  readonly rows: ReadonlyMap<string, SqlRow | null>;
  readonly around?: Scope | undefined;
}

type Expression = (scope: Scope) => SqlValue;
type Statement = (scope: Scope) => SqlResult;
type Query = (scope: Scope) => readonly SqlRow[];

interface Item {
  readonly name: string;
  readonly value: Expression;
  readonly isCount: boolean;
}

const LITERAL = /'[^']*'|(?<![\w$.])\d+(?:\.\d+)?/gu;
const TOKEN = /\s*("[^"]+"\.\w+|::\w+|\$\d+|\w+|<>|<=|>=|[?(),=<>+\-*/.])/guy;
const TABLE = /^(?:"[^"]+"\.)?(?:troupe_)?(\w+)$/u;
const WORDS_AFTER_TABLE = new Set(['WHERE', 'SET', 'JOIN', 'LEFT', 'ON', 'ORDER', 'LIMIT', 'FOR', 'FROM', 'RETURNING']);
/** The statements that were read, by their text without literals. */
const known = new Map<string, Statement>();

/** Runs a statement. Throws for one that it cannot read. */
export function runSql(text: string, values: readonly unknown[], tables: SqlTables): SqlResult {
  const literals: SqlValue[] = [];
  const shape = text.replace(LITERAL, (literal) => {
    literals.push(literal.startsWith("'") ? literal.slice(1, -1) : Number(literal));
    return '?';
  });
  let statement = known.get(shape);
  if (statement === undefined) {
    statement = new Reader(shape).statement();
    known.set(shape, statement);
  }
  return statement({ tables, values, literals, rows: new Map() });
}

/** Reads the text of one statement. */
class Reader {
  readonly #text: string;
  readonly #tokens: string[] = [];
  #at = 0;
  #literals = 0;

  constructor(text: string) {
    this.#text = text;
    TOKEN.lastIndex = 0;
    let end = 0;
    for (let match = TOKEN.exec(text); match !== null; match = TOKEN.exec(text)) {
      this.#tokens.push(match[1] ?? '');
      end = TOKEN.lastIndex;
    }
    if (text.slice(end).trim() !== '') throw new Error(`unknown text in a statement: ${text.slice(end)}`);
  }

  statement(): Statement {
    // The change in a common table expression decides. What is made of its rows is the caller's.
    if (this.#takes('WITH')) {
      this.#next();
      this.#must('AS');
      this.#must('(');
      return this.#change(this.#next());
    }
    if (this.#peek() === 'SELECT') {
      const query = this.#query();
      this.#end();
      return (scope) => resultOf(query(scope));
    }
    const change = this.#change(this.#next());
    this.#end();
    return change;
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  #change(kind: string): Statement {
    if (kind === 'DELETE') this.#must('FROM');
    else if (kind !== 'UPDATE') throw this.#unknown(kind);
    const { table, alias } = this.#table();
    const changes: (readonly [string, Expression])[] = [];
    if (kind === 'UPDATE') {
      this.#must('SET');
      do changes.push([this.#next(), this.#value()]);
      while (this.#takes(','));
    }
    const from = this.#takes('FROM') ? this.#valuesList() : undefined;
    const where = this.#takes('WHERE') ? this.#expression() : (): SqlValue => true;
    const returning = this.#takes('RETURNING') ? this.#items() : [];
    return (scope) => {
      const found: (readonly [SqlRow, SqlRow | undefined])[] = [];
      for (const row of scope.tables.rows(table)) {
        for (const other of from?.rows(scope) ?? [undefined]) {
          const rows = new Map([[alias, row]]);
          if (from !== undefined && other !== undefined) rows.set(from.alias, other);
          const inner: Scope = { ...scope, rows };
          if (where(inner) !== true) continue;
          const changed = Object.fromEntries(changes.map(([column, value]) => [column, value(inner)]));
          found.push([row, kind === 'DELETE' ? undefined : { ...row, ...changed }]);
          break;
        }
      }
      for (const [row, changed] of found) scope.tables.put(table, row, changed);
      const rows = found.map(([row, changed]) =>
        rowOf(returning, { ...scope, rows: new Map([[alias, changed ?? row]]) }),
      );
      return { rows: returning.length === 0 ? [] : rows, rowCount: found.length };
    };
  }

  /** The assignment of one column. */
  #value(): Expression {
    this.#must('=');
    return this.#expression();
  }

  /** `(VALUES (…), …) alias (columns)`. */
  #valuesList(): { readonly alias: string; readonly rows: Query } {
    this.#must('(');
    this.#must('VALUES');
    const tuples: (readonly Expression[])[] = [];
    do {
      this.#must('(');
      tuples.push(this.#list(() => this.#expression()));
      this.#must(')');
    } while (this.#takes(','));
    this.#must(')');
    const alias = this.#next();
    this.#must('(');
    const columns = this.#list(() => this.#next());
    this.#must(')');
    const rows: Query = (scope) =>
      tuples.map((tuple) =>
        Object.fromEntries(columns.map((column, index) => [column, tuple[index]?.(scope) ?? null])),
      );
    return { alias, rows };
  }

  #query(): Query {
    this.#must('SELECT');
    const items = this.#items();
    const sources: { table: string; alias: string; isLeft: boolean; on: Expression }[] = [];
    if (this.#takes('FROM')) {
      sources.push({ ...this.#table(), isLeft: false, on: () => true });
      for (;;) {
        const isLeft = this.#takes('LEFT');
        if (!isLeft && this.#peek() !== 'JOIN') break;
        this.#must('JOIN');
        const source = this.#table();
        this.#must('ON');
        sources.push({ ...source, isLeft, on: this.#expression() });
      }
    }
    const where = this.#takes('WHERE') ? this.#expression() : (): SqlValue => true;
    // A row that the condition drops is never copied, where nothing is joined after it.
    const last = sources.at(-1);
    const isFiltered = last?.isLeft === false;
    if (isFiltered) {
      const { on } = last;
      last.on = (scope) => on(scope) === true && where(scope) === true;
    }
    const order = this.#takes('ORDER') ? this.#orderBy() : [];
    const limit = this.#takes('LIMIT') ? this.#expression() : (): SqlValue => null;
    if (this.#takes('FOR')) this.#must('UPDATE');
    return (around) => {
      let scopes: readonly Scope[] = [{ ...around, rows: new Map(), around }];
      for (const source of sources) scopes = scopes.flatMap((scope) => joined(scope, source));
      if (!isFiltered) scopes = scopes.filter((scope) => where(scope) === true);
      if (order.length > 0) scopes = [...scopes].sort((a, b) => compareAll(order, a, b));
      const most = limit(around);
      if (most !== null) scopes = scopes.slice(0, Number(most));
      if (items.some(({ isCount }) => isCount)) return [{ count: scopes.length }];
      return scopes.map((scope) => rowOf(items, scope));
    };
  }

  #orderBy(): readonly Expression[] {
    this.#must('BY');
    return this.#list(() => this.#expression());
  }

  #items(): readonly Item[] {
    return this.#list(() => {
      const isCount = this.#peek() === 'count';
      const from = this.#at;
      const value = this.#expression();
      const last = this.#tokens.slice(from, this.#at).at(-1) ?? '';
      return { name: this.#takes('AS') ? this.#next() : last, value, isCount };
    });
  }

  #table(): { readonly table: string; readonly alias: string } {
    const table = TABLE.exec(this.#next())?.[1] ?? '';
    const next = this.#peek() ?? '';
    const hasAlias = /^\w+$/u.test(next) && !WORDS_AFTER_TABLE.has(next);
    return { table, alias: hasAlias ? this.#next() : table };
  }

  // ---- expressions --------------------------------------------------------------------------------------------------

  #expression(): Expression {
    let left = this.#both();
    while (this.#takes('OR')) {
      const [a, b] = [left, this.#both()];
      left = (scope) => a(scope) === true || b(scope) === true;
    }
    return left;
  }

  #both(): Expression {
    let left = this.#condition();
    while (this.#takes('AND')) {
      const [a, b] = [left, this.#condition()];
      left = (scope) => a(scope) === true && b(scope) === true;
    }
    return left;
  }

  #condition(): Expression {
    if (this.#takes('NOT')) {
      const what = this.#condition();
      return (scope) => {
        const value = what(scope);
        return value === null ? null : value !== true;
      };
    }
    const left = this.#sum();
    if (this.#takes('IS')) return this.#is(left);
    if (this.#takes('IN')) {
      this.#must('(');
      const query = this.#query();
      this.#must(')');
      return (scope) => query(scope).some((row) => isEqual(firstOf(row), left(scope)));
    }
    const operator = this.#peek() ?? '';
    const compare = COMPARISONS.get(operator);
    if (compare === undefined) return left;
    this.#next();
    const right = this.#sum();
    return (scope) => {
      const [a, b] = [left(scope), right(scope)];
      return a === null || b === null ? null : compare(a, b);
    };
  }

  #is(left: Expression): Expression {
    if (this.#takes('DISTINCT')) {
      this.#must('FROM');
      const right = this.#sum();
      return (scope) => !isEqual(left(scope), right(scope));
    }
    const isNot = this.#takes('NOT');
    this.#must('NULL');
    return (scope) => (left(scope) === null) !== isNot;
  }

  #sum(): Expression {
    let left = this.#product();
    for (;;) {
      const isMinus = this.#peek() === '-';
      if (!isMinus && this.#peek() !== '+') return left;
      this.#next();
      const [a, b] = [left, this.#product()];
      left = (scope) => (isMinus ? Number(a(scope)) - Number(b(scope)) : Number(a(scope)) + Number(b(scope)));
    }
  }

  #product(): Expression {
    let left = this.#operand();
    for (;;) {
      const isDivision = this.#peek() === '/';
      if (!isDivision && this.#peek() !== '*') return left;
      this.#next();
      const [a, b] = [left, this.#operand()];
      left = (scope) =>
        isDivision ? Math.trunc(Number(a(scope)) / Number(b(scope))) : Number(a(scope)) * Number(b(scope));
    }
  }

  #operand(): Expression {
    let value = this.#primary();
    for (let next = this.#peek() ?? ''; next.startsWith('::'); next = this.#peek() ?? '') {
      this.#next();
      const inner = value;
      if (next === '::bytea') value = (scope) => bytesOf(inner(scope));
    }
    return value;
  }

  #primary(): Expression {
    const token = this.#next();
    if (token === '(') {
      if (this.#peek() !== 'SELECT') return this.#closing(this.#expression());
      const query = this.#closing(this.#query());
      return (scope) => firstOf(query(scope)[0]);
    }
    if (token === 'EXISTS') {
      this.#must('(');
      const query = this.#closing(this.#query());
      return (scope) => query(scope).length > 0;
    }
    if (token === 'CASE') return this.#case();
    if (token === 'NULL') return () => null;
    if (token === '?') {
      const index = this.#literals;
      this.#literals += 1;
      return ({ literals }) => literals[index] ?? null;
    }
    if (token === 'interval') return this.#interval();
    if (token.startsWith('$')) return ({ values }) => (values[Number(token.slice(1)) - 1] ?? null) as SqlValue;
    if (this.#peek() === '(') return this.#call(token);
    if (!/^[a-z_]\w*$/u.test(token)) throw this.#unknown(token);
    if (!this.#takes('.')) return (scope) => columnOf(scope, undefined, token);
    const column = this.#next();
    return (scope) => columnOf(scope, token, column);
  }

  #case(): Expression {
    this.#must('WHEN');
    const condition = this.#expression();
    this.#must('THEN');
    const then = this.#expression();
    this.#must('ELSE');
    const otherwise = this.#expression();
    this.#must('END');
    return (scope) => (condition(scope) === true ? then(scope) : otherwise(scope));
  }

  #interval(): Expression {
    const text = this.#primary();
    return (scope) => {
      if (text(scope) !== '1 millisecond') throw new Error(`unknown interval ${String(text(scope))}`);
      return 1;
    };
  }

  #call(name: string): Expression {
    this.#must('(');
    if (name === 'clock_timestamp') return this.#closing(({ tables }) => tables.nowMs);
    if (name === 'count') {
      this.#must('*');
      return this.#closing(() => null);
    }
    if (name === 'extract') {
      this.#must('epoch');
      this.#must('FROM');
      const moment = this.#closing(this.#expression());
      return (scope) => Number(moment(scope)) / 1_000;
    }
    const list = this.#closing(this.#list(() => this.#expression()));
    const [first = (): SqlValue => null] = list;
    if (name === 'encode') return (scope) => (first(scope) as Buffer).toString('hex');
    if (name === 'greatest') return (scope) => Math.max(...list.map((each) => Number(each(scope))));
    if (name === 'least') return (scope) => Math.min(...list.map((each) => Number(each(scope))));
    throw this.#unknown(name);
  }

  // ---- tokens -------------------------------------------------------------------------------------------------------

  #peek(): string | undefined {
    return this.#tokens[this.#at];
  }

  #next(): string {
    const token = this.#peek();
    if (token === undefined) throw this.#unknown('end');
    this.#at += 1;
    return token;
  }

  #takes(token: string): boolean {
    if (this.#peek() !== token) return false;
    this.#at += 1;
    return true;
  }

  #must(token: string): void {
    if (!this.#takes(token)) throw this.#unknown(this.#peek() ?? 'end');
  }

  #closing<T>(value: T): T {
    this.#must(')');
    return value;
  }

  #list<T>(one: () => T): readonly T[] {
    const all = [one()];
    while (this.#takes(',')) all.push(one());
    return all;
  }

  #end(): void {
    if (this.#peek() !== undefined) throw this.#unknown(this.#peek() ?? '');
  }

  #unknown(token: string): Error {
    return new Error(`the simulated database does not know ${JSON.stringify(token)} in the statement ${this.#text}`);
  }
}

const COMPARISONS: ReadonlyMap<string, (a: SqlValue, b: SqlValue) => boolean> = new Map([
  ['=', isEqual],
  ['<>', (a, b) => !isEqual(a, b)],
  ['<', (a, b) => compared(a, b) < 0],
  ['>', (a, b) => compared(a, b) > 0],
  ['<=', (a, b) => compared(a, b) <= 0],
  ['>=', (a, b) => compared(a, b) >= 0],
]);

function columnOf(scope: Scope, alias: string | undefined, column: string): SqlValue {
  for (let each: Scope | undefined = scope; each !== undefined; each = each.around) {
    for (const [name, row] of each.rows) {
      if (alias !== undefined && alias !== name) continue;
      if (row === null) return null;
      const value = row[column];
      if (value !== undefined) return value;
      if (alias !== undefined) throw new Error(`the simulated database has no column ${alias}.${column}`);
    }
  }
  throw new Error(`the simulated database has no column ${column}`);
}

function joined(
  scope: Scope,
  { table, alias, isLeft, on }: { table: string; alias: string; isLeft: boolean; on: Expression },
): readonly Scope[] {
  const rows = new Map(scope.rows);
  const tried: Scope = { ...scope, rows };
  const found: Scope[] = [];
  const keep = (row: SqlRow | null): number => found.push({ ...scope, rows: new Map([...scope.rows, [alias, row]]) });
  for (const row of scope.tables.rows(table)) {
    rows.set(alias, row);
    if (on(tried) === true) keep(row);
  }
  if (found.length === 0 && isLeft) keep(null);
  return found;
}

function rowOf(items: readonly Item[], scope: Scope): SqlRow {
  return Object.fromEntries(items.map(({ name, value }) => [name, value(scope)]));
}

function resultOf(rows: readonly SqlRow[]): SqlResult {
  return { rows, rowCount: rows.length };
}

function firstOf(row: SqlRow | undefined): SqlValue {
  return Object.values(row ?? {})[0] ?? null;
}

function bytesOf(value: SqlValue): SqlValue {
  return typeof value === 'string' ? Buffer.from(value.replace(/^\\x/u, ''), 'hex') : value;
}

function compareAll(order: readonly Expression[], a: Scope, b: Scope): number {
  for (const each of order) {
    const [x, y] = [each(a), each(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    const difference = compared(x, y);
    if (difference !== 0) return difference;
  }
  return 0;
}

function compared(a: SqlValue, b: SqlValue): number {
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : Number(a > b);
  return Number(a) - Number(b);
}

function isEqual(a: SqlValue, b: SqlValue): boolean {
  return Buffer.isBuffer(a) && Buffer.isBuffer(b) ? a.equals(b) : a === b;
}
