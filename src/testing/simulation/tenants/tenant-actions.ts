/**
 * Sessions of several tenants, and readers that each use the view of one tenant (`runtime.tenant`; I37 of
 * `invariants.ts`). At random moments, a reader requests one of the lists of its view. At the end, the list of each
 * view is compared with the list of the runtime.
 *
 * Owns: the schedule of these requests, drawn from a stream that no other draw uses. Does not own: the sessions,
 * which are ordinary sessions of the run.
 */
import type { Tenant } from '../../../runtime/handles/sessions-view.ts';
import { drawnFor, LifeActions, type LifeParts } from '../families/life-actions.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { agentOfSession } from '../swarm.ts';

/** Share of the runs with tenants. */
const SHARE = 0.3;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x7e4a_4705;
/** Maximum number of actions in one life. */
const ACTIONS_MAX = 14;
/** The second name begins with the first. So the checks find a view that compares only the beginnings of names. */
const TENANTS = ['acme', 'acmes'] as const;
/**
 * Sessions of each tenant: two with agents that fork and spawn, and one with an agent whose calls wait for a person.
 */
const SESSIONS = ['s0', 's1', 'p0'] as const;

/** The random numbers of a run with tenants; undefined if the run has none. */
export function tenantRandom(seed: number): SeededRandom | undefined {
  return drawnFor(seed, STREAM, SHARE);
}

/** See the head of the file. */
export class TenantActions {
  readonly #parts: LifeParts;
  readonly #random: SeededRandom;
  readonly #actions: LifeActions;

  constructor(parts: LifeParts, random: SeededRandom) {
    this.#parts = parts;
    this.#random = random;
    this.#actions = new LifeActions(parts, random, 'n');
  }

  /** Sends and reads at random moments, until the process dies or `leave` is called. */
  run(): Promise<void> {
    for (const name of TENANTS) void this.#follow(name);
    return this.#actions.run(ACTIONS_MAX, () => {
      const name = this.#random.pick(TENANTS);
      const tenant = this.#parts.runtime.tenant(name);
      // No action is awaited, so readers also find sessions that are working.
      void (this.#random.chance(0.5) ? this.#send(name, tenant) : this.#read(name, tenant));
      return undefined;
    });
  }

  /** Stops the actions. */
  leave(): void {
    this.#actions.leave();
  }

  /** Compares each view with the list of all sessions, after the work of the runtime has ended. */
  async settle(): Promise<void> {
    this.leave();
    const { runtime, ledger } = this.#parts;
    const all = (await runtime.sessions.list({ order: 'id', limit: 10_000 })).map(({ id }) => id);
    for (const name of TENANTS) {
      const own = all.filter((id) => id.startsWith(`${name}~`));
      for (const order of ['id', 'newest'] as const) {
        const listed = (await runtime.tenant(name).sessions.list({ order, limit: 10_000 })).map(({ id }) => id);
        this.#check(name, 'the list', listed);
        for (const id of own)
          if (!listed.includes(id)) ledger.violate('lost', `${id} is missing in the list of ${name} (I37)`);
      }
    }
  }

  #send(name: string, tenant: Tenant): Promise<void> {
    const { ledger, process, trace } = this.#parts;
    const local = this.#random.pick(SESSIONS);
    const session = `${name}~${local}`;
    const uid = this.#actions.uid('m');
    const content = `${uid} please do`;
    const sentAfter = ledger.acknowledgedUpTo(session);
    ledger.messages.set(uid, { uid, session, content, key: undefined, deliver: undefined, sentAfter });
    return this.#actions.attempts.attempt('send of a tenant', async () => {
      const receipt = await tenant.session(local, agentOfSession(session)).send(content);
      if (!process.isAlive) return;
      trace(`${name} sent ${uid} as ${receipt.id}`);
      this.#check(name, 'a receipt', [receipt.session]);
      ledger.acknowledged(uid, receipt.pendingId, receipt.duplicate);
    });
  }

  #read(name: string, tenant: Tenant): Promise<void> {
    const { ledger, process } = this.#parts;
    const foreign = this.#random.pick([...this.#foreign(name), 's0']);
    const { sessions } = tenant;
    const idsOf = (found: readonly { readonly id: string }[]): readonly string[] => found.map(({ id }) => id);
    const ownersOf = ({ items }: { readonly items: readonly { readonly session: string }[] }): readonly string[] =>
      items.map(({ session }) => session);
    const reads: readonly (readonly [string, () => Promise<readonly string[]>])[] = [
      ['the list', async () => idsOf(await sessions.list({ order: 'id' }))],
      ['the newest', async () => idsOf(await sessions.list({ parent: null }))],
      ['the list after a session', async () => idsOf(await sessions.list({ order: 'id', after: foreign }))],
      ['the children', async () => idsOf(await sessions.list({ parent: foreign }))],
      ['the waiting calls', async () => ownersOf(await tenant.waiting())],
      ['the waiting calls of a session', async () => ownersOf(await tenant.waiting({ session: foreign }))],
      ['the dead letters', async () => ownersOf(await tenant.deadLetters())],
      ['the dead letters of a session', async () => ownersOf(await tenant.deadLetters({ session: foreign }))],
      ['a session', async () => [await sessions.get(foreign)].flatMap((found) => found?.id ?? [])],
    ];
    const [about, read] = this.#random.pick(reads);
    return this.#actions.attempts.attempt(about, async () => {
      const shown = await read();
      if (process.isAlive) this.#check(name, about, shown);
      if (!foreign.includes('~') || !this.#random.chance(0.2)) return;
      const wasDeleted = await sessions.delete(foreign);
      if (wasDeleted) ledger.violate('failed', `${name} deleted ${foreign} (I37)`);
    });
  }

  /** Ids of sessions of the other tenants. The sessions need not exist. */
  #foreign(name: string): readonly string[] {
    return TENANTS.filter((other) => other !== name).flatMap((other) => SESSIONS.map((local) => `${other}~${local}`));
  }

  /** Follows the events of a tenant for as long as the process lives. */
  #follow(name: string): Promise<void> {
    const { runtime, process } = this.#parts;
    // Half of the readers begin with stored events. One of the cursors that they give is for a session of another
    // tenant.
    const [other = ''] = this.#foreign(name);
    const after = this.#random.chance(0.5) ? { after: { s0: 0, [other]: 0 } } : {};
    return this.#actions.attempts.attempt('the events of a tenant', async () => {
      for await (const { session } of runtime.tenant(name).events(after)) {
        if (!process.isAlive || this.#actions.attempts.isLeaving) return;
        this.#check(name, 'an event', [session]);
      }
    });
  }

  #check(name: string, about: string, shown: readonly string[]): void {
    for (const session of shown) {
      // This check uses no function of the product, because that function may be wrong.
      if (!session.startsWith(`${name}~`))
        this.#parts.ledger.violate('failed', `${about} of ${name} shows ${session} (I37)`);
    }
  }
}
