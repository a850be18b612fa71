/**
 * The network between one node and the database: a proxy on the side of the loop, which does what networks do.
 *
 * Owns: the sockets on both sides, and the bytes on their way. Does not own: when a fault begins and ends.
 *
 * Invariants:
 *  FL1 the bytes of one connection keep their order, and none is changed or left out in the middle: a fault ends a
 *     connection, or withholds everything from some byte on;
 *  FL2 in a black hole nothing passes, and no side learns that the other one has closed. `deliver` lets everything pass
 *     that was sent meanwhile, also from connections that the client has given up.
 */
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A wait in milliseconds after which a statement that is held back has arrived whole. */
const WHOLE_MS = 5;
/** Milliseconds in which the database answers a late statement. */
const LATE_ANSWER_MS = 5_000;
/** The name of the prepared statement that appends to the log, as it is in the messages of the protocol. */
const APPEND = Buffer.from('append\0');
const WRITTEN = Buffer.from('INSERT 0 1\0');

/** The end of a statement that the database received after its client had given up. */
export type LateEnd = 'landed' | 'refused';

interface LateOrder {
  /** Milliseconds for which the statement is held back after its client has lost the connection. */
  readonly delayMs: number;
  /** Milliseconds by which new connections are delayed, so that the client's next attempt may come later. */
  readonly nextMs: number;
  readonly ended: (end: LateEnd) => void;
}

interface Link {
  readonly client: Socket;
  readonly far: Socket;
  readonly toFar: Buffer[];
  readonly toClient: Buffer[];
  /** The statement that arrives late; missing for every other connection. */
  late?: { readonly order: LateOrder; readonly statement: Buffer[] };
  /** True once the client has gone; in a black hole the database does not notice. */
  isLeft: boolean;
}

/** See the head of this file. */
export class FaultLine {
  readonly #path: string;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  #port = 0;
  #isBlack = false;
  #isLosing = false;
  #late: LateOrder | undefined;
  #nextMs = 0;

  /** `path`: the socket of the database. */
  constructor(path: string) {
    this.#path = path;
    this.#server = createServer((client) => this.#accept(client));
  }

  /** Starts to listen. */
  async start(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, '127.0.0.1', resolve);
    });
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the line has no port');
    this.#port = address.port;
  }

  /** The address of the database behind this line. */
  get url(): string {
    return `postgres://troupe@127.0.0.1:${this.#port}/postgres`;
  }

  /** Cuts every connection. Answers may be lost, and requests too. */
  cut(): void {
    this.#isLosing = false;
    for (const link of this.#links) end(link);
  }

  /** Lets requests pass and drops all answers, until `cut`. */
  loseAnswers(): void {
    this.#isLosing = true;
  }

  /** Nothing passes any more (FL2). */
  blackHole(): void {
    this.#isBlack = true;
  }

  /** Ends the black hole: everything arrives that was sent meanwhile (FL2). */
  deliver(): void {
    this.#isBlack = false;
    for (const link of this.#links) {
      for (const bytes of link.toFar.splice(0)) link.far.write(bytes);
      for (const bytes of link.toClient.splice(0)) link.client.write(bytes);
      // The database works off what it has received before it sees the end.
      if (link.isLeft) link.far.end();
    }
  }

  /**
   * Takes the next append off the line: its client loses the connection, and the database receives the statement later.
   * Resolves with its end; rejects if no append comes.
   */
  delayAppend(delayMs: number, nextMs: number, limitMs: number): Promise<LateEnd | undefined> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#late = undefined;
        resolve(undefined);
      }, limitMs);
      this.#late = {
        delayMs,
        nextMs,
        ended: (result) => {
          clearTimeout(timer);
          resolve(result);
        },
      };
    });
  }

  async close(): Promise<void> {
    this.#isBlack = false;
    this.cut();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  #accept(client: Socket): void {
    const far = connect(this.#path);
    const link: Link = { client, far, toFar: [], toClient: [], isLeft: false };
    this.#links.add(link);
    client.on('data', (bytes: Buffer) => this.#fromClient(link, bytes));
    far.on('data', (bytes: Buffer) => this.#fromFar(link, bytes));
    client.on('error', () => undefined);
    far.on('error', () => undefined);
    client.on('close', () => {
      link.isLeft = true;
      if (!this.#isBlack && link.late === undefined) end(link);
    });
    far.on('close', () => {
      this.#links.delete(link);
      if (!this.#isBlack) client.destroy();
    });
    if (this.#nextMs === 0) return;
    client.pause();
    setTimeout(() => client.resume(), this.#nextMs);
    this.#nextMs = 0;
  }

  #fromClient(link: Link, bytes: Buffer): void {
    if (link.late !== undefined) {
      link.late.statement.push(bytes);
      return;
    }
    const order = this.#late;
    if (order !== undefined && bytes.includes(APPEND)) {
      this.#late = undefined;
      this.#delay(link, order, bytes);
      return;
    }
    if (this.#isBlack) link.toFar.push(bytes);
    else link.far.write(bytes);
  }

  #fromFar(link: Link, bytes: Buffer): void {
    if (link.late !== undefined) {
      link.toClient.push(bytes);
      return;
    }
    if (this.#isBlack) link.toClient.push(bytes);
    else if (!this.#isLosing) link.client.write(bytes);
  }

  #delay(link: Link, order: LateOrder, first: Buffer): void {
    const late = { order, statement: [first] };
    link.late = late;
    this.#nextMs = order.nextMs;
    setTimeout(() => {
      link.client.destroy();
      setTimeout(() => {
        // The answer is read to its end, which the database sends after it has worked off the statement.
        const limit = setTimeout(() => link.far.destroy(), LATE_ANSWER_MS);
        link.far.once('close', () => {
          clearTimeout(limit);
          order.ended(Buffer.concat(link.toClient).includes(WRITTEN) ? 'landed' : 'refused');
        });
        for (const bytes of late.statement) link.far.write(bytes);
        link.far.end();
      }, order.delayMs);
    }, WHOLE_MS);
  }
}

function end(link: Link): void {
  link.client.destroy();
  if (link.late === undefined) link.far.destroy();
}
