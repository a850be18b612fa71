/**
 * A pool that warms the provider's cache before many calls with the same prompt leave (`settings.llm.warmCache`).
 *
 * A fan-out of a hundred sub-agents sends the same tools and system prompt a hundred times. If the calls leave
 * together, each pays for writing this prompt into the cache. So the calls wait until one call without output
 * (`max_tokens: 0`) has written the prompt. Then they leave and read the prompt from the cache. Source: the Messages
 * API, "Prompt caching": an entry can be read once the answer to the request that writes it has begun.
 *
 * Owns: the calls that are held, which prompts are warm, its own calls (ids below zero). Does not own: rates, the order
 * of calls (the inner pool), the content of a prompt.
 *
 * - U1 Every call completes exactly once. The listener is never called from within `call`, `cancel` or `close`.
 * - U2 A held call leaves when the call that warms its prompt ends, even with an error: a warm cache is an advantage,
 *   not a condition.
 * - U3 Only whole contexts are held, so a held call depends on no mirror.
 * - U4 No warm-up is made for a prompt that is warm or too short to be cached. Calls with the same prompt are gathered
 *   for `WARM_UP_GATHER_MS`. Fewer than `WARM_UP_CALLS_MIN` calls leave without a warm-up.
 * - U5 Timers run only while calls are gathered.
 */
import { createHash } from 'node:crypto';
import {
  CACHE_LONG_MS,
  CACHE_SHORT_MS,
  CACHEABLE_TOKENS_MIN,
  WARM_PROMPTS_MAX,
  WARM_UP_CALLS_MIN,
  WARM_UP_GATHER_MS,
} from '../../base/bounds.ts';
import type { Clock, Soon } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, errorShape } from '../../base/errors.ts';
import { modelTraits } from '../../context/model-traits.ts';
import { estimateTokens } from '../../session/state/tokens.ts';
import type {
  CallWait,
  ContextDelta,
  ModelCall,
  ModelCompletion,
  ModelPool,
  ModelPoolListener,
  RequestHeader,
} from '../pool.ts';
import { RecentMap } from '../recent-map.ts';
import { UnsentCalls } from './unsent-calls.ts';

/** The options of `createWarmUpPool`. */
export interface WarmUpPoolOptions {
  readonly clock: Clock;
  /** Schedules the tick in which cancelled calls are reported. Default: the next tick of the event loop. */
  readonly soon?: Soon | undefined;
  readonly listener: ModelPoolListener;
  /** Makes the inner pool. Called once, synchronously. */
  readonly makePool: (listener: ModelPoolListener) => ModelPool;
  /** The fewest tokens of a prompt that is cached. Default: as the model's traits say. */
  readonly promptTokensMin?: number | undefined;
  /** Called when a prompt is warmed. Must not throw. */
  readonly onWarmUp?: () => void;
}

/** A pool that warms the cache. Lives on the thread of its owner. */
export function createWarmUpPool(options: WarmUpPoolOptions): ModelPool {
  return new WarmUpPool(options);
}

interface HeldCall {
  readonly call: ModelCall;
  readonly whole: (() => ContextDelta) | undefined;
  readonly group: Group;
  wantsDeltas: boolean;
}

/** The held calls of one prompt. */
interface Group {
  readonly prompt: string;
  readonly cacheMs: number;
  readonly held: Map<number, HeldCall>;
  /** Set while calls are gathered. */
  timer: unknown;
}

class WarmUpPool implements ModelPool {
  readonly #options: WarmUpPoolOptions;
  readonly #clock: Clock;
  readonly #listener: ModelPoolListener;
  readonly #pool: ModelPool;
  readonly #groups = new Map<string, Group>();
  readonly #held = new Map<number, HeldCall>();
  /** The groups that wait for a warm-up, by the id of the warm-up call. */
  readonly #warming = new Map<number, Group>();
  /** The monotonic ms until which each prompt is in the provider's cache. */
  readonly #warm = new RecentMap<number>(WARM_PROMPTS_MAX);
  #lastId = 0;
  readonly #unsent: UnsentCalls;
  #closed = false;

  constructor(options: WarmUpPoolOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#listener = options.listener;
    this.#unsent = new UnsentCalls(options.listener, options.soon);
    this.#pool = options.makePool({
      completed: (completions) => this.#completed(completions),
      delta: (id, session, delta) => this.#listener.delta(id, session, delta),
    });
  }

  call(call: ModelCall, whole?: () => ContextDelta): void {
    const group = this.#groupOf(call);
    if (group === undefined) {
      this.#pool.call(call, whole);
      return;
    }
    const held: HeldCall = { call, whole, group, wantsDeltas: call.wantsDeltas };
    group.held.set(call.id, held);
    this.#held.set(call.id, held);
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#pool.holds(session, epoch, keep);
  }

  wantsDeltas(id: number, isWanted: boolean, fromStart?: boolean): void {
    const held = this.#held.get(id);
    if (held === undefined) this.#pool.wantsDeltas(id, isWanted, fromStart);
    else held.wantsDeltas = isWanted;
  }

  cancel(id: number): void {
    const held = this.#held.get(id);
    if (held === undefined) {
      this.#pool.cancel(id);
      return;
    }
    this.#endHeld(held, 'the model call was cancelled');
  }

  forget(session: string): void {
    this.#pool.forget(session);
  }

  resume(): void {
    this.#pool.resume?.();
  }

  waitOf(id: number): CallWait | undefined {
    if (this.#held.has(id)) return { detail: "the provider's cache is warmed with its prompt first" };
    return this.#pool.waitOf?.(id);
  }

  get stopped(): number {
    return this.#pool.stopped ?? 0;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { timer } of this.#groups.values()) this.#clock.clearTimer(timer);
    this.#groups.clear();
    for (const held of [...this.#held.values()]) this.#endHeld(held, 'the model pool is closed');
    await this.#pool.close();
    await this.#unsent.reported();
  }

  /** The group in which a call waits; undefined if the call leaves at once. */
  #groupOf({ context: { header } }: ModelCall): Group | undefined {
    const prompt = header === undefined || this.#closed ? undefined : this.#promptOf(header);
    if (header === undefined || prompt === undefined) return undefined;
    const group = this.#groups.get(prompt);
    if (group !== undefined) return group;
    return this.#isWarm(prompt, header) ? undefined : this.#gather(prompt, header);
  }

  /** The name of a prompt: a digest of the parts that the provider caches. Undefined if they are too short to cache. */
  #promptOf(header: RequestHeader): string | undefined {
    const { model, tools, speed, output_config: output, transport } = header;
    const system = sharedSystemOf(header);
    const prompt = JSON.stringify([tools, system]);
    const least = this.#options.promptTokensMin ?? modelTraits(header.model).cacheableTokensMin ?? CACHEABLE_TOKENS_MIN;
    if (estimateTokens(prompt) < least) return undefined;
    const cached = JSON.stringify([model, speed, output?.['format'], transport?.betas, transport?.provider]);
    return createHash('sha256').update(cached).update(prompt).digest('base64');
  }

  /**
   * True if the prompt is warm. The call that is about to leave reads the prompt, so the prompt's time in the cache
   * begins again.
   */
  #isWarm(prompt: string, header: RequestHeader): boolean {
    const now = this.#clock.monotonic();
    if (now >= (this.#warm.get(prompt) ?? 0)) return false;
    this.#warm.put(prompt, now + cacheMsOf(header));
    return true;
  }

  #gather(prompt: string, header: RequestHeader): Group {
    const group: Group = { prompt, cacheMs: cacheMsOf(header), held: new Map(), timer: undefined };
    group.timer = this.#clock.setTimer(() => this.#gathered(group, header), WARM_UP_GATHER_MS);
    this.#groups.set(prompt, group);
    return group;
  }

  #gathered(group: Group, header: RequestHeader): void {
    group.timer = undefined;
    const [first] = group.held.values();
    if (first === undefined || group.held.size < WARM_UP_CALLS_MIN) {
      this.#release(group);
      return;
    }
    this.#lastId -= 1;
    this.#warming.set(this.#lastId, group);
    // The time in the cache counts from the start of the request that writes the prompt.
    this.#warm.put(group.prompt, this.#clock.monotonic() + group.cacheMs);
    this.#options.onWarmUp?.();
    this.#pool.call({
      id: this.#lastId,
      session: sessionOf(this.#lastId),
      context: { epoch: 0, keep: 0, header: warmUpHeader(header), append: [WARM_UP_MESSAGE] },
      wantsDeltas: false,
      timeoutMs: first.call.timeoutMs,
      waitsForResume: false,
    });
  }

  #release(group: Group): void {
    this.#groups.delete(group.prompt);
    for (const [id, { call, whole, wantsDeltas }] of group.held) {
      this.#held.delete(id);
      this.#pool.call({ ...call, wantsDeltas }, whole);
    }
    group.held.clear();
  }

  #completed(completions: readonly ModelCompletion[]): void {
    const own: ModelCompletion[] = [];
    for (const completion of completions) {
      const group = this.#warming.get(completion.id);
      if (group === undefined) {
        own.push(completion);
        continue;
      }
      this.#warming.delete(completion.id);
      this.#pool.forget(sessionOf(completion.id));
      if ('error' in completion) this.#warm.delete(group.prompt);
      this.#release(group);
    }
    if (own.length > 0) this.#listener.completed(own);
  }

  /** Ends a held call: it does not leave with the others of its prompt. */
  #endHeld({ call: { id }, group }: HeldCall, message: string): void {
    this.#held.delete(id);
    group.held.delete(id);
    this.#unsent.end(id, errorShape(new CancelledError(message)));
  }
}

const WARM_UP_MESSAGE = { role: 'user', content: 'Nothing is asked: this request fills the cache.' } as const;

/** The session of a warm-up call. No real session has this id, because ids do not begin with a blank. */
function sessionOf(id: number): string {
  return ` warm-up ${-id}`;
}

/**
 * The request that fills the cache: the parts that the calls have in common. A thinking budget is left out, because it
 * must be smaller than `max_tokens`. The cache entry of tools and system prompt does not depend on the budget.
 */
function warmUpHeader(header: RequestHeader): RequestHeader {
  const { system: _whole, thinking, transport = {}, ...rest } = header;
  const { sharedSystem: _length, threads: _kept, ...other } = transport;
  const system = sharedSystemOf(header);
  return {
    ...rest,
    ...defined({ system, thinking: thinking?.type === 'enabled' ? undefined : thinking }),
    ...(Object.keys(other).length === 0 ? {} : { transport: other }),
    max_tokens: 0,
  };
}

/** The part of the system prompt that all sessions of the agent share. */
function sharedSystemOf({ system, transport }: RequestHeader): string | undefined {
  return transport?.sharedSystem === undefined ? system : system?.slice(0, transport.sharedSystem);
}

function cacheMsOf({ transport }: RequestHeader): number {
  return transport?.cacheTtl === '1h' ? CACHE_LONG_MS : CACHE_SHORT_MS;
}
