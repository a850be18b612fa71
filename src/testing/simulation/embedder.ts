/**
 * The simulated service that embeds the runtime. Its conversations send, spawn, interrupt, recall, pause, delete and
 * read at random. They note in the ledger what the runtime answered and published. The embedder ends with its simulated
 * process; the ledger remains.
 */
import { defined } from '../../base/defined.ts';
import { MailboxFullError, TroupeError } from '../../base/errors.ts';
import type { Deliver } from '../../base/messages.ts';
import type { Child } from '../../runtime/handles/child.ts';
import type { Receipt } from '../../runtime/handles/receipt.ts';
import type { Runtime } from '../../runtime/handles/runtime.ts';
import { checkReceived } from './answer-invariants.ts';
import { Attempts } from './attempts.ts';
import { EventReaders, type ReaderPosition } from './event-readers.ts';
import type { Faults } from './faults.ts';
import { HistoryActions, orMissing } from './history-actions.ts';
import type { Ledger, MessageStory, SpawnStory } from './ledger.ts';
import { type FormName, pickForm, schemaOfForm } from './messages/simulated-forms.ts';
import { contentOf, drawImage } from './messages/simulated-media.ts';
import type { SeededRandom } from './seeded-random.ts';
import { agentOfSession, type Swarm } from './swarm.ts';
import type { SimulatedProcess, World } from './world.ts';

/** The parts of an embedder. */
export interface EmbedderParts {
  readonly process: SimulatedProcess;
  readonly world: World;
  readonly faults: Faults;
  readonly ledger: Ledger;
  /** The share of actions that delete a session. */
  readonly deleteShare: number;
  /** The share of actions that wait for an answer in one request; missing: none. */
  readonly askShare?: number;
  readonly swarm: Swarm;
  readonly runtime: Runtime;
  readonly life: number;
  readonly trace: (text: string) => void;
}

const DELIVERIES: readonly (Deliver | undefined)[] = [
  ...[undefined, undefined, undefined, undefined, undefined],
  ...(['steer', 'steer', 'turn', 'merge', 'merge', 'latest', 'reject', 'interrupt'] as const),
];
/** Number of receipts whose answers are requested once more at the end. */
const ANSWERS_ASKED = 12;
/** Attempts, one virtual second apart, to send to a full mailbox. Simulated persons decide within this time. */
const ROOM_ATTEMPTS = 300;
/** Virtual milliseconds that `finish` waits: enough for everything that a conversation began to end. */
const FINISH_MS = 180_000;
/** Deliveries of a message that asks for a structured answer. */
const FORM_DELIVERIES = [undefined, undefined, 'turn', 'interrupt', 'reject'] as const;

/** See the head of the file. */
export class Embedder {
  readonly #parts: EmbedderParts;
  readonly #random: SeededRandom;
  readonly #histories: HistoryActions;
  readonly #attempts: Attempts;
  readonly #readers: EventReaders;
  #count = 0;
  #isFinishing = false;

  constructor(parts: EmbedderParts) {
    this.#parts = parts;
    this.#random = parts.world.random.fork();
    const uid = (prefix: string): string => this.#uid(prefix);
    this.#attempts = new Attempts({ ...parts, uid });
    this.#readers = new EventReaders({ ...parts, attempts: this.#attempts });
    this.#histories = new HistoryActions({
      ...parts,
      random: parts.world.random.fork(),
      callsExpire: (parts.swarm.settings.approvals?.expiresMs ?? null) !== null,
      uid,
      send: (session) => this.#send(session),
      attempt: (what, act) => this.#attempts.attempt(what, act),
    });
  }

  /** Starts conversations and readers; they continue until the process dies or `leave` is called. */
  start(): void {
    const { swarm, ledger } = this.#parts;
    for (let index = 0; index < swarm.conversations; index += 1) void this.#converse();
    const sessions = [...new Set([...ledger.messages.values()].map(({ session }) => session)), 's0'];
    for (const session of sessions.slice(0, 3)) void this.#readers.read(session);
    void this.repeat();
  }

  /** Stops the embedder: it begins nothing more. */
  leave(): void {
    this.#attempts.leave();
  }

  /** The readers that still read. */
  get readers(): readonly ReaderPosition[] {
    return this.#readers.positions;
  }

  /** The requests without an answer so far. */
  get open(): readonly string[] {
    return this.#attempts.open;
  }

  /** Begins no further action, and waits long enough for each action in progress to end, such as a pause. */
  async finish(): Promise<void> {
    const { world, process } = this.#parts;
    this.#isFinishing = true;
    await world.sleep(process, FINISH_MS);
  }

  /**
   * For the last process: resends everything with a key until it is acknowledged. Then every session must answer a last
   * message.
   */
  async settle(): Promise<void> {
    const { runtime, ledger, world, process } = this.#parts;
    let isOver = false;
    const attended = this.#histories.attend(() => isOver);
    // If the runtime gives up a session thread, `attended` may reject before the `await` below, which then throws.
    attended.catch(() => undefined);
    await runtime.resume();
    for (const { id } of await runtime.sessions.list({ order: 'id', limit: 10_000 }))
      await this.#attempts.attempt('resume', () => runtime.session(id).resume());
    for (const story of ledger.messages.values()) {
      if (story.key !== undefined && story.pendingId === undefined && story.isRefused === undefined)
        await this.#sendUntilAccepted(story);
    }
    for (const story of ledger.spawns.values()) if (story.key !== undefined) await this.#spawnAs(story);
    const sessions = new Set([...ledger.messages.values()].map((story) => story.session));
    for (const session of sessions) {
      ledger.readThrough.add(session);
      void this.#readers.read(session, 0);
    }
    await runtime.drain();
    for (const session of sessions) if (!ledger.isDeleted(session)) await this.#askFinally(session);
    // Only some old receipts are looked up: reading all of them from the log would be most of the cost of a run.
    const accepted = [...ledger.messages.values()].filter(({ pendingId }) => pendingId !== undefined);
    for (const { session, pendingId, form } of this.#random.some(accepted, ANSWERS_ASKED)) {
      await this.#hearAgain(session, pendingId, form);
    }
    isOver = true;
    await attended;
    await runtime.drain();
    await this.#histories.noteHistories();
    // The last published events are still on their way to the readers.
    await world.sleep(process, 10_000);
    for (const what of this.#attempts.open) ledger.violate('stuck', `${what} was never answered`);
  }

  /** Without faults a session answers every message, whatever happened to it before. */
  async #askFinally(session: string): Promise<void> {
    const { runtime, ledger } = this.#parts;
    const story: MessageStory = {
      uid: this.#uid('last'),
      session,
      content: 'are you there?',
      key: undefined,
      deliver: 'turn',
      sentAfter: ledger.acknowledgedUpTo(session),
    };
    const receipt = await this.#sendWithRoom(session, story.content);
    try {
      await receipt.answer();
    } catch (error) {
      const { message } = error as Error;
      // The session's own bounds may still end a turn, and so may failures of its children.
      if (!/toolRounds|maxSteps|sub-agent/.test(message))
        ledger.violate('stuck', `${session} does not answer though nothing fails: ${String(error)}`);
    }
    await runtime.drain();
  }

  /** Sends once the mailbox has room. If the session waits for a person, its mailbox stays full until the decision. */
  async #sendWithRoom(session: string, content: string): Promise<Receipt> {
    const { runtime, process, world } = this.#parts;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await runtime.session(session, agentOfSession(session)).send(content, { deliver: 'turn' });
      } catch (error) {
        if (!(error instanceof MailboxFullError) || attempt === ROOM_ATTEMPTS) throw error;
      }
      await world.sleep(process, 1_000);
    }
  }

  async #sendUntilAccepted(story: MessageStory): Promise<void> {
    const { runtime, process, world } = this.#parts;
    for (let attempt = 0; attempt < 20 && story.pendingId === undefined; attempt += 1) {
      await runtime.drain();
      await this.#sendAs(story);
      await world.sleep(process, 1_000);
    }
  }

  /** Repeats requests of earlier processes or of other nodes, whether or not they were acknowledged. */
  async repeat(): Promise<void> {
    const { ledger } = this.#parts;
    const keyed = [...ledger.messages.values()].filter(({ key, isRefused }) => key !== undefined && isRefused !== true);
    for (const story of keyed.slice(-6)) void this.#sendAs(story);
    for (const story of [...ledger.spawns.values()].filter(({ key }) => key !== undefined).slice(-3))
      void this.#spawnAs(story);
    for (const { session, pendingId } of [...ledger.answers.values()].slice(-4)) {
      await this.#attempts.attempt('ask', () => this.#hearAgain(session, pendingId));
    }
  }

  async #converse(): Promise<void> {
    const { world, process, swarm } = this.#parts;
    for (let action = 0; action < swarm.actions; action += 1) {
      await world.sleep(process, this.#random.number() * swarm.thinkMs);
      if (this.#attempts.isLeaving || this.#isFinishing) return;
      const act = this.#act();
      // Some conversations wait until the action has ended, others continue at once.
      if (this.#random.chance(0.4)) await act;
    }
  }

  /** Takes one random action. */
  #act(): Promise<void> {
    const { faults, runtime, deleteShare } = this.#parts;
    const random = this.#random;
    const session = this.#pickSession();
    const handle = runtime.session(session, agentOfSession(session));
    if (faults.strikes('flood', 0.03)) return this.#flood(session);
    if (faults.strikes('interrupt', 0.08)) return this.#attempts.attempt('interrupt', () => handle.interrupt('chance'));
    if (faults.strikes('pause', 0.12)) return this.#pause(session);
    if (faults.strikes('delete', deleteShare)) return this.#delete();
    const { askShare = 0 } = this.#parts;
    if (askShare > 0 && random.chance(askShare)) return this.#ask(session);
    const chance = random.number();
    if (faults.strikes('key.reused', 0.05)) return this.#reuseKey();
    if (chance < 0.12) return this.#spawn(session);
    if (chance < 0.17) return this.#spawnMany(session);
    if (chance < 0.22) return this.#recall(session);
    if (chance < 0.32) return this.#readers.look(session, random);
    if (chance < 0.35) return this.#readers.read(session);
    if (chance < 0.4) return this.#edit(session);
    if (['careful', 'guard'].includes(agentOfSession(session)) && chance < 0.52) return this.#histories.decide(session);
    if (chance < 0.4 + this.#parts.swarm.historyShare) return this.#histories.act(session);
    return this.#send(session);
  }

  #pickSession(): string {
    // In `p0` calls wait for persons. In `c0` the conversation is compressed all the time.
    if (this.#random.chance(this.#parts.swarm.specialShare)) return this.#random.pick(['p0', 'c0']);
    return `s${this.#random.between(0, this.#parts.swarm.sessions - 1)}`;
  }

  #uid(prefix: string): string {
    this.#count += 1;
    return `${prefix}${this.#parts.life}x${this.#count}`;
  }

  // ---- sending ------------------------------------------------------------------------------------------------------

  #send(session: string): Promise<void> {
    const random = this.#random;
    const uid = this.#uid('m');
    const { ledger, swarm } = this.#parts;
    const form = pickForm(random, swarm.formShare);
    const story: MessageStory = {
      uid,
      session,
      content: `${uid} please ${random.chance(0.2) ? 'at length '.repeat(random.between(1, 60)) : ''}do`,
      ...(random.chance(0.05) ? { image: drawImage(random) } : {}),
      key: random.chance(0.6) ? `k-${uid}` : undefined,
      deliver: form === undefined ? random.pick(DELIVERIES) : random.pick(FORM_DELIVERIES),
      sentAfter: ledger.acknowledgedUpTo(session),
      ...defined({ form }),
    };
    ledger.messages.set(uid, story);
    return this.#sendAs(story);
  }

  /** Asks for an answer in one request. Then sends the message again with its key, for its receipt. */
  async #ask(session: string): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    const uid = this.#uid('m');
    const story: MessageStory = {
      ...{ uid, session, content: `${uid} please answer`, key: `k-${uid}`, deliver: undefined },
      ...{ sentAfter: ledger.acknowledgedUpTo(session), attempts: 1 },
    };
    ledger.messages.set(uid, story);
    trace(`ask ${uid} of ${session}`);
    const end = this.#attempts.begin(`ask ${uid}`);
    const asked = runtime.session(session, agentOfSession(session)).ask(story.content, defined({ key: story.key }));
    const outcome = await this.#attempts.outcomeOf(asked);
    end();
    if (!process.isAlive || this.#attempts.isLeaving) return;
    await this.#sendAs(story);
    const { pendingId } = story;
    if (outcome !== undefined && pendingId !== undefined && process.isAlive && !ledger.isDeleted(session))
      ledger.answered(session, pendingId, outcome);
  }

  async #sendAs(story: MessageStory): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    const { uid, session, key, deliver, form } = story;
    const how = [deliver, form].filter((each) => each !== undefined).join(', ');
    trace(`send ${uid} to ${session}${how === '' ? '' : ` (${how})`}`);
    const end = this.#attempts.begin(`send ${uid}`);
    story.attempts = (story.attempts ?? 0) + 1;
    try {
      const content = contentOf(story.content, story.image);
      const handle = runtime.session(session, agentOfSession(session));
      const options = { ...defined({ key }), bounceBack: this.#random.chance(0.2) };
      const receipt: Receipt<unknown> =
        form === undefined
          ? await handle.send(content, { ...options, ...defined({ deliver: deliver as Deliver | undefined }) })
          : await handle.send(content, {
              ...options,
              ...defined({ deliver: deliver as (typeof FORM_DELIVERIES)[number] }),
              output: schemaOfForm(form),
            });
      if (!process.isAlive) return;
      trace(`acknowledged ${uid} as ${receipt.id}${receipt.duplicate ? ' again' : ''}`);
      ledger.acknowledged(uid, receipt.pendingId, receipt.duplicate);
      void this.#hearAnswer(receipt, form);
    } catch (error) {
      if (!process.isAlive) return;
      ledger.sendFailed(story, error);
      this.#attempts.failed('send', error);
    } finally {
      end();
    }
  }

  /** Requests the answer of a message once more, by the id of its receipt. */
  async #hearAgain(session: string, pendingId: number | undefined, form?: FormName): Promise<void> {
    const handle = this.#parts.runtime.session(session);
    const id = `${session}/${pendingId}`;
    const isAny = form === undefined;
    const receipt = isAny ? await handle.receipt(id) : await handle.receipt(id, { output: schemaOfForm(form) });
    await this.#hearAnswer(receipt, form);
  }

  async #hearAnswer(receipt: Receipt<unknown>, form?: FormName): Promise<void> {
    const { ledger, process, trace } = this.#parts;
    const outcome = await this.#attempts.outcomeOf(receipt.answer());
    if (outcome === undefined || !process.isAlive) return;
    trace(`${receipt.id} ended: ${outcome.kind} ${outcome.text}`);
    if (ledger.isDeleted(receipt.session)) return;
    checkReceived(ledger, receipt.id, form, outcome);
    ledger.answered(receipt.session, receipt.pendingId, outcome);
  }

  async #flood(session: string): Promise<void> {
    const sends = Array.from({ length: this.#random.between(10, 30) }, () => this.#send(session));
    await Promise.all(sends);
  }

  #recall(session: string): Promise<void> {
    const { runtime, trace } = this.#parts;
    return this.#attempts.attempt('recall', async () => {
      const handle = runtime.session(session, agentOfSession(session));
      const entry = (await handle.pending()).at(-1);
      if (entry === undefined) return;
      const won = await handle.recall(entry.id);
      trace(`recall ${session}/${entry.id}: ${won}`);
    });
  }

  // ---- children -----------------------------------------------------------------------------------------------------

  #spawn(session: string): Promise<void> {
    const uid = this.#uid('t');
    const key = this.#random.chance(0.6) ? `k-${uid}` : undefined;
    const form = pickForm(this.#random, this.#parts.swarm.formShare);
    const replies = this.#random.chance(0.8) ? 'mailbox' : 'handle';
    const story: SpawnStory = { uid, session, key, replies, ...defined({ form }) };
    this.#parts.ledger.spawns.set(uid, story);
    return this.#spawnAs(story);
  }

  async #spawnAs(story: SpawnStory): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    const { uid, session, key, replies, form } = story;
    const end = this.#attempts.begin(`spawn ${uid}`);
    try {
      const handle = runtime.session(session, agentOfSession(session));
      const options = { task: `${uid} task`, replies };
      const child: Child<unknown> =
        form === undefined
          ? await handle.spawn(options, defined({ key }))
          : await handle.spawn({ ...options, output: schemaOfForm(form) }, defined({ key }));
      if (!process.isAlive) return;
      trace(`spawned ${uid} as ${child.id}`);
      if (story.child !== undefined && story.child !== child.id)
        ledger.violate('duplicated', `${uid} is ${story.child} and ${child.id}`);
      story.child = child.id;
      void this.#hearReply(child, form);
    } catch (error) {
      if (process.isAlive) this.#attempts.failed('spawn', error);
    } finally {
      end();
    }
  }

  #spawnMany(session: string): Promise<void> {
    const { runtime, process } = this.#parts;
    return this.#attempts.attempt('spawnAll', async () => {
      const tasks = Array.from({ length: this.#random.between(2, 4) }, () => ({
        task: this.#uid('t'),
        replies: 'handle' as const,
      }));
      const family = await runtime.session(session, agentOfSession(session)).spawnAll(tasks);
      for await (const result of family) if (!process.isAlive || result.name === '') return;
    });
  }

  async #hearReply(child: Child<unknown>, form: FormName | undefined): Promise<void> {
    const { ledger, process } = this.#parts;
    const outcome = await this.#attempts.outcomeOf(child.reply());
    if (outcome === undefined || !process.isAlive || ledger.isDeleted(child.id)) return;
    checkReceived(ledger, child.id, form, outcome);
    ledger.replied(child.id, outcome);
  }

  /** Uses a key again with different content. The runtime must refuse it. */
  async #reuseKey(): Promise<void> {
    const { runtime, ledger } = this.#parts;
    const isLasting = ({ session }: { readonly session: string }): boolean => session.startsWith('s');
    const sent = [...ledger.messages.values()].filter((story) => story.pendingId !== undefined && isLasting(story));
    const born = [...ledger.spawns.values()].filter((story) => story.child !== undefined && isLasting(story));
    const story = this.#random.pick([...sent, ...born, undefined]);
    if (story?.key === undefined) return;
    const { session, key, uid } = story;
    const handle = runtime.session(session, agentOfSession(session));
    await this.#attempts.attempt('reuse', async () => {
      try {
        if ('content' in story) await handle.send('something else', { key });
        else await handle.spawn({ task: 'something else', replies: story.replies }, { key });
      } catch (error) {
        if (error instanceof TroupeError && error.code === 'key_reused') return;
        throw error;
      }
      ledger.violate('duplicated', `key ${key} of ${uid} was taken for something else`);
    });
  }

  // ---- control ------------------------------------------------------------------------------------------------------

  #pause(session: string): Promise<void> {
    const { runtime, world, process } = this.#parts;
    return this.#attempts.attempt('pause', async () => {
      const handle = runtime.session(session, agentOfSession(session));
      await handle.pause();
      await world.sleep(process, this.#random.between(0, 20_000));
      await handle.resume();
      if (this.#random.chance(0.3)) await runtime.resume();
    });
  }

  /** Makes a session, perhaps with a child, and deletes one of the two at a random moment. */
  async #delete(): Promise<void> {
    const { runtime, ledger, world, process, trace } = this.#parts;
    const session = this.#uid('gone');
    await Promise.race([this.#send(session), world.sleep(process, this.#random.between(0, 5_000))]);
    if (this.#random.chance(0.5)) await Promise.race([this.#spawn(session), world.sleep(process, 3_000)]);
    await world.sleep(process, this.#random.between(0, 10_000));
    if (this.#random.chance(0.2)) await this.#histories.fork(session);
    const victim = this.#random.chance(0.3) ? `${session}:1` : session;
    ledger.deleted.set(victim, false);
    ledger.forget(victim);
    await this.#attempts.attempt('delete', async () => {
      const wasThere = await runtime.session(victim).delete();
      if (!process.isAlive) return;
      trace(`deleted ${victim}: ${wasThere}`);
      ledger.deleted.set(victim, wasThere);
    });
  }

  // ---- history ------------------------------------------------------------------------------------------------------

  /** Changes the history at a random moment. From then on the history must show every acknowledged change. */
  #edit(session: string): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    const { history } = runtime.session(session, agentOfSession(session));
    const uid = this.#uid('note');
    return this.#attempts.attempt('edit', async () => {
      if (this.#random.chance(0.2)) await history.discardPendingToolCalls();
      if (this.#random.chance(0.2)) await history.replaceSystemPrompt(`You are ${uid}.`);
      const role = this.#random.chance(0.7) ? 'user' : 'assistant';
      const { id } = await history.append({ role, content: uid }, { key: uid });
      if (!process.isAlive) return;
      trace(`noted ${uid} in ${session} as ${id}`);
      if ((await history.append({ role, content: uid }, { key: uid })).id !== id)
        ledger.violate('duplicated', `key ${uid} added a second message to ${session}`);
      if (this.#random.chance(0.3)) await orMissing(history.update({ id }, { content: `${uid} changed` }));
      if (!this.#random.chance(0.5)) return;
      const removed = await history.remove({ id });
      if (removed !== null && (await history.remove({ id })) !== null && process.isAlive)
        ledger.violate('failed', `${uid} was removed from ${session} twice`);
    });
  }
}
