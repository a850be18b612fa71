/**
 * Runtimes for tests of the public API: each closed, and each directory removed, after the test that asked for it. The
 * model is scripted, with the legality rules on. The clock is the machine's unless a test gives another.
 */
import { randomUUID } from 'node:crypto';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach } from 'vitest';
import type { Message, OpenOptions, Runtime, Session, SessionEvent } from '../../src/index.ts';
import { open } from '../../src/index.ts';
import type { ModelProvider, ModelRequest } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { scripted } from '../../src/testing/scripted.ts';

export { eventually } from './eventually.ts';

/** The threads of sessions and models: all on the host thread, or each in a separate thread. */
export const MATRIX: readonly { readonly sessions: number; readonly models: number }[] = [
  { sessions: 0, models: 0 },
  { sessions: 1, models: 1 },
];

/**
 * True while `kit.open` returns a member of a cluster, whose sessions another runtime of this process has. Tests that
 * count the work of the owner, or use its directory, are skipped then.
 */
export const THROUGH_MEMBER: boolean = process.env['TROUPE_THROUGH'] === 'member';

/** Options of a test's runtime. Without `directory` the store is in memory. */
export interface TestOptions extends OpenOptions {
  readonly directory?: string;
}

/** The kit of a test file. */
export interface RuntimeKit {
  /** A runtime, on the host thread unless the options say otherwise. */
  open(options?: TestOptions): Promise<Runtime>;
  /** An empty directory. */
  directory(): Promise<string>;
  /**
   * A copy of the directory as a crash at this moment leaves it, to be opened beside the original. The caller ensures
   * that nothing is being written: all published events are durable, and running work waits.
   */
  crashed(directory: string): Promise<string>;
}

/** Registers the clean-up; call it once at the top of a test file. */
export function runtimeKit(): RuntimeKit {
  const runtimes: Runtime[] = [];
  const directories: string[] = [];
  afterEach(async () => {
    await Promise.allSettled(runtimes.splice(0).map((runtime) => runtime.close({ deadlineMs: 0 })));
    for (const path of directories.splice(0)) await rm(path, { recursive: true, force: true });
  });
  const directory = async (): Promise<string> => {
    const path = await mkdtemp(join(tmpdir(), 'troupe-test-'));
    directories.push(path);
    return path;
  };
  return {
    directory,
    async open({ directory: path = ':memory:', ...options } = {}) {
      const all: OpenOptions = {
        logger: false,
        ...options,
        threads: { sessions: 0, models: 0, tools: 1, ...options.threads },
      };
      if (THROUGH_MEMBER && all.cluster === undefined) {
        const { openThroughMember } = await import('../postgres/support/through-member.ts');
        const { member, owner, directories: made } = await openThroughMember(path, all);
        runtimes.push(member, owner);
        directories.push(...made);
        return member;
      }
      const runtime = await open(path, all);
      runtimes.push(runtime);
      return runtime;
    },
    async crashed(from) {
      const to = join(await directory(), 'copy');
      // The lock files name this living process; after a crash they are stale.
      const isLock = (path: string): boolean => basename(path).startsWith('owner-') || path.endsWith('lock.mdb');
      await cp(from, to, { recursive: true, filter: (path) => !isLock(path) });
      return to;
    },
  };
}

/** A model call that waits for the test to answer it. */
export interface GatedCall {
  readonly session: string;
  readonly request: ModelRequest;
  answer(reply: Reply): void;
}

/** A model whose every call waits for the test. Requests the Messages API would refuse fail. */
export interface GatedModel {
  readonly provider: ModelProvider;
  /** All calls so far, in order of arrival. */
  readonly calls: readonly GatedCall[];
  /** The next call that the test has not taken yet; waits until there is one. */
  next(): Promise<GatedCall>;
}

export function gatedModel(): GatedModel {
  const calls: GatedCall[] = [];
  const arrivals = queue<GatedCall>();
  const provider = scripted(
    (request, { session }) =>
      new Promise<Reply>((resolve) => {
        const call: GatedCall = { session, request, answer: resolve };
        calls.push(call);
        arrivals.put(call);
      }),
  ) as ModelProvider;
  return { provider, calls, next: () => arrivals.take() };
}

/** A queue between the test and its tools or models. */
export interface TestQueue<T> {
  put(item: T): void;
  take(): Promise<T>;
}

export function queue<T>(): TestQueue<T> {
  const items: T[] = [];
  const takers: ((item: T) => void)[] = [];
  return {
    put(item) {
      const taker = takers.shift();
      if (taker === undefined) items.push(item);
      else taker(item);
    },
    take() {
      const item = items.shift();
      return item === undefined ? new Promise((resolve) => takers.push(resolve)) : Promise.resolve(item);
    },
  };
}

/** A promise settled from outside. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
}

export function deferred<T = void>(): Deferred<T> {
  let settle: ((value: T) => void) | undefined;
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return { promise, resolve: (value) => settle?.(value) };
}

/** All events up to the end of the iteration. */
export async function collect(events: AsyncIterable<SessionEvent>): Promise<readonly SessionEvent[]> {
  const found: SessionEvent[] = [];
  for await (const event of events) found.push(event);
  return found;
}

/** The durable events of a session so far. */
export async function history(session: Session): Promise<readonly SessionEvent[]> {
  const { seq } = await session.state();
  return seq === 0 ? [] : await collect(session.events({ until: seq, deltas: false }));
}

/** Types of events, in order. */
export function types(events: readonly SessionEvent[]): readonly string[] {
  return events.map((event) => event.type);
}

/** The log as `type:content`, in order; blocks as JSON. */
export async function log(session: Session): Promise<readonly string[]> {
  return (await session.messages()).map(line);
}

function line({ type, content }: Message): string {
  return `${type}:${typeof content === 'string' ? content : JSON.stringify(content)}`;
}

/** The text of a thrown error, with its class and code. */
export async function failure(promise: Promise<unknown>): Promise<Error & { readonly code?: string }> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error('something that is no error was thrown', { cause: error });
  }
  throw new Error('expected a rejection');
}

/** A name no other test has. */
export function uniqueName(): string {
  return `s-${randomUUID().slice(0, 8)}`;
}
