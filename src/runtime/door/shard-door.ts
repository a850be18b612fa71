/**
 * Shared parts of the handlers of a shard's methods: reads, inputs and waits. Every handler answers with durable data
 * (A2).
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { asError, CancelledError, ConfigError, type TroupeError } from '../../base/errors.ts';
import { listed, namesHint } from '../../base/near-names.ts';
import { missingAgentError, neededVersion } from '../../session/rules/epoch.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { OfSession } from '../protocol/addresses.ts';
import type { Shard } from '../shard/shard.ts';
import type { Reply } from '../shard/shard-parts.ts';

/** See the head of the file. */
export class ShardDoor {
  readonly shard: Shard;
  readonly #isInPlace: boolean;

  /** `isInPlace`: the shard runs on the thread of its callers. */
  constructor(shard: Shard, isInPlace: boolean) {
    this.shard = shard;
    this.#isInPlace = isInPlace;
  }

  /** Throws `CancelledError` while the runtime closes. */
  checkOpen(): void {
    if (this.shard.life.isClosing) throw new CancelledError('the runtime is closing: it takes nothing new');
  }

  /** Gives a session one input, creating the session if necessary. Resolves with the input's answer. */
  submit<T>(request: OfSession, input: Input): Promise<T> {
    const { session } = request;
    return settle<T>((reply) => {
      const agent = this.agentFor(request);
      this.shard.transitions.submit(session, [this.redacted(session, input, agent)], reply, agent);
    });
  }

  /**
   * Returns the input of a request as the option `redact` leaves it. Every input of a request passes through here.
   * Throws `RedactionError` if the option fails. `agent`: the agent with which the session is created.
   */
  redacted(session: string, input: Input, agent: string | undefined): Input {
    return this.shard.parts.redactInput?.(session, input, agent) ?? input;
  }

  /**
   * The agent with which the request creates its session, if the session does not exist. Throws `ConfigError` if the
   * request names no agent for a session that it would have to create.
   */
  agentFor({ session, agent }: OfSession): string | undefined {
    if (agent !== '') return agent;
    const { residency, parts } = this.shard;
    if (residency.find(session) !== undefined) return undefined;
    throw new ConfigError(
      `session ${JSON.stringify(session)} does not exist, and no agent was named to create it with: name one of ${listed(parts.catalog.versions.names)}`,
      { data: { key: 'agent', session } },
    );
  }

  /**
   * Throws `ConfigError` (`agent_mismatch`) for a request that names another agent than its session has. Called for
   * every request.
   */
  checkAgent(payload: unknown): void {
    const { session, agent, isNamed } = payload as Partial<OfSession>;
    if (isNamed !== true || session === undefined) return;
    const { residency } = this.shard;
    const own = (residency.inMemory(session) ?? residency.find(session))?.state.agent;
    if (own === undefined || own === agent) return;
    throw new ConfigError(
      `session ${JSON.stringify(session)} was made with the agent ${JSON.stringify(own)}, not with ${JSON.stringify(agent)}: open it without naming an agent, or use another id`,
      { code: 'agent_mismatch', data: { session, agent: own, named: agent } },
    );
  }

  /** Does the same as `submit`, but refuses new work while the runtime closes. */
  submitWhileOpen<T>(request: OfSession, input: Input): Promise<T> {
    this.checkOpen();
    return this.submit(request, input);
  }

  /** Gives an input to an existing session. If there is no such session, resolves with `absent` and creates none. */
  submitIfPresent<T>({ session }: OfSession, input: Input, absent: T): Promise<T> {
    return this.shard.residency.find(session) === undefined ? Promise.resolve(absent) : this.submit({ session }, input);
  }

  /**
   * An answer that shares no objects with the sessions, so that a caller who changes the answer changes no session.
   * Between threads, a message port copies every answer. If the shard runs on the thread of its callers, this function
   * copies the answer.
   */
  detached<T>(value: T): T {
    return this.#isInPlace ? structuredClone(value) : value;
  }

  /** Reads a session in its current state, and answers once that state is durable. */
  read<T>(session: string, look: (actor: SessionActor) => T, absent: () => T): Promise<T> {
    return this.readDurable(() => {
      const actor = this.shard.residency.find(session);
      const value = this.detached(actor === undefined ? absent() : look(actor));
      // The read may have loaded an idle session into memory, so another idle session may have to leave.
      this.shard.residency.passivateSome();
      return value;
    });
  }

  /**
   * Calls `look` now, and answers once the data that it read is durable. A refused flush discards data that was not
   * durable. Then `look` is called again and finds only durable data, so reads continue while the store refuses writes
   * (F06).
   */
  readDurable<T>(look: () => T): Promise<T> {
    return settle<T>((reply) => {
      const value = look();
      this.shard.transitions.afterCommit(
        () => reply.resolve(value),
        () => answer(reply, () => this.#ifServing(look)),
      );
    });
  }

  /**
   * Waits until `look` finds a value, and answers once the value is durable. `wait` calls `again` when there may be a
   * value. If a refused flush discards the value, the wait continues.
   */
  awaitDurable<T>(look: () => T | undefined, wait: (reply: Reply, again: () => void) => void): Promise<T> {
    return settle<T>((reply) => {
      const lookNow = (isDurable: boolean): void => {
        try {
          const value = isDurable ? this.#ifServing(look) : look();
          if (value === undefined) wait(reply, () => lookNow(false));
          else if (isDurable) reply.resolve(value);
          else
            this.shard.transitions.afterCommit(
              () => reply.resolve(value),
              () => lookNow(true),
            );
          this.shard.residency.passivateSome();
        } catch (error) {
          reply.reject(asError(error));
        }
      };
      lookNow(false);
    });
  }

  /** Calls `look`. Throws `CancelledError` if the shard has closed: the journal can then no longer be read. */
  #ifServing<T>(look: () => T): T {
    if (this.shard.life.isOver) throw new CancelledError('the runtime is closed');
    return look();
  }
}

/** Calls `look` now, and answers with its value or its error. */
export function answer<T>(reply: Reply, look: () => T): void {
  try {
    reply.resolve(look());
  } catch (error) {
    reply.reject(asError(error));
  }
}

/** The outcome of work that answers through a reply. */
export function settle<T>(start: (reply: Reply) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    start({ resolve: (value) => resolve(value as T), reject });
  });
}

/** The error of a request whose session has an agent, or a version of one, that the runtime does not define. */
export function undefinedAgent(state: SessionState, { catalog: { versions } }: Shard['parts']): TroupeError {
  const { agent: name = '' } = state;
  const needs = neededVersion(state);
  if (needs !== undefined && versions.isDefined(name, undefined)) return missingAgentError(name, needs);
  const known = versions.names;
  return new ConfigError(`agent ${JSON.stringify(name)} is not defined${namesHint(name, known, 'agents')}`, {
    code: 'unknown_agent',
    data: { agent: name },
  });
}
