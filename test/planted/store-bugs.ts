/** Planted bugs of the journal and of what waits for it: when something is durable, and who may be told. */
import type { PlantedBug } from './planted-bug.ts';

const TRANSITIONS = 'src/runtime/shard/transitions.ts';
const LIFE = 'src/runtime/shard/life.ts';
const JOURNAL = 'src/journal/engine-journal.ts';
const GATE = 'src/journal/lmdb/commit-gate.ts';
const CHECKPOINTER = 'src/runtime/shard/checkpointer.ts';

/** See the head of the file. */
export const storeBugs: readonly PlantedBug[] = [
  {
    name: 'result-not-synced',
    what: 'the whole of a shortened result is named by the log before it is synced',
    file: 'actors/result-store.ts',
    find: "if (this.#isSynced) yield { kind: 'syncFile', path: part };",
    replace: '',
  },
  {
    name: 'result-name-not-synced',
    what: 'the name of a kept result is not synced',
    file: 'actors/result-store.ts',
    find: "if (this.#isSynced) yield { kind: 'syncDirectory', path: this.#directory };",
    replace: '',
  },
  {
    name: 'acknowledge-before-flush',
    what: 'a message is acknowledged when it is appended, not when it is flushed',
    file: TRANSITIONS,
    find: 'const item: CommitItem = {',
    replace: `if (late.some(({ effect }) => effect.type === 'accepted')) this.#answer(late, reply);
    const item: CommitItem = {`,
  },
  {
    name: 'answer-before-flush',
    what: 'whoever waits for an answer is told before the answer is flushed',
    file: TRANSITIONS,
    find: 'const hasNothing = late.length === 0',
    replace: `this.#waiters.settled(outbox.settled ?? []);
    const hasNothing = late.length === 0`,
  },
  {
    name: 'events-before-flush',
    what: 'readers are told events before what they tell of is flushed',
    file: TRANSITIONS,
    find: 'const hasNothing = late.length === 0',
    replace: `this.#parts.host.events((outbox.events ?? []).splice(0));
    const hasNothing = late.length === 0`,
  },
  {
    name: 'tool-before-flush',
    what: 'a tool starts with the turn, not behind the flush of the answer that asks for it',
    file: 'src/runtime/shard/session-work.ts',
    find: 'if (!this.#mayRunAhead(actor, effect)) return false;',
    replace: '',
  },
  {
    name: 'read-before-flush',
    what: 'a read answers with what is appended and not yet flushed',
    file: TRANSITIONS,
    find: 'if (this.#commits.isEmpty) work();',
    replace: 'if (this.#commits.isEmpty || this.#life.refusal() === undefined) work();',
  },
  {
    name: 'delete-before-flush',
    what: 'a deletion is acknowledged before it is flushed',
    file: LIFE,
    find: 'this.#commits.add({ release, refuse: (error) => reply.reject(storeError(error)) });',
    replace: 'release();',
  },
  {
    name: 'waiters-released-before-write',
    what: 'who waits for a flush resumes when the write starts',
    file: GATE,
    find: `    try {
      await this.#port.write(slot.batch);`,
    replace: `    slot.waiter?.resolve();
    try {
      await this.#port.write(slot.batch);`,
  },
  {
    name: 'late-items-ride-earlier-flush',
    what: 'what was added during a flush is released with it',
    file: 'src/runtime/shard/commit-queue.ts',
    find: 'this.#released.push(...items);',
    replace: 'this.#released.push(...items, ...this.#waiting.splice(0));',
  },
  {
    name: 'late-items-never-refused',
    what: 'what was added during a flush that failed is never told so',
    file: 'src/runtime/shard/commit-queue.ts',
    find: 'for (const item of [...items, ...late]) item.refuse(error);',
    replace: 'for (const item of items) item.refuse(error);',
  },
  {
    name: 'refused-write-half-applied',
    what: 'after a refused write only its own batch is dropped; those behind it are written later',
    file: GATE,
    find: `    this.#queue = [{ batch: this.#port.create(), waiter: undefined }];
    this.#state = 'refused';`,
    replace: `    this.#queue = dropped.slice(1);
    this.#state = 'refused';`,
  },
  {
    name: 'refused-write-keeps-pointers',
    what: 'after a refused write sessions still point to the rows that were lost',
    file: JOURNAL,
    find: `    this.#checkpointed = state.checkpointed;
    this.#touched = undefined;`,
    replace: '    this.#checkpointed = state.checkpointed;',
  },
  {
    name: 'refused-write-keeps-rows',
    what: 'reads still see the rows of a refused write',
    file: JOURNAL,
    find: `    this.#unwritten = new Map();
    this.#load();`,
    replace: `    const touched = this.#touched;
    this.#load();
    this.#touched = touched;`,
  },
  {
    name: 'store-recovery-resumes-nobody',
    what: 'when the store takes writes again, the sessions it interrupted are not resumed',
    file: LIFE,
    find: `    this.resumeInterrupted();
    this.#waiters.askAgain();`,
    replace: '    this.#waiters.askAgain();',
  },
  {
    name: 'read-misses-the-tail',
    what: 'after an open, a session is read from the last checkpoint of its place only',
    file: JOURNAL,
    find: 'const last = this.#lastRows().get(key)?.row ?? this.#engine.lastRowOf(key);',
    replace: 'const last = this.#touched?.get(key)?.row ?? this.#engine.lastRowOf(key);',
  },
  {
    name: 'session-key-given-twice',
    what: 'the next free key is not written: after an open it is given again',
    file: JOURNAL,
    find: 'batch.nextKey = this.#nextKey;',
    replace: '',
  },
  {
    name: 'checkpoint-inside-a-row',
    what: 'a checkpoint does not end the row that is being filled',
    file: JOURNAL,
    find: `    this.#row = undefined;
    batch.checkpoint =`,
    replace: '    batch.checkpoint =',
  },
  {
    name: 'checkpoint-index-too-high',
    what: 'a checkpoint claims to know the places of a row that is not there yet',
    file: JOURNAL,
    find: 'indexedRow: this.#nextRow - 1',
    replace: 'indexedRow: this.#nextRow',
  },
  {
    name: 'checkpoint-position-too-high',
    what: 'a checkpoint covers turns that come after it: their sessions are not looked for at the next open',
    file: CHECKPOINTER,
    find: 'this.#journal.checkpoint(heads, this.#position, outdated);',
    replace: 'this.#journal.checkpoint(heads, this.#position * 2, outdated);',
  },
  {
    name: 'snapshot-newer-than-its-position',
    what: 'a snapshot names the position before its last turn: that turn is folded twice',
    file: CHECKPOINTER,
    find: 'actor.snapshot = { address, position: actor.position };',
    replace: 'actor.snapshot = { address, position: actor.position - 1 };',
  },
  {
    name: 'executing-head-not-runnable',
    what: 'the head of a session that waits for its tools does not call it runnable',
    file: CHECKPOINTER,
    find: 'runnable: isRunnable(actor.state),',
    replace: "runnable: isRunnable(actor.state) && actor.state.state !== 'executing',",
  },
  {
    name: 'restored-keys-forgotten',
    what: 'a session woken from a snapshot does not know its idempotency keys',
    file: 'src/session/state/state.ts',
    find: 'keys: new Map(plain.keys),',
    replace: 'keys: new Map(),',
  },
  {
    name: 'delete-leaves-the-children',
    what: 'a deletion removes the session and leaves its descendants',
    file: LIFE,
    find: 'this.#parts.journal.remove(subtree.map((each) => each.key));',
    replace: 'this.#parts.journal.remove([actor.key]);',
  },
  {
    name: 'delete-leaves-the-name',
    what: 'a deletion leaves the name in the store',
    file: JOURNAL,
    find: 'batch.names.set(name, undefined);',
    replace: '',
  },
  {
    name: 'family-in-two-appends',
    what: "a child's part of a turn and its parent's are appended one after the other",
    file: TRANSITIONS,
    find: 'const position = this.#parts.journal.append(entries);',
    replace: `const position = this.#parts.journal.append(entries.slice(0, 1));
    if (entries.length > 1) this.#parts.soon(() => this.#parts.journal.append(entries.slice(1)));`,
  },
  {
    name: 'fence-ignored',
    what: 'a write that was under way when another opened the store still goes in',
    file: 'src/journal/memory-journal.ts',
    find: `      this.#checkFence();
      this.#putRows(batch);`,
    replace: '      this.#putRows(batch);',
  },
];
