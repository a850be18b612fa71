/**
 * Planted bugs of the journal and of the code that waits for it: when data is durable, and when it may be published.
 */
import type { PlantedBug } from './planted-bug.ts';

const TRANSITIONS = 'src/runtime/shard/transitions.ts';
const LIFE = 'src/runtime/shard/life.ts';
const JOURNAL = 'src/journal/engine-journal.ts';
const GATE = 'src/journal/lmdb/commit-gate.ts';
const CHECKPOINTER = 'src/runtime/shard/checkpointer.ts';

/** See the head of the file. */
export const storeBugs: readonly PlantedBug[] = [
  {
    name: 'medium-of-another-session',
    what: 'a medium is not stored when any session has the same one, so that it may be missing from its own',
    file: 'src/journal/rows/media-text.ts',
    find: 'put(address, bytes);',
    replace: `const seen = (Reflect.get(globalThis, 'troupe.media') as Set<string> | undefined) ?? new Set<string>();
      Reflect.set(globalThis, 'troupe.media', seen);
      const content = address.slice(address.indexOf('/'));
      if (!seen.has(content)) put(address, bytes);
      seen.add(content);`,
  },
  {
    name: 'result-not-synced',
    what: 'the log names the whole text of a shortened result before that is synced',
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
    what: 'a waiting caller gets its answer before the answer is flushed',
    file: TRANSITIONS,
    find: 'const hasNothing = late.length === 0',
    replace: `this.#waiters.settled(outbox.settled ?? []);
    const hasNothing = late.length === 0`,
  },
  {
    name: 'events-before-flush',
    what: 'events are published before their transition is flushed',
    file: TRANSITIONS,
    find: 'const hasNothing = late.length === 0',
    replace: `this.#parts.host.events((outbox.events ?? []).splice(0));
    const hasNothing = late.length === 0`,
  },
  {
    name: 'tool-before-flush',
    what: 'a tool starts with the transition, not after the flush of the answer that asks for it',
    file: 'src/runtime/shard/session-work.ts',
    find: 'if (!this.#mayRunAhead(actor, effect)) return false;',
    replace: '',
  },
  {
    name: 'read-before-flush',
    what: 'a read returns data that is appended and not yet flushed',
    file: TRANSITIONS,
    find: 'if (this.#commits.isEmpty) work();',
    replace: 'if (this.#commits.isEmpty || this.#life.refusal() === undefined) work();',
  },
  {
    name: 'delete-before-flush',
    what: 'a deletion is acknowledged before it is flushed',
    file: LIFE,
    find: 'this.#commits.add({ release, refuse: (error) => reply.reject(refusalOf(error)) });',
    replace: 'release();',
  },
  {
    name: 'waiters-released-before-write',
    what: 'a wait for a flush ends when the write starts',
    file: GATE,
    find: `    try {
      await this.#port.write(slot.batch);`,
    replace: `    slot.waiter?.resolve();
    try {
      await this.#port.write(slot.batch);`,
  },
  {
    name: 'late-items-ride-earlier-flush',
    what: 'items added during a flush are released with it',
    file: 'src/runtime/shard/commit-queue.ts',
    find: 'this.#released.push(...items);',
    replace: 'this.#released.push(...items, ...this.#waiting.splice(0));',
  },
  {
    name: 'late-items-never-refused',
    what: 'items added during a failed flush are never refused',
    file: 'src/runtime/shard/commit-queue.ts',
    find: 'for (const item of [...items, ...late]) item.refuse(error);',
    replace: 'for (const item of items) item.refuse(error);',
  },
  {
    name: 'refused-write-half-applied',
    what: 'after a refused write only its own batch is dropped; later batches are still written',
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
    find: '    this.#lastRows.forget();',
    replace: '',
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
    what: 'when the store accepts writes again, the sessions it interrupted are not resumed',
    file: LIFE,
    find: `    this.resumeInterrupted();
    this.#waiters.askAgain();`,
    replace: '    this.#waiters.askAgain();',
  },
  {
    name: 'read-misses-the-tail',
    what: 'after an open, the last row of a session is taken from the last checkpoint only',
    file: 'src/journal/last-rows.ts',
    find: 'return this.touched().get(key)?.row ?? this.#engine.lastRowOf(key);',
    replace: 'return this.#touched?.get(key)?.row ?? this.#engine.lastRowOf(key);',
  },
  {
    name: 'session-key-given-twice',
    what: 'the next free key is not written: after an open it is used again',
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
    what: 'a checkpoint claims to know the positions of a row that does not exist yet',
    file: JOURNAL,
    find: 'indexedRow: this.#nextRow - 1',
    replace: 'indexedRow: this.#nextRow',
  },
  {
    name: 'checkpoint-position-too-high',
    what: 'a checkpoint covers later transitions: their sessions are not looked for at the next open',
    file: CHECKPOINTER,
    find: 'this.#journal.checkpoint(heads, this.#position, outdated);',
    replace: 'this.#journal.checkpoint(heads, this.#position * 2, outdated);',
  },
  {
    name: 'snapshot-newer-than-its-position',
    what: 'a snapshot names the position before its last transition: that transition is folded twice',
    file: CHECKPOINTER,
    find: 'actor.snapshot = { address, position: actor.position };',
    replace: 'actor.snapshot = { address, position: actor.position - 1 };',
  },
  {
    name: 'executing-head-not-runnable',
    what: 'the head of a session that waits for its tools does not call it runnable',
    file: 'src/runtime/reading/session-head.ts',
    find: 'runnable: isRunnable(actor.state),',
    replace: "runnable: isRunnable(actor.state) && actor.state.state !== 'executing',",
  },
  {
    name: 'restored-keys-forgotten',
    what: 'a session woken from a snapshot does not know its idempotency keys',
    file: 'src/session/state/snapshot.ts',
    find: 'keys: new Map(plain.keys),',
    replace: 'keys: new Map(),',
  },
  {
    name: 'delete-leaves-the-children',
    what: 'a deletion removes the session and leaves its descendants',
    file: LIFE,
    find: 'subtree.map((each) => each.key),\n      heirs,',
    replace: '[actor.key],\n      heirs,',
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
    what: 'the records of a child and of its parent in one transition are appended separately',
    file: TRANSITIONS,
    find: 'const position = this.#parts.journal.append(entries);',
    replace: `const position = this.#parts.journal.append(entries.slice(0, 1));
    if (entries.length > 1) this.#parts.soon(() => this.#parts.journal.append(entries.slice(1)));`,
  },
  {
    name: 'fence-ignored',
    what: 'a write in flight when another process opened the store still succeeds',
    file: 'src/journal/memory-journal.ts',
    find: `      this.#checkFence();
      putRows(this.#store, stored.changes);`,
    replace: '      putRows(this.#store, stored.changes);',
  },
];
