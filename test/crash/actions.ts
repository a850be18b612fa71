/**
 * The actions of a victim on its runtime. Each action is reported when it is requested, acknowledged and answered. A
 * report is written as soon as its fact is known, and is in the pipe before the victim continues.
 */

import { setTimeout as wait } from 'node:timers/promises';
import { CancelledError, TroupeError, TurnFailedError } from '../../src/base/errors.ts';
import type { Child } from '../../src/runtime/handles/child.ts';
import type { Receipt } from '../../src/runtime/handles/receipt.ts';
import type { Runtime } from '../../src/runtime/handles/runtime.ts';
import type { Session } from '../../src/runtime/handles/session.ts';
import { printLine } from '../support/child-output.ts';
import {
  contentOf,
  digestOf,
  EDITED,
  familyOf,
  isMortal,
  type Line,
  messageContent,
  type Outcome,
  type SentMessage,
  type SpawnWish,
} from './protocol.ts';

/** Looks at the number of sessions that are being erased, and the milliseconds between two of them. */
const ERASED_LOOKS = 20;
const ERASED_LOOK_MS = 20;
/** Refusals that the contract allows. */
const EXPECTED_CODES: ReadonlySet<string> = new Set(['session_busy', 'mailbox_full', 'cancelled']);

/**
 * The write is done when this returns, however slowly the reader reads, so a finished report survives a kill. A stream
 * would hold lines back while the pipe is full. A kill would then lose an intent whose effect is on the disk.
 */
export function say(line: Line): void {
  printLine(JSON.stringify(line));
}

/** A message or a child that was acknowledged. `answered` resolves when its outcome was reported. */
export interface Step {
  readonly answered: Promise<void>;
  /** For a message: its number in the session. */
  readonly pendingId?: number;
  /** For a child: its id. */
  readonly child?: string;
}

/** See the head of the file. */
export class Actions {
  readonly #runtime: Runtime;
  #isClosing = false;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Marks the runtime as closing. From now on it may refuse any request. */
  close(): void {
    this.#isClosing = true;
  }

  /** Resolves when the message is acknowledged; undefined when it was refused. */
  async send(message: SentMessage): Promise<Step | undefined> {
    const { uid, session, key, deliver } = message;
    say({ type: 'intent', message });
    try {
      const receipt = await this.#session(session).send(messageContent(message), {
        ...(key === undefined ? {} : { key }),
        ...(deliver === undefined ? {} : { deliver }),
      });
      say({ type: 'acknowledged', uid, pendingId: receipt.pendingId, duplicate: receipt.duplicate });
      return { answered: this.#tellAnswer(receipt), pendingId: receipt.pendingId };
    } catch (error) {
      if (error instanceof TroupeError && error.code === 'session_busy')
        say({ type: 'refused', uid, code: error.code });
      this.#trouble('send', session, error);
      return undefined;
    }
  }

  /** Asks again for an answer that an earlier life reported. */
  async ask(session: string, pendingId: number): Promise<void> {
    try {
      await this.#tellAnswer(await this.#runtime.session(session).receipt(`${session}/${pendingId}`));
    } catch (error) {
      this.#trouble('ask', session, error);
    }
  }

  async #tellAnswer(receipt: Receipt): Promise<void> {
    const { session, pendingId } = receipt;
    const outcome = await this.#outcomeOf(session, receipt.answer());
    if (outcome !== undefined) say({ type: 'answer', session, pendingId, outcome });
  }

  /** Resolves when the child is acknowledged; undefined when it was refused. */
  async spawn(wish: SpawnWish): Promise<Step | undefined> {
    const { uid, session, key, replies } = wish;
    say({ type: 'spawning', wish });
    try {
      const child = await this.#session(session).spawn(
        { task: contentOf(uid, session), replies },
        // A repeated spawn continues the child if a life before cancelled it, or failed it.
        key === undefined ? {} : { key, continue: true },
      );
      say({ type: 'spawned', uid, child: child.id });
      return { answered: this.#tellReply(child), child: child.id };
    } catch (error) {
      this.#trouble('spawn', session, error);
      return undefined;
    }
  }

  async #tellReply(child: Child): Promise<void> {
    const outcome = await this.#outcomeOf(child.id, child.reply());
    if (outcome !== undefined) say({ type: 'reply', child: child.id, outcome });
  }

  async interrupt(session: string): Promise<void> {
    await this.#attempt('interrupt', session, async () => {
      if (await this.#runtime.session(session).interrupt('chance')) say({ type: 'interrupted', session });
    });
  }

  async recall(session: string, pendingId: number): Promise<void> {
    await this.#attempt('recall', session, async () => {
      const won = await this.#runtime.session(session).recall(pendingId);
      say({ type: 'recalled', session, pendingId, won });
    });
  }

  async pause(session: string): Promise<void> {
    await this.#attempt('pause', session, async () => {
      say({ type: 'pausing', session });
      await this.#session(session).pause();
      say({ type: 'paused', session });
    });
  }

  async resume(session: string): Promise<void> {
    await this.#attempt('resume', session, async () => {
      say({ type: 'resuming', session });
      await this.#session(session).resume();
      say({ type: 'resumed', session });
    });
  }

  /** Deletes a session, or a child, and all its descendants. */
  async delete(session: string): Promise<void> {
    await this.#attempt('delete', session, async () => {
      say({ type: 'deleting', session });
      const wasThere = await this.#runtime.sessions.delete(session);
      say({ type: 'deleted', session, wasThere });
    });
  }

  /**
   * Writes a note into a history. It may then change and remove the note, unless a compression has archived the note.
   */
  async note(session: string, uid: string, steps: number): Promise<void> {
    await this.#attempt('note', session, async () => {
      const { history } = this.#session(session);
      const told = (text: string | null): void => say({ type: 'noted', uid, session, text });
      const [first, second] = [`note ${uid}`, `note ${uid} changed`];
      say({ type: 'noting', uid, session, text: first });
      await history.add({ id: uid, role: 'user', content: first }, { key: uid });
      told(first);
      if (steps === 0) return;
      say({ type: 'noting', uid, session, text: second });
      const isChanged = await history.update({ id: uid }, { content: second }).then(() => true, isArchived);
      told(isChanged ? second : first);
      if (steps === 1 || !isChanged) return;
      say({ type: 'noting', uid, session, text: null });
      const removed = await history.remove({ id: uid });
      told(removed === null ? second : null);
    });
  }

  /** Gives a new session its own history. */
  async seed(session: string, uids: readonly string[]): Promise<void> {
    await this.#attempt('seed', session, async () => {
      const tell = (type: 'noting' | 'noted'): void => {
        for (const uid of uids) say({ type, uid, session, text: `note ${uid}` });
      };
      tell('noting');
      await this.#session(session).history.seed(uids.map((uid) => ({ id: uid, role: 'user', content: `note ${uid}` })));
      tell('noted');
    });
  }

  /** Forks a session, under `id` if it is given; resolves to the fork's id, or undefined when it was refused. */
  async fork(session: string, id?: string): Promise<string | undefined> {
    let made: string | undefined;
    await this.#attempt('fork', session, async () => {
      const fork = await this.#runtime.session(session).fork(id === undefined ? {} : { id });
      const digest = digestOf(JSON.stringify(await fork.history.toArray()));
      say({ type: 'forked', session, fork: fork.id, digest });
      made = fork.id;
    });
    return made;
  }

  /** Searches all sessions, which writes the messages of all of them into the index. */
  async search(query: string): Promise<void> {
    await this.#attempt('search', query, async () => {
      await this.#runtime.search(query);
    });
  }

  /** Sessions that are being erased. One whose fork is still there counts until the fork is gone. */
  get erasing(): number {
    return this.#runtime.metrics().sessionsErasing;
  }

  /** Resolves when at most `left` sessions are being erased, or the runtime closes. */
  async untilErased(left: number): Promise<void> {
    // A shard reports its number soon after a deletion, so a short look could come too early.
    for (let looks = 0; looks < ERASED_LOOKS && !this.#isClosing; looks += 1) {
      if (this.erasing > left) looks = 0;
      await wait(ERASED_LOOK_MS);
    }
  }

  /** Starts, undoes or switches a task of a session, or compresses the session. */
  async move(session: string, how: 'start' | 'undo' | 'switch' | 'compress'): Promise<void> {
    await this.#attempt(how, session, async () => {
      const { history } = this.#session(session);
      if (how === 'start') say({ type: 'tasked', session, task: await history.startTask() });
      else if (how === 'undo') await history.undo();
      else if (how === 'switch') await history.switchTo(await history.currentTaskId());
      else await history.compress({ force: true });
    });
  }

  /** Reports a session's durable events from `after` on, until the runtime closes. */
  async watch(session: string, after: number): Promise<void> {
    await this.#attempt('watch', session, async () => {
      for await (const event of this.#session(session).events({ after, deltas: false })) {
        if (event.type === 'gap') say({ type: 'gap', session, from: event.from, to: event.to });
        if (event.seq === undefined) continue;
        const { session: _session, at: _at, seq, ...body } = event;
        say({ type: 'event', session, seq, digest: digestOf(JSON.stringify(body)) });
      }
    });
  }

  /** Reports the state of every session, with the reason if it is not at rest. */
  async tellStates(): Promise<void> {
    for (let after: string | undefined; ; ) {
      const page = await this.#runtime.sessions.list({
        order: 'id',
        limit: 500,
        ...(after === undefined ? {} : { after }),
      });
      for (const { id, state, mailbox } of page) {
        const why = state === 'idle' && mailbox === 0 ? undefined : await this.#runtime.session(id).explain();
        // An entry that only joins the next turn waits for that turn and does not count as work.
        const isAtRest = why === undefined || (state === 'idle' && why.reason === 'nothing_waits');
        say({ type: 'state', session: id, state, why: isAtRest ? '' : JSON.stringify(why) });
      }
      after = page.at(-1)?.id;
      if (after === undefined) return;
    }
  }

  /** Half of the sessions have the small window. */
  #session(id: string): Session {
    // A fork has the agent of its parent.
    if (id.startsWith(EDITED)) return this.#runtime.session(id, 'brief');
    return this.#runtime.session(id, /[13579]x?$/.test(familyOf(id) ?? id) ? 'narrow' : 'wide');
  }

  /** How the message or child ended; undefined if the runtime was closed before the end. */
  async #outcomeOf(session: string, words: Promise<string>): Promise<Outcome | undefined> {
    try {
      return { kind: 'text', text: await words };
    } catch (error) {
      if (this.#isClosing) return undefined;
      const { message } = error as Error;
      if (error instanceof CancelledError)
        return { kind: /was (?:recalled|replaced)/.test(message) ? 'dropped' : 'cancelled', text: '' };
      if (error instanceof TurnFailedError) return { kind: 'failed', text: message };
      this.#trouble('answer', session, error);
      return undefined;
    }
  }

  async #attempt(what: string, session: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#trouble(what, session, error);
    }
  }

  #trouble(what: string, session: string, error: unknown): void {
    if (this.#isClosing) return;
    const code = error instanceof TroupeError ? error.code : undefined;
    if (code !== undefined && EXPECTED_CODES.has(code)) return;
    // A session that may be deleted at any time may be missing.
    if (isMortal(session) && code === 'unknown_session') return;
    say({ type: 'trouble', what: `${what} ${session}: ${error instanceof Error ? error.stack : String(error)}` });
  }
}

/** False when the message is no longer in the history; any other error is thrown again. */
function isArchived(error: unknown): false {
  if (error instanceof TroupeError && error.code === 'message_not_found') return false;
  throw error;
}
