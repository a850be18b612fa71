/**
 * The definitions of all agents, with several versions of an agent side by side. They never change after construction.
 *
 * The last definition of a name is the current one: new turns begin with it. Earlier definitions serve the turns that
 * began with them (V1 of `src/session/rules/epoch.ts`).
 */
import type { AgentMissingError } from '../src/base/errors.ts';
import { isInTurn, missingAgentError, neededVersion } from '../src/session/rules/epoch.ts';
import type { SessionState } from '../src/session/state/state.ts';
import type { AgentDefinition } from './agent-plan.ts';

/** The definitions of one name. */
interface Versions {
  readonly current: AgentDefinition;
  readonly byVersion: ReadonlyMap<string | undefined, AgentDefinition>;
}

/** The part of a state that determines a session's definition. */
export type VersionedState = Pick<SessionState, 'agent' | 'version' | 'turn' | 'suspended'>;

/** The definitions of all agents and their versions (see the head of the file). */
export class AgentVersions {
  /** All definitions, in the given order. */
  readonly all: readonly AgentDefinition[];
  readonly #byName = new Map<string, Versions>();
  readonly #hasVersions: boolean;

  constructor(definitions: readonly AgentDefinition[]) {
    this.all = definitions;
    this.#hasVersions = definitions.some(({ plan }) => plan.version !== undefined);
    for (const definition of definitions) {
      const { name, version } = definition.plan;
      const byVersion = new Map(this.#byName.get(name)?.byVersion);
      this.#byName.set(name, { current: definition, byVersion: byVersion.set(version, definition) });
    }
  }

  /** The names of all agents. */
  get names(): Iterable<string> {
    return this.#byName.keys();
  }

  /** The definition with which new turns begin; undefined: there is no such agent. */
  current(name: string): AgentDefinition | undefined {
    return this.#byName.get(name)?.current;
  }

  /** The current definition of each name. */
  currents(): readonly AgentDefinition[] {
    return [...this.#byName.values()].map(({ current }) => current);
  }

  /** The version with which new sessions of an agent begin; undefined: the agent has no version. */
  versionOf(name: string): string | undefined {
    return this.current(name)?.plan.version;
  }

  /**
   * The definition of a session's turn; between turns, the current definition. Undefined: that definition is missing.
   */
  of(state: VersionedState): AgentDefinition | undefined {
    const known = state.agent === undefined ? undefined : this.#byName.get(state.agent);
    // Without versions anywhere there is nothing to choose. This case must be fast: every transition calls `of`.
    if (known === undefined || (!this.#hasVersions && state.version === undefined)) return known?.current;
    const needed = neededVersion(state);
    if (needed !== undefined) return known.byVersion.get(needed);
    // A turn that began without a version keeps the definition without a version, as long as that definition exists.
    return (isInTurn(state) ? known.byVersion.get(undefined) : undefined) ?? known.current;
  }

  /** True if a session of this agent has a definition. `needs`: the version that the session's turn needs, if any. */
  isDefined(name: string, needs: string | undefined): boolean {
    const known = this.#byName.get(name);
    return known !== undefined && (needs === undefined || known.byVersion.has(needs));
  }

  /** The error of a session whose definition is missing; undefined if the definition is there. */
  missingError(name: string, needs: string | undefined): AgentMissingError | undefined {
    return this.isDefined(name, needs) ? undefined : missingAgentError(name, needs);
  }
}
