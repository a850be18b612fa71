/**
 * A connection to the database that is made again after a failure. Each call runs one statement or one transaction.
 * Several calls may be in flight.
 *
 * Owns: one client of `pg`, made at the first statement. Does not own: when a statement is tried again.
 *
 * Invariants:
 *  PC1 a statement ends: it is given up after `limitMs`, and its connection is destroyed with it, since a connection
 *     that was cut may never answer. Whether such a statement takes effect is unknown;
 *  PC2 after an error that does not come from the statement itself the connection is destroyed, and the next statement
 *     makes another;
 *  PC3 no error shows the address of the database, which may have a password.
 */
import { Socket } from 'node:net';
import type { Client } from 'pg';
import { STATEMENT_MS } from '../base/bounds.ts';
import { asError, ConfigError, systemCodeOf, TimeoutError } from '../base/errors.ts';
import type { PostgresData, PostgresTls } from './options.ts';

/** One row of a result. */
export type Row = Readonly<Record<string, unknown>>;

/** The result of a statement. */
export interface Result {
  readonly rows: readonly Row[];
  /** Rows that were written, or read. */
  readonly rowCount: number | null;
}

interface Live {
  readonly client: Client;
  readonly socket: Socket;
}

/** The methods of a connection that the other files of this folder use. A simulator implements them in virtual time. */
export type StatementPort = Pick<Connection, 'run' | 'runAll' | 'rest' | 'close'>;

/** See the head of this file. */
export class Connection {
  readonly #data: PostgresData;
  #live: Promise<Live> | undefined;
  #isClosed = false;

  constructor(data: PostgresData) {
    this.#data = data;
  }

  /**
   * Runs a statement that is prepared once for each connection. `limitMs`: see PC1. Rejects with the database's error,
   * with `TimeoutError`, and with `ConfigError` if the package `pg` is missing.
   */
  async run(name: string, text: string, values: readonly unknown[], limitMs: number = STATEMENT_MS): Promise<Result> {
    // Bytes come as hexadecimal text. With the option `binary`, the package reads them as UTF-8, which changes them.
    return this.#ask((client) => client.query<Row>({ name, text, values: [...values] }), limitMs);
  }

  /** Runs statements without parameters in one transaction, sent as one message. Resolves to the result of each. */
  async runAll(texts: readonly string[], limitMs: number = STATEMENT_MS): Promise<readonly Result[]> {
    // For several statements the package returns a list of results, although its types promise one result.
    return this.#ask(
      (client) => client.query(texts.join(';\n')) as Promise<unknown> as Promise<readonly Result[]>,
      limitMs,
    );
  }

  /** Ends the connection. The next statement makes another. */
  async rest(): Promise<void> {
    const live = this.#live;
    this.#live = undefined;
    // A connection that could not be made need not be closed.
    const made = await live?.catch(() => undefined);
    made?.socket.destroy();
  }

  /** Ends the connection. No statement is run after this. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.rest();
  }

  async #ask<T>(query: (client: Client) => Promise<T>, limitMs: number): Promise<T> {
    if (this.#isClosed) throw new TimeoutError('the connection to the database is closed');
    this.#live ??= this.#connect();
    const opening = this.#live;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new TimeoutError(`the database did not answer in ${limitMs} ms`)), limitMs);
    });
    try {
      const { client } = await Promise.race([opening, late]);
      return await Promise.race([query(client), late]);
    } catch (error) {
      if (!isOfStatement(error)) this.#drop(opening);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #drop(opening: Promise<Live>): void {
    if (this.#live === opening) this.#live = undefined;
    opening.then(
      ({ socket }) => socket.destroy(),
      () => undefined,
    );
  }

  async #connect(): Promise<Live> {
    const { Client: PgClient } = await loadPg();
    const socket = new Socket();
    const { url, tls } = this.#data;
    const client = new PgClient({
      connectionString: url,
      connectionTimeoutMillis: STATEMENT_MS,
      keepAlive: true,
      application_name: 'troupe',
      // With this option a renewal is sent while a claim still waits for its answer.
      pipeline: true,
      stream: () => socket,
      ...(tls === undefined ? {} : { ssl: tlsOf(tls) }),
    });
    // An error between two statements is found by the next statement.
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      socket.destroy();
      // The error of a host with several addresses is a list without a message.
      throw error instanceof AggregateError ? asError(error.errors[0]) : error;
    }
    if (this.#isClosed) socket.destroy();
    return { client, socket };
  }
}

function tlsOf(tls: PostgresTls): boolean | { readonly rejectUnauthorized: true } {
  return typeof tls === 'boolean' ? tls && { rejectUnauthorized: true } : { ...tls, rejectUnauthorized: true };
}

/** True if the error is the database's answer to a statement, and the connection still works. */
function isOfStatement(error: unknown): boolean {
  const code = stateOf(error);
  // Class 57: the server ends the connection; class 08: the connection is broken.
  return code !== undefined && !code.startsWith('57') && !code.startsWith('08');
}

/** The SQLSTATE of an error of the database: five characters; undefined for another error. */
export function stateOf(error: unknown): string | undefined {
  const code = systemCodeOf(error);
  const isState = code !== undefined && /^[0-9A-Z]{5}$/u.test(code) && error instanceof Error && 'severity' in error;
  return isState ? code : undefined;
}

/** SQLSTATE classes and single states of errors that end without a change of the statement or the options. */
const PASSING = ['08', '40', '53', '55', '57', '25006'];

/** True if the statement may succeed later, unchanged: no connection, a restart, a fail-over, a full disk. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConfigError) return false;
  const state = stateOf(error);
  return state === undefined || PASSING.some((each) => state.startsWith(each));
}

const PACKAGE = 'pg';

async function loadPg(): Promise<Pick<typeof import('pg'), 'Client'>> {
  try {
    return (await import('pg')).default;
  } catch (error) {
    if (systemCodeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw asError(error);
    throw new ConfigError(`a cluster on PostgreSQL needs the package ${PACKAGE}: npm install ${PACKAGE}`, {
      cause: error,
      data: { key: 'cluster', package: PACKAGE },
    });
  }
}
