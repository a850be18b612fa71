/**
 * The display of the demonstration: lines that stay, and below them, on a terminal, a block that is drawn again and again.
 *
 * Owns: the terminal's cursor until `stop`.
 *  DS1 the cursor is shown again however the process ends, except by a kill;
 *  DS2 no line of the block is wider than the terminal, so that the next block covers it.
 */
import { type Output, type Paint, paintFor, plainOutput, type Surroundings } from '../../../src/cli/surroundings.ts';
import { clip, counted, left, number } from '../../../src/cli/text-layout.ts';
import type { DemoNode, NodeState } from './cluster.ts';
import type { DemoWork } from './work.ts';

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const CLEAR_BELOW = '\u001b[J';
const REDRAW_MS = 100;
const BAR_COLUMNS = 30;
/** Without a terminal there is a line for each of so many parts of the work. */
const PARTS = 10;
const MS_PER_SECOND = 1_000;
/** Columns of the word for a node's state. */
const STATE_COLUMNS = 8;

/** See the head of the file. */
export class DemoScreen {
  readonly paint: Paint;
  readonly #output: Output;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #forget: () => void;
  #begun: number = performance.now();
  #nodes: readonly DemoNode[] = [];
  #work: DemoWork | undefined;
  #member = '';
  #drawn = 0;
  #part = 0;

  /** `isPlain`: write as to a file, also on a terminal. */
  constructor(surroundings: Surroundings, isPlain: boolean) {
    const { stdout, environment } = surroundings;
    this.#output = isPlain || environment['TERM'] === 'dumb' ? plainOutput(stdout) : stdout;
    this.paint = paintFor(this.#output, environment);
    this.#forget = surroundings.onExit(() => this.stop());
    if (!this.#output.isTerminal) return;
    this.#output.write(HIDE_CURSOR);
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS);
  }

  /** Seconds since the work began. */
  get seconds(): number {
    return (performance.now() - this.#begun) / MS_PER_SECOND;
  }

  /** Shows the nodes and the work from now on. `member`: the node that is asked. */
  show(nodes: readonly DemoNode[], work: DemoWork, member: DemoNode): void {
    this.#nodes = nodes;
    this.#work = work;
    this.#member = member.name;
    this.#begun = performance.now();
  }

  /** Writes a line that stays. */
  note(text: string): void {
    this.#output.write(`${this.#erase()}${text}\n`);
    this.#draw();
  }

  /** Called after each event. Without a terminal, writes a line for each tenth of the work. */
  changed(): void {
    const work = this.#work;
    if (this.#output.isTerminal || work === undefined) return;
    const part = Math.floor((PARTS * work.answers) / work.total);
    if (part === this.#part) return;
    this.#part = part;
    this.#output.write(`${this.#progress(work)}\n`);
  }

  /** Removes the block and restores the terminal. Later calls do nothing. */
  stop(): void {
    this.#forget();
    clearInterval(this.#timer);
    this.#work = undefined;
    this.#output.write(this.#erase());
    if (this.#output.isTerminal) this.#output.write(SHOW_CURSOR);
  }

  #draw(): void {
    const work = this.#work;
    if (!this.#output.isTerminal || work === undefined) return;
    const columns = Math.max(1, this.#output.columns - 1);
    const nodes = this.#nodes.map((node) => ({ text: this.#node(node), state: node.state }));
    const bar = '█'.repeat(Math.round((BAR_COLUMNS * work.answers) / work.total)).padEnd(BAR_COLUMNS, '░');
    const age = (performance.now() - work.lastEventMs) / MS_PER_SECOND;
    const seen =
      `node ${this.#member} sees event ${number(work.lastEvent)} (${number(age, 1)} s ago), ` +
      `${number(work.spawned)} sub-agents; ${counted(work.inFlight, 'request')} in flight`;
    const lines = [
      '',
      ...nodes.map(({ text, state }) => this.#tone(state)(clip(text, columns))),
      clip(`  ${bar}  ${this.#progress(work).trim()}`, columns),
      this.paint.dim(clip(`  ${seen}`, columns)),
    ];
    this.#output.write(`${this.#erase()}${lines.join('\n')}\n`);
    this.#drawn = lines.length;
  }

  #node({ name, pid, state }: DemoNode): string {
    const sign = { starting: '◌', owner: '●', member: '○', gone: '✗' }[state];
    const asked = name === this.#member && state !== 'gone' ? '  all requests come here' : '';
    return `  ${sign} node ${name}  ${left(state, STATE_COLUMNS)} process ${pid}${asked}`;
  }

  #tone(state: NodeState): (text: string) => string {
    if (state === 'owner') return this.paint.green;
    return state === 'gone' ? this.paint.red : (text) => text;
  }

  #progress({ answers, total }: DemoWork): string {
    const share = String(Math.floor((100 * answers) / total)).padStart(3);
    return `${share} %  ${number(answers)} of ${number(total)} answers  ${number(this.seconds, 1)} s`;
  }

  #erase(): string {
    const rows = this.#drawn;
    this.#drawn = 0;
    return rows === 0 ? '' : `\u001b[${rows}A\r${CLEAR_BELOW}`;
  }
}
