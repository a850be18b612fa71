/**
 * Runs with the option `redact` (I38 of `invariants.ts`). In two seeds of ten a canary, a text that may not be kept, is
 * added to the texts that enter the runtime. The `redact` function of the run removes canaries, so that every other
 * invariant holds as it does without canaries. A canary is a violation in these places: a value that leaves a session
 * thread, a request, the input of a tool, a file, a store.
 *
 * Owns: the numbers of the canaries, and the choice of the texts that carry one. Does not own: the values.
 */
import type { DiskStep, ResultDisk } from '../../../../actors/result-store.ts';
import { isRecord } from '../../../base/json.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import type { RedactFunction } from '../../../runtime/protocol/redact-option.ts';
import type { ToolPool } from '../../../tools/pool.ts';
import type { ToolPoolOptions } from '../../../tools/threads/threaded-pool.ts';
import type { ToolOutcome } from '../../../tools/tool.ts';
import { drawnFor } from '../families/life-actions.ts';
import type { Ledger } from '../ledger.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { SimulatedTools } from '../simulated-tools.ts';

const STREAM = 0xca4a_5ec7;
const SHARE = 0.2;
/**
 * Each canary begins with this text. The text is ASCII, so that packed values contain it unchanged. No path of a file
 * contains the text, so that no stack of an error contains it by chance.
 */
const BEGINNING = 'canary#';
const CANARY = / canary#\d+\./g;

/** See the head of the file. */
export class Canaries {
  readonly random: SeededRandom;
  readonly #ledger: Ledger;
  #count = 0;

  private constructor(random: SeededRandom, ledger: Ledger) {
    this.random = random;
    this.#ledger = ledger;
  }

  /** The canaries of a run; undefined: the run does not redact. */
  static draw(seed: number, ledger: Ledger): Canaries | undefined {
    const random = drawnFor(seed, STREAM, SHARE);
    return random && new Canaries(random, ledger);
  }

  /** The function of the option `redact`. */
  readonly redact: RedactFunction = (text) => (text.includes(BEGINNING) ? text.replaceAll(CANARY, '') : text);

  /**
   * A new canary, to be added at the end of a text. A text of a canary alone would become blank when it is redacted.
   */
  next(): string {
    this.#count += 1;
    return ` ${BEGINNING}${this.#count}.`;
  }

  /** Returns the text with a canary. A blank text is returned unchanged. */
  text(text: string): string {
    return text.trim() === '' ? text : text + this.next();
  }

  /** The value with a canary in each of its texts. Names of members are kept. */
  value<T>(value: T): T {
    if (typeof value === 'string') return this.text(value) as T;
    if (Array.isArray(value)) return value.map((item: unknown) => this.value(item)) as T;
    if (!isRecord(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.value(member)])) as T;
  }

  /** The content with a canary in its texts, or in the texts of its blocks. Other blocks are kept. */
  content<T>(content: T): T {
    if (!Array.isArray(content)) return typeof content === 'string' ? (this.text(content) as T) : content;
    return content.map((block: unknown) =>
      isRecord(block) && typeof block['text'] === 'string' ? { ...block, text: this.text(block['text']) } : block,
    ) as T;
  }

  /** Checks a value that must not have a canary. `where`: the place of the value, for the violation. */
  check(value: unknown, where: string): void {
    const found = canaryIn(value);
    if (found !== undefined) this.#ledger.violate('failed', `${where} has a canary: ${found} (I38)`);
  }

  /** The tools, with canaries in their results and their progress. */
  tools(tools: Pick<SimulatedTools, 'poolOf'>): Pick<SimulatedTools, 'poolOf'> {
    return {
      poolOf: (process) => {
        const make = tools.poolOf(process);
        return (options) => this.#checked(make({ ...options, listener: this.#marked(options.listener) }));
      },
    };
  }

  #marked(listener: ToolPoolOptions['listener']): ToolPoolOptions['listener'] {
    return {
      finished: (id, outcome) => listener.finished(id, this.#outcome(outcome)),
      progress: (id, data) => listener.progress(id, isRecord(data) ? { ...data, step: this.text('half') } : data),
    };
  }

  #outcome(outcome: ToolOutcome): ToolOutcome {
    const { content, blocks, asks } = outcome;
    return {
      ...outcome,
      content: this.text(content),
      ...(blocks === undefined ? {} : { blocks: this.content(blocks) }),
      ...(asks === undefined ? {} : { asks: { ...asks, question: this.text(asks.question) } }),
    };
  }

  #checked(pool: ToolPool): ToolPool {
    return {
      run: (run) => {
        this.check(run.input, `the input of ${run.key}`);
        pool.run(run);
      },
      cancel: (id, reason) => pool.cancel(id, reason),
      holds: (id) => pool.holds(id),
      describe: (url) => pool.describe(url),
      close: () => pool.close(),
    };
  }

  /** The disk of results, whose files are checked when they are written. */
  disk(disk: ResultDisk): ResultDisk {
    const check = (step: DiskStep): void => {
      if (step.kind === 'write') this.check(step.text, `the result ${step.path}`);
    };
    return {
      ...disk,
      perform: (step) => {
        check(step);
        return disk.perform(step);
      },
      performNow: (step) => {
        check(step);
        disk.performNow(step);
      },
    };
  }

  /** Checks the values that a process left in its stores. In an encrypted value this check cannot find a canary. */
  checkStores(stores: readonly MemoryStore[]): void {
    for (const [shard, { rows, heads, drafts, blobs }] of stores.entries()) {
      for (const [number, bytes] of rows) this.check(bytes, `shard ${shard}: row ${number}`);
      for (const [key, { data }] of heads) this.check(data, `shard ${shard}: the head of ${key}`);
      for (const [key, draft] of drafts) this.check(draft, `shard ${shard}: the draft of ${key}`);
      for (const [address, blob] of blobs) this.check(blob, `shard ${shard}: blob ${address}`);
    }
  }
}

/** The text around the first canary of a value; undefined: the value has no canary. */
function canaryIn(value: unknown): string | undefined {
  if (typeof value === 'string') {
    const at = value.indexOf(BEGINNING);
    return at === -1 ? undefined : value.slice(Math.max(0, at - 60), at + 20);
  }
  if (value instanceof Uint8Array) {
    return canaryIn(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('latin1'));
  }
  if (typeof value !== 'object' || value === null) return undefined;
  // The members of an error are not enumerable.
  const members = value instanceof Error ? [value.message, value.stack, value.cause, { ...value }] : membersOf(value);
  for (const member of members) {
    const found = canaryIn(member);
    if (found !== undefined) return found;
  }
  return undefined;
}

function membersOf(value: object): Iterable<unknown> {
  return value instanceof Map ? [...value].flat() : Object.values(value);
}
