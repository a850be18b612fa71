/**
 * One node, seen from the loop: its process, the line to the database, and what it reports.
 *
 * Owns: the process and the line. Does not own: what the node is ordered, and what its reports mean.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { FaultLine } from './fault-line.ts';
import type { NodePlan, Note, Order, SessionFacts } from './protocol.ts';

/** Processes that still run. None may outlive this process; one that is stopped would never end. */
const living = new Set<ChildProcess>();
process.on('exit', () => {
  for (const each of living) each.kill('SIGKILL');
});

/** Characters of the log of a node that are kept. */
const LOG_CHARACTERS = 16_000;

/** The parts of a node. */
export interface NodeParts {
  /** The compiled program. */
  readonly script: string;
  /** The socket of the database. */
  readonly socket: string;
  readonly plan: Omit<NodePlan, 'url'>;
  /** Called for each report of the node. */
  readonly listen: (node: NodeProcess, note: Note) => void;
}

/** See the head of this file. */
export class NodeProcess {
  readonly plan: Omit<NodePlan, 'url'>;
  readonly line: FaultLine;
  /** Resolves with the epochs of its claims when the node owns the sessions. Never rejects. */
  readonly opened: Promise<readonly number[]>;
  /** Resolves with the reason that the node gave for its end; undefined if it ended without one. */
  readonly ended: Promise<string | undefined>;
  readonly #process: ChildProcess;
  readonly #sessions: SessionFacts[] = [];
  readonly #waiting = new Map<Note['type'], () => void>();
  #log = '';
  #reason: string | undefined;
  #explanation = '';
  #isOver = false;

  static async start(parts: NodeParts): Promise<NodeProcess> {
    const line = new FaultLine(parts.socket);
    await line.start();
    return new NodeProcess(parts, line);
  }

  private constructor({ script, plan, listen }: NodeParts, line: FaultLine) {
    this.plan = plan;
    this.line = line;
    const orders: NodePlan = { ...plan, url: line.url };
    this.#process = spawn(process.execPath, [script, JSON.stringify(orders)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, NODE_OPTIONS: '', LOG_LEVEL: 'warn' },
    });
    living.add(this.#process);
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#log = (this.#log + text).slice(-LOG_CHARACTERS);
    });
    // Orders to a node that was killed.
    this.#process.on('error', () => undefined);
    let opened = (_epochs: readonly number[]): void => undefined;
    this.opened = new Promise((resolve) => {
      opened = resolve;
    });
    this.#process.on('message', (note: Note) => {
      if (note.type === 'opened') opened(note.epochs);
      if (note.type === 'ended') this.#reason = note.reason;
      if (note.type === 'explained') this.#explanation = note.text;
      if (note.type === 'session') this.#sessions.push(note.session);
      listen(this, note);
      this.#waiting.get(note.type)?.();
    });
    this.ended = once(this.#process, 'close').then(async () => {
      this.#isOver = true;
      living.delete(this.#process);
      await line.close();
      return this.#reason;
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The end of what the node wrote to its log. */
  get log(): string {
    return this.#log;
  }

  order(order: Order): void {
    if (this.#isOver || !this.#process.connected) return;
    this.#process.send(order, () => undefined);
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process.kill(signal);
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.ended;
  }

  /** Closes the runtime; resolves with the reason of its end. */
  async close(): Promise<string | undefined> {
    this.order({ type: 'close' });
    return this.ended;
  }

  /** Resolves when nothing runs any more. */
  drain(): Promise<void> {
    return this.#answered({ type: 'drain' }, 'drained');
  }

  /** Why its sessions are not idle, for a person. */
  async explain(): Promise<string> {
    await this.#answered({ type: 'explain' }, 'explained');
    return this.#explanation;
  }

  /** Every session of the node. */
  async read(): Promise<readonly SessionFacts[]> {
    await this.#answered({ type: 'read' }, 'read');
    return this.#sessions.splice(0);
  }

  async #answered(order: Order, type: Note['type']): Promise<void> {
    const answered = new Promise<void>((resolve) => {
      this.#waiting.set(type, resolve);
    });
    this.order(order);
    await Promise.race([
      answered,
      this.ended.then((reason) => {
        throw new Error(`the node ${this.plan.name} ended (${reason}) before it answered: ${this.#log}`);
      }),
    ]);
    this.#waiting.delete(type);
  }
}
