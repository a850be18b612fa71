/**
 * A pool over the pools of several providers: each call goes to the provider that its request names.
 *
 * Owns: which provider each session uses, which pool has each call. Does not own: the calls, their order, their mirrors
 * and their waits (the pool of the provider).
 *
 * - R1 Every call is given to one pool, which completes it. If no provider has the name, the call is completed here
 *   with `ConfigError`. No method throws, and the listener is never called from within `call`, `cancel` or `close`.
 * - R2 A whole context says which provider its session uses: `transport.provider` of the header, or without it the
 *   first provider. A delta goes to the provider of the session's last whole context.
 * - R3 Only the session's provider has the session's mirror. When a session changes its provider, the earlier provider
 *   forgets the session. So a context is sent whole if the session returns.
 * - R4 Providers share nothing: a pause, a circuit or refused credentials of one hold back no call of another.
 */
import type { Soon } from '../../base/clock.ts';
import { ConfigError, errorShape } from '../../base/errors.ts';
import { namesHint } from '../../base/near-names.ts';
import { UnsentCalls } from '../governor/unsent-calls.ts';
import type { CallWait, ContextDelta, ModelCall, ModelCompletion, ModelPool, ModelPoolListener } from '../pool.ts';

/** A provider of `createProviderPools`. */
export interface PooledProvider {
  /** The provider's name in the option `providers`; empty if it has none. */
  readonly key: string;
  /** Makes the provider's pool. Called once, synchronously. */
  readonly makePool: (listener: ModelPoolListener) => ModelPool;
  /** Called for each call that the pool is given. Must not throw. */
  readonly onCall: () => void;
  /** Called when the number of calls that turns wait for (`waitsForResume`) has changed. Must not throw. */
  readonly onRunning: (count: number) => void;
}

/** The options of `createProviderPools`. */
export interface ProviderPoolsOptions {
  /** The providers, at least two. Calls that name no provider go to the first. */
  readonly providers: readonly [PooledProvider, ...PooledProvider[]];
  readonly listener: ModelPoolListener;
  /**
   * Schedules the tick in which calls of an unknown provider are reported. Default: the next tick of the event loop.
   */
  readonly soon?: Soon | undefined;
}

/** A pool over several providers. Lives on the thread of its owner. */
export function createProviderPools(options: ProviderPoolsOptions): ModelPool {
  return new ProviderPools(options);
}

/** A provider with its pool. */
interface Place {
  readonly provider: PooledProvider;
  readonly pool: ModelPool;
  /** The number of its calls that turns wait for. */
  running: number;
}

interface GivenCall {
  readonly place: Place;
  /** True while the call is counted as running. */
  isCounted: boolean;
}

class ProviderPools implements ModelPool {
  readonly #listener: ModelPoolListener;
  readonly #places: ReadonlyMap<string, Place>;
  readonly #first: Place;
  readonly #sessions = new Map<string, Place>();
  readonly #calls = new Map<number, GivenCall>();
  readonly #unsent: UnsentCalls;

  constructor({ providers, listener, soon }: ProviderPoolsOptions) {
    this.#listener = listener;
    this.#unsent = new UnsentCalls(listener, soon);
    const [first, ...others] = providers.map((provider) => this.#placeOf(provider)) as [Place, ...Place[]];
    this.#first = first;
    this.#places = new Map([first, ...others].map((place) => [place.provider.key, place]));
  }

  call(call: ModelCall, whole?: () => ContextDelta): void {
    const place = this.#route(call);
    if (place === undefined) {
      this.#unsent.end(call.id, errorShape(this.#unknown(call.context.header?.transport?.provider)));
      return;
    }
    this.#calls.set(call.id, { place, isCounted: call.waitsForResume });
    place.provider.onCall();
    if (call.waitsForResume) this.#count(place, 1);
    place.pool.call(call, whole);
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#sessions.get(session)?.pool.holds(session, epoch, keep) === true;
  }

  wantsDeltas(id: number, isWanted: boolean, fromStart?: boolean): void {
    this.#calls.get(id)?.place.pool.wantsDeltas(id, isWanted, fromStart);
  }

  cancel(id: number): void {
    const given = this.#calls.get(id);
    if (given === undefined) return;
    this.#uncount(given);
    given.place.pool.cancel(id);
  }

  forget(session: string): void {
    this.#sessions.get(session)?.pool.forget(session);
    this.#sessions.delete(session);
  }

  resume(): void {
    for (const { pool } of this.#places.values()) pool.resume?.();
  }

  waitOf(id: number): CallWait | undefined {
    const place = this.#calls.get(id)?.place;
    const wait = place?.pool.waitOf?.(id);
    if (wait === undefined || place === undefined || place.provider.key === '') return wait;
    return { ...wait, detail: `provider ${place.provider.key}: ${wait.detail}` };
  }

  get stopped(): number {
    let count = 0;
    for (const { pool } of this.#places.values()) count += pool.stopped ?? 0;
    return count;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#places.values()].map(({ pool }) => pool.close()));
    await this.#unsent.reported();
  }

  #placeOf(provider: PooledProvider): Place {
    provider.onRunning(0);
    const pool = provider.makePool({
      completed: (completions) => this.#completed(completions),
      delta: (id, session, delta) => this.#listener.delta(id, session, delta),
    });
    return { provider, pool, running: 0 };
  }

  /** The provider of a call; undefined: no provider has that name (R2, R3). */
  #route({ session, context }: ModelCall): Place | undefined {
    const known = this.#sessions.get(session);
    // The delta of an unknown session fits no mirror. The first pool handles it as any delta that does not fit.
    if (context.header === undefined) return known ?? this.#first;
    const key = context.header.transport?.provider;
    const place = key === undefined ? this.#first : this.#places.get(key);
    if (place === undefined || place === known) return place;
    known?.pool.forget(session);
    this.#sessions.set(session, place);
    return place;
  }

  #completed(completions: readonly ModelCompletion[]): void {
    for (const { id } of completions) {
      const given = this.#calls.get(id);
      if (given === undefined) continue;
      this.#calls.delete(id);
      this.#uncount(given);
    }
    this.#listener.completed(completions);
  }

  #uncount(given: GivenCall): void {
    if (!given.isCounted) return;
    given.isCounted = false;
    this.#count(given.place, -1);
  }

  #count(place: Place, difference: number): void {
    place.running += difference;
    place.provider.onRunning(place.running);
  }

  #unknown(key: string = ''): ConfigError {
    const known = [...this.#places.keys()].filter((name) => name !== '');
    return new ConfigError(`there is no provider ${JSON.stringify(key)}${namesHint(key, known, 'providers')}`, {
      data: { key: 'providers', provider: key },
    });
  }
}
