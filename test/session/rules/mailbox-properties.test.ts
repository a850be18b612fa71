/**
 * Goal: the mailbox behaves like a plain array (contract §3, §4.2, the delivery policies). Method: the same random
 * steps run on a session and on `PlainMailbox`, a reference with an array and the order of promotion. After each step
 * both hold the same entries in the same order. The seed of a failing run is printed.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Machine, makeWorld } from '../../support/session-kit.ts';

type Deliver = 'ride' | 'steer' | 'turn' | 'merge' | 'latest' | 'interrupt';
type Kind = Deliver | 'reply' | 'memory';

type Step =
  | { readonly do: 'send'; readonly kind: Kind }
  | { readonly do: 'recall'; readonly which: number }
  | { readonly do: 'answer'; readonly calls: number }
  | { readonly do: 'finish' }
  | { readonly do: 'pause' | 'resume' | 'interrupt' };

interface Waiting {
  readonly id: number;
  readonly kind: Kind | 'response';
  readonly content: string;
}

/** The array, and the outcome of every entry that was in it. */
class PlainMailbox {
  waiting: Waiting[] = [];
  /** Contents in the order in which they entered the log; merged messages are one content. */
  readonly promoted: string[] = [];
  readonly gone: string[] = [];
  state: 'idle' | 'awaiting' | 'executing' = 'idle';
  open: string[] = [];
  paused = false;
  nextId = 1;
  #nextCall = 1;

  put(kind: Waiting['kind'], content: string): void {
    const id = this.nextId;
    this.nextId += 1;
    if (kind === 'latest') this.#drop((entry) => entry.kind === 'latest');
    this.waiting.push({ id, kind, content });
    if (kind === 'interrupt' && this.state !== 'idle') this.interrupt();
    else this.go();
  }

  recall(id: number): void {
    this.#drop(
      (entry) => entry.id === id && entry.kind !== 'response' && entry.kind !== 'reply' && entry.kind !== 'memory',
    );
  }

  answer(calls: number): readonly string[] {
    if (this.state !== 'awaiting') return [];
    const ids = Array.from({ length: calls }, () => `call_${this.#nextCall++}`);
    this.open = [...ids];
    this.state = calls > 0 ? 'executing' : 'idle';
    this.go();
    return ids;
  }

  /** Answers the oldest call. */
  finish(): string | undefined {
    const id = this.open.shift();
    if (id !== undefined) this.put('response', `of ${id}`);
    return id;
  }

  /** Answers the running calls as interrupted, promotes all results, and starts a turn for the waiting entries. */
  interrupt(): void {
    if (this.state === 'idle') return;
    for (const id of this.open.splice(0)) {
      this.waiting.push({ id: this.nextId, kind: 'response', content: `interrupted ${id}` });
      this.nextId += 1;
    }
    this.#take(this.waiting.filter(({ kind }) => kind === 'response'));
    this.state = 'idle';
    this.go();
  }

  /** Starts a half-step if one may start and an entry that causes a half-step waits. */
  go(): void {
    if (this.paused || this.state === 'awaiting' || this.open.length > 0) return;
    const isFresh = this.state === 'idle' && !this.waiting.some(({ kind }) => kind === 'response');
    const is = (...kinds: readonly Waiting['kind'][]) => this.waiting.filter(({ kind }) => kinds.includes(kind));
    const interrupting = isFresh ? is('interrupt')[0] : undefined;
    const steers = interrupting === undefined ? is('steer') : [];
    const riders = interrupting === undefined ? this.#riders(isFresh && steers.length === 0) : [interrupting];
    const active = [...is('response'), ...steers, ...riders];
    if (active.length === 0 && this.state === 'idle') return;
    this.#take([...is('response'), ...is('memory'), ...steers, ...riders]);
    this.state = 'awaiting';
  }

  #riders(mayStartTurn: boolean): readonly Waiting[] {
    const candidates = this.waiting.filter(({ kind }) => kind !== 'response' && kind !== 'memory' && kind !== 'steer');
    const first = candidates.find(({ kind }) => mayStartTurn || (kind !== 'turn' && kind !== 'interrupt'));
    if (first === undefined) return [];
    if (first.kind === 'reply' || first.kind === 'merge') return candidates.filter(({ kind }) => kind === first.kind);
    return [first];
  }

  #take(entries: readonly Waiting[]): void {
    const merged = entries.filter(({ kind }) => kind === 'merge').map(({ content }) => content);
    for (const { kind, content } of entries) if (kind !== 'merge') this.promoted.push(content);
    if (merged.length > 0) this.promoted.push(merged.join('\n\n'));
    this.waiting = this.waiting.filter((entry) => !entries.includes(entry));
  }

  #drop(isDropped: (entry: Waiting) => boolean): void {
    for (const entry of this.waiting.filter(isDropped)) this.gone.push(entry.content);
    this.waiting = this.waiting.filter((entry) => !isDropped(entry));
  }
}

const kinds = fc.constantFrom<Kind>(
  'ride',
  'ride',
  'steer',
  'turn',
  'merge',
  'merge',
  'latest',
  'interrupt',
  'reply',
  'memory',
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('send' as const), kind: kinds }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('recall' as const), which: fc.nat(6) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('answer' as const), calls: fc.constantFrom(0, 0, 1, 2, 3) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('finish' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('pause' as const, 'resume' as const, 'resume' as const, 'interrupt' as const),
    }),
  },
);

/** The contents that a session promoted, in the form of `PlainMailbox.promoted`. */
function promotedBy(machine: Machine): readonly string[] {
  return machine
    .events('message.created')
    .filter(({ message }) => message.type === 'user_message' || message.type === 'tool_response')
    .map(({ message }) => String(message.content));
}

function send(machine: Machine, kind: Kind, content: string): void {
  if (kind === 'reply') machine.send(content, { type: 'subagent', source: { type: 'subagent', name: 'sleuth' } });
  else if (kind === 'memory') machine.send(content, { type: 'from_mneme', source: { type: 'recall', name: '7' } });
  else machine.send(content, { deliver: kind });
}

it('A7, T5: a session holds, drops and promotes the same entries as a plain array, in the same order', () => {
  let promotions = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50, size: 'max' }), (steps) => {
      const machine = new Machine(makeWorld());
      machine.input({ type: 'create', agent: 'main' });
      const plain = new PlainMailbox();
      steps.forEach((each, index) => {
        switch (each.do) {
          case 'send':
            plain.put(each.kind, `<${index}>`);
            send(machine, each.kind, `<${index}>`);
            break;
          case 'recall': {
            const id = plain.waiting[each.which]?.id ?? 0;
            plain.recall(id);
            machine.input({ type: 'recall', pendingId: id });
            break;
          }
          case 'answer': {
            if (plain.state !== 'awaiting') break;
            const ids = plain.answer(each.calls);
            machine.answer(ids.map((id) => ({ type: 'tool_use', id, name: 'bash', input: {} })));
            break;
          }
          case 'finish': {
            const id = plain.finish();
            if (id !== undefined) machine.finish(id, `of ${id}`);
            break;
          }
          case 'pause':
            plain.paused = true;
            machine.input({ type: 'pause' });
            break;
          case 'resume':
            plain.paused = false;
            plain.go();
            machine.input({ type: 'resume' });
            break;
          case 'interrupt':
            plain.interrupt();
            machine.input({ type: 'interrupt' });
            break;
        }
        expect(machine.state.state, `state after step ${index}`).toBe(plain.state);
        expect(
          machine.state.mailbox.map(({ id }) => id),
          `waiting after step ${index}`,
        ).toEqual(plain.waiting.map(({ id }) => id));
        const promoted = promotedBy(machine).map((content) =>
          content.startsWith('<') || content.startsWith('of ') ? content : 'interrupted',
        );
        const expected = plain.promoted.map((content) => (content.startsWith('interrupted') ? 'interrupted' : content));
        expect(promoted, `promoted by step ${index}`).toEqual(expected);
        promotions += plain.promoted.length;
      });
      const left = machine.events('pending.removed').filter(({ reason }) => reason !== 'promoted');
      expect(left).toHaveLength(plain.gone.length);
    }),
    { numRuns: 400 },
  );
  expect(promotions).toBeGreaterThan(1_000);
});
