/**
 * The agents that an embedder defined, in the form that session threads need. The catalog makes facts for `decide` and
 * headers for requests from plain data. Sessions of one agent with the same role share their facts and headers.
 */
import { createHash } from 'node:crypto';
import {
  ANSWER_FORMS_KEPT_MAX,
  FALLBACK_AFTER_MS_DEFAULT,
  type Limits,
  RETURN_AFTER_MS_DEFAULT,
} from '../src/base/bounds.ts';
import { defined } from '../src/base/defined.ts';
import { ConfigError } from '../src/base/errors.ts';
import { agentKey } from '../src/base/ids.ts';
import type { Settings } from '../src/base/settings.ts';
import { findListed, type ListedModel, modelTraits } from '../src/context/model-traits.ts';
import type { RenderOptions } from '../src/context/render.ts';
import { type RequestTraits, readTraits, writeTraits } from '../src/context/request-traits.ts';
import { enricherSections } from '../src/context/system-prompt.ts';
import { fittedOptions, withoutRefused } from '../src/models/fitted-options.ts';
import { type ModelName, readModelName } from '../src/models/model-name.ts';
import { refusedServerTool } from '../src/models/model-option-checks.ts';
import { cachedFields, modelsOf, requestFields } from '../src/models/model-options.ts';
import type { RequestHeader } from '../src/models/pool.ts';
import type { RequestTool } from '../src/models/provider.ts';
import { isEpochInUse, MISSING_FINGERPRINT } from '../src/session/rules/epoch.ts';
import { formInForce } from '../src/session/rules/structured-answer.ts';
import type { AnswerForm } from '../src/session/state/answer-form.ts';
import type { AgentFacts, CompressionFacts, EnricherFacts, ModelFacts } from '../src/session/state/inputs.ts';
import type { SessionState } from '../src/session/state/state.ts';
import { grantedTools } from '../src/tools/mcp/grants.ts';
import { type McpLists, McpListVersions } from '../src/tools/mcp/list-versions.ts';
import type { McpToolList } from '../src/tools/mcp/protocol.ts';
import type { ToolPlace } from '../src/tools/pool.ts';
import { type RegisteredTool, ToolRegistry } from '../src/tools/tool-registry.ts';
import { takesTimeout } from '../src/tools/tool-schema.ts';
import { checkTools } from './agent-checks.ts';
import { type AgentDefinition, type AgentPlan, runLoopFacts } from './agent-plan.ts';
import { AgentVersions } from './agent-versions.ts';
import { type AnswerParts, answerParts, toolsWith } from './answer-forms.ts';
import { answerOptions, headerOf } from './request-headers.ts';
import { asksOf, NO_SPAWN, runtimeTools } from './runtime-tools.ts';
import { type SupervisorOptionsInput, supervisorOptions } from './supervision/supervisor-options.ts';

/** Everything that a session's half-steps need to know about its agent. */
export interface SessionAgent {
  /**
   * The generation of the catalog in which the agent was built. It rises when new facts about models or tools arrive.
   */
  readonly generation: number;
  /** The definition from which the agent was built. */
  readonly definition: AgentDefinition;
  /** The key of the definition, by which the host finds the agent's functions. */
  readonly key: string;
  readonly supervision: SupervisorOptionsInput | undefined;
  readonly facts: AgentFacts;
  readonly registry: ToolRegistry;
  readonly renderOptions: RenderOptions;
  /** The parts of a request besides its messages. The object stays the same as long as no part changes. */
  readonly header: (state: SessionState) => RequestHeader;
  /** Bounds that the agent sets for the calls of one session. */
  readonly toolBounds: { readonly resultChars: number | undefined; readonly concurrency: number | undefined };
  /** Location of a tool's code. Undefined for tools of the runtime. */
  readonly place: (toolName: string) => ToolPlace | undefined;
}

const SECOND_MS = 1_000;

/** The facts in which sessions of one agent differ. */
interface AgentRole {
  readonly isChild: boolean;
  readonly depth: number;
  readonly grants: readonly string[] | undefined;
  /** The index of the session's model in the agent's list, from 0. */
  readonly place: number;
  /** The form of the answer that the session itself asks for. */
  readonly form?: AnswerForm;
}

/** The model's traits and the MCP tools with which an agent is built: the newest ones, or those of an epoch. */
interface EpochTraits {
  readonly traits: RequestTraits;
  readonly mcp: McpLists;
  /** The short form of the traits in the log; missing: an earlier version of this library opened the epoch. */
  readonly recorded?: string;
  readonly next?: AgentFacts['next'];
}

/**
 * The agents of one runtime. After construction only its caches change, and the facts about models and MCP servers
 * (`learn`).
 */
export class AgentCatalog {
  /** The definitions of the agents. */
  readonly versions: AgentVersions;
  readonly #settings: Settings;
  readonly #limits: Limits;
  readonly #enrichers: EnricherFacts | undefined;
  /** The names of the providers. A model's name may begin with one of them. */
  readonly #providers: readonly string[];
  /** Enricher facts of sub-agents. */
  readonly #namer: EnricherFacts | undefined;
  readonly #cache = new Map<string, SessionAgent>();
  /** Agents for the forms that messages and tasks ask for, least recently used first. */
  readonly #formed = new Map<string, SessionAgent>();
  /** Rows of the vendor's list of models, for the models in use. */
  #listed: readonly ListedModel[];
  readonly #mcp: McpListVersions;
  #generation = 0;

  constructor(
    definitions: readonly AgentDefinition[],
    settings: Settings,
    limits: Limits,
    enrichers?: EnricherFacts | undefined,
    listed: readonly ListedModel[] = [],
    providers: readonly string[] = [],
    mcp: readonly McpToolList[] = [],
  ) {
    this.#listed = listed;
    this.#providers = providers;
    this.#mcp = new McpListVersions(mcp);
    this.versions = new AgentVersions(definitions);
    this.#settings = settings;
    this.#limits = limits;
    this.#enrichers = enrichers;
    this.#namer = enrichers?.melete === undefined ? undefined : { namer: enrichers.melete };
    // Building each agent once here refuses duplicate and reserved tool names at `open`.
    for (const definition of definitions) {
      if (definition.plan.supervision !== undefined) supervisorOptions(definition.plan.supervision);
      const own = this.#latest(definition, { isChild: false, depth: 0, grants: undefined, place: 0 });
      const asChild = this.#latest(definition, { isChild: true, depth: 1, grants: undefined, place: 0 });
      this.#checkMemory(own.facts);
      checkTools(definition, [own.registry, asChild.registry]);
    }
  }

  /**
   * The agent of a session; `undefined` if no definition has its name, or the version of the session's turn. While the
   * session's epoch is in use, the agent has the traits that the epoch recorded and the tools of the epoch's beginning.
   * Otherwise the agent has the newest traits and tools.
   */
  of(state: SessionState): SessionAgent | undefined {
    const definition = this.versions.of(state);
    if (definition === undefined) return undefined;
    const { depth, grants } = state;
    const form = formInForce(state);
    const isChild = state.parent !== undefined;
    const place = state.fallback?.place ?? 0;
    // The agent's list of models may have become shorter since the session moved to this model.
    const isListed = place < modelsOf(definition.plan, this.#settings, isChild).length;
    const role: AgentRole = { isChild, depth, grants, place: isListed ? place : 0, ...defined({ form }) };
    const latest = this.#latest(definition, role);
    const { fingerprint, traits } = latest.facts;
    const isLatest = state.traits === traits && (state.fingerprint === fingerprint || this.#mcp.all.length === 1);
    if (state.fingerprint === undefined || isLatest || !isEpochInUse(state)) return latest;
    for (const mcp of this.#mcp.all) {
      const recorded = this.#recorded(definition, role, { recorded: state.traits, mcp }, latest.facts);
      if (recorded.facts.fingerprint === state.fingerprint) return recorded;
    }
    // The agent's options have changed, so the recorded traits no longer give the requests of this epoch.
    return latest;
  }

  /** True if `of` would return this agent again. The agent is one that `of` returned for an earlier state. */
  isCurrent({ facts, generation, definition }: SessionAgent, state: SessionState): boolean {
    if (definition !== this.versions.of(state)) return false;
    const isSame = generation === this.#generation && (facts.models?.place ?? 0) === (state.fallback?.place ?? 0);
    return isSame && facts.traits === state.traits && facts.next === undefined;
  }

  /**
   * Takes rows of the vendor's list, and the tools of the MCP servers. Epochs in use keep the traits and the tools they
   * have.
   */
  learn(listed: readonly ListedModel[], mcp: readonly McpToolList[] = []): void {
    const before = this.#traitsInUse();
    this.#listed = listed;
    const hasNewTools = this.#mcp.take(mcp);
    // Agents are kept if possible: when an agent is built again, its sessions' requests are rendered from the
    // beginning.
    if (!hasNewTools && before.join() === this.#traitsInUse().join()) return;
    this.#generation += 1;
    this.#cache.clear();
    this.#formed.clear();
  }

  /** The traits of all agents' models, in short form. */
  #traitsInUse(): readonly string[] {
    const plans = this.versions.all.map(({ plan }) => plan);
    return plans.flatMap((plan) =>
      [false, true].flatMap((isChild) =>
        modelsOf(plan, this.#settings, isChild).map((_model, place) =>
          writeTraits(this.#traitsNow(plan, { isChild, place })),
        ),
      ),
    );
  }

  #traitsNow(plan: AgentPlan, role: Pick<AgentRole, 'isChild' | 'place'>): RequestTraits {
    const { model } = this.#modelOf(plan, role);
    return modelTraits(model, findListed(model, this.#listed));
  }

  #modelOf(plan: AgentPlan, { isChild, place }: Pick<AgentRole, 'isChild' | 'place'>): ModelName {
    const models = modelsOf(plan, this.#settings, isChild);
    return readModelName(models[place] ?? models[0], this.#providers);
  }

  #latest(definition: AgentDefinition, role: AgentRole): SessionAgent {
    return this.#cached(definition, role, '*', () => {
      const traits = this.#traitsNow(definition.plan, role);
      return this.#build(definition, role, { traits, recorded: writeTraits(traits), mcp: this.#mcp.newest });
    });
  }

  #recorded(
    definition: AgentDefinition,
    role: AgentRole,
    { recorded, mcp }: { readonly recorded: string | undefined; readonly mcp: McpLists },
    { fingerprint, traits }: AgentFacts,
  ): SessionAgent {
    return this.#cached(definition, role, `${recorded} ${mcp.version}`, () => {
      const next = { fingerprint, traits };
      if (recorded !== undefined) {
        return this.#build(definition, role, { traits: readTraits(recorded), recorded, mcp, next });
      }
      const { model } = this.#modelOf(definition.plan, role);
      return this.#build(definition, role, { traits: modelTraits(model), mcp, next });
    });
  }

  #cached(definition: AgentDefinition, role: AgentRole, epoch: string, build: () => SessionAgent): SessionAgent {
    const key = `${keyOf(definition, role)} ${epoch}`;
    if (role.form !== undefined) return this.#formedAgent(`${role.form.key} ${key}`, build);
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const built = build();
    this.#cache.set(key, built);
    return built;
  }

  #formedAgent(key: string, build: () => SessionAgent): SessionAgent {
    const agent = this.#formed.get(key) ?? build();
    this.#formed.delete(key);
    this.#formed.set(key, agent);
    if (this.#formed.size > ANSWER_FORMS_KEPT_MAX) {
      const oldest = this.#formed.keys().next();
      if (oldest.done !== true) this.#formed.delete(oldest.value);
    }
    return agent;
  }

  /**
   * Facts of an agent that is not defined, or not in the version of a session's turn. Its sessions keep their state and
   * start nothing, and no waiting call is denied. The embedder may still spawn children, so the bound on active
   * children stays. With a bound of 0, a session's first child would wait forever, because only the end of another
   * child would start it.
   */
  missing(name: string): AgentFacts {
    const { subagents } = this.versions.current(name)?.plan ?? {};
    return {
      name,
      fingerprint: MISSING_FINGERPRINT,
      approvals: { expiresMs: null, onInput: 'wait' },
      hasSystemFunction: false,
      toolNames: [],
      tool: () => undefined,
      toolRounds: this.#limits.toolRounds,
      tokenBudget: this.#settings.llm.tokenBudget,
      maxActiveChildren: subagents?.maxActive ?? this.#settings.subagents.maxActive,
    };
  }

  /** Tool names a child of this agent may be granted. Undefined if there is no such agent. */
  toolNamesOf(name: string): readonly string[] | undefined {
    const definition = this.versions.current(name);
    if (definition === undefined) return undefined;
    const { serverTools = [] } = definition;
    const tools = this.#toolsOf(definition, this.#mcp.newest);
    const asks = asksOf(definition.plan.asks ?? [], { isChild: false, grants: undefined });
    return [...tools.map((tool) => tool.description.name), ...[...serverTools, ...asks].map(({ name: each }) => each)];
  }

  /** The agent's own tools, and then those of MCP servers. */
  #toolsOf({ tools, mcp = [] }: AgentDefinition, { lists }: McpLists): readonly RegisteredTool[] {
    if (mcp.length === 0) return tools;
    return [...tools, ...grantedTools(mcp, lists, tools, this.#settings.timeouts.mcpResponse * SECOND_MS)];
  }

  #build(definition: AgentDefinition, role: AgentRole, epoch: EpochTraits): SessionAgent {
    const { llm } = this.#settings;
    const given = { ...definition.plan, maxTokens: definition.plan.maxTokens ?? llm.maxTokens };
    const plan = (role.place === 0 ? fittedOptions : withoutRefused)(given, epoch.traits);
    const form = role.form ?? (role.isChild ? undefined : plan.output);
    // A tool of the provider that the epoch's traits refuse is left out.
    const server = (definition.serverTools ?? []).filter((each) => refusedServerTool(each, epoch.traits) === undefined);
    const available = this.#toolsOf(definition, epoch.mcp);
    const granted = new ToolRegistry(plan.name, available, server).narrow(role.grants ?? null);
    const specialists = this.versions
      .currents()
      .filter((other) => other.plan.name !== plan.name)
      .map((other) => ({ name: other.plan.name, description: other.plan.description ?? '' }));
    const asks = asksOf(plan.asks ?? [], role);
    const own = runtimeTools({
      // A child with a structured reply ends with that reply, so it needs no tool to report a free text.
      reports: role.isChild && form === undefined,
      spawn: role.depth < this.#limits.depth ? plan.subagents.spawn : NO_SPAWN,
      specialists,
      asks,
    });
    const registry = new ToolRegistry(plan.name, [...granted.list(), ...own], granted.server);
    const granting = registry.schemas(this.#toolTimeoutMs(plan));
    const runtimeNames = new Set(own.map((tool) => tool.description.name));
    const model = this.#modelOf(plan, role);
    const answer = form === undefined ? undefined : answerParts(form, epoch.traits, registry.names());
    const tools = toolsWith(answer, plan.toolChoice === 'none', granting);
    const base = this.#headerBase(plan, {
      model,
      traits: epoch.traits,
      tools,
      answer,
      fits: role.place > 0 ? true : undefined,
    });
    const guide = role.isChild ? undefined : this.#guide(registry);
    const renderOptions: RenderOptions = {
      timestamps: this.#settings.session.timestamps,
      deliveriesAsText: tools.length === 0 || plan.thinking?.type === 'enabled',
      callsAsText: tools.length === 0,
      callsNeedThought: plan.thinking?.type === 'enabled',
      bindsThinking: epoch.traits.bindsThinking,
      // The API refuses citations together with a format, also with a format of the agent's option `request`.
      ...(base.output_config?.['format'] === undefined ? {} : { dropsCitations: true }),
    };
    const sources = { isChild: role.isChild, base, guide, renderOptions, epoch };
    const models = this.#modelFacts(definition, role);
    const facts = { ...this.#facts(plan, registry, runtimeNames, sources), ...defined({ models }) };
    return {
      generation: this.#generation,
      definition,
      key: agentKey(plan.name, plan.version),
      supervision: plan.supervision,
      facts: {
        ...facts,
        factsFor: (other) => (other?.key === role.form?.key ? facts : this.#factsFor(definition, role, other)),
        ...(answer === undefined ? {} : { answer: answer.facts }),
      },
      registry,
      renderOptions,
      header: headerOf(base, plan.system, guide),
      toolBounds: { resultChars: plan.toolResultChars, concurrency: plan.toolConcurrency },
      place: (name) => (runtimeNames.has(name) ? undefined : registry.get(name)?.place),
    };
  }

  /** The facts of a turn that asks for another form. Its header differs, so the turn has a new epoch and new traits. */
  #factsFor(definition: AgentDefinition, role: AgentRole, other: AnswerForm | undefined): AgentFacts {
    const { form: _form, ...plainRole } = role;
    return this.#latest(definition, { ...plainRole, ...defined({ form: other }) }).facts;
  }

  /** The agent's models; undefined if it has only one. */
  #modelFacts(definition: AgentDefinition, role: AgentRole): ModelFacts | undefined {
    const { plan } = definition;
    const names = modelsOf(plan, this.#settings, role.isChild);
    if (names.length === 1) return undefined;
    // A name without a prefix is a model of the first provider.
    const providerAt = (place: number): string | undefined =>
      this.#modelOf(plan, { ...role, place }).provider ?? this.#providers[0];
    const provider = providerAt(role.place);
    return {
      place: role.place,
      name: names[role.place] ?? names[0],
      provider,
      count: names.length,
      hasOtherProvider: names.some((_name, place) => place > role.place && providerAt(place) !== provider),
      fallbackAfterMs: plan.fallbackAfterMs ?? FALLBACK_AFTER_MS_DEFAULT,
      returnAfterMs: plan.returnAfterMs ?? RETURN_AFTER_MS_DEFAULT,
      at: (place) => this.#latest(definition, { ...role, place }).facts,
    };
  }

  /** The text that the enrichers add to the system prompt. */
  #guide(registry: ToolRegistry): string | undefined {
    if (this.#enrichers === undefined) return undefined;
    return enricherSections({
      melete: this.#enrichers.melete !== undefined,
      mneme: this.#enrichers.mneme !== undefined,
      tools: registry.list().map((tool) => tool.description),
    });
  }

  #headerBase(
    plan: AgentPlan & { readonly maxTokens: number },
    parts: {
      readonly model: ModelName;
      readonly traits: RequestTraits;
      readonly tools: readonly RequestTool[];
      readonly answer: AnswerParts | undefined;
      readonly fits: true | undefined;
    },
  ): RequestHeader {
    const { model, traits, tools, answer, fits } = parts;
    const toolNames = tools.map((tool) => tool.name);
    const options = answer === undefined ? plan : answerOptions(plan, answer);
    return {
      model: model.model,
      max_tokens: plan.maxTokens,
      ...(tools.length === 0 ? {} : { tools }),
      ...requestFields(options, traits, toolNames, {
        threads: this.#settings.llm.threads,
        provider: model.provider,
        fits,
      }),
    };
  }

  #facts(
    plan: AgentPlan,
    registry: ToolRegistry,
    runtimeNames: ReadonlySet<string>,
    role: {
      readonly isChild: boolean;
      readonly base: RequestHeader;
      readonly guide: string | undefined;
      readonly renderOptions: RenderOptions;
      readonly epoch: EpochTraits;
    },
  ): AgentFacts {
    const { llm, subagents } = this.#settings;
    const standard = role.isChild ? llm.subagentTokenBudget : llm.tokenBudget;
    const system = plan.hasSystemFunction ? '(function)' : (plan.system ?? '');
    return {
      name: plan.name,
      ...defined({ version: plan.version, upgrades: plan.upgrades }),
      fingerprint: createHash('sha256')
        .update(JSON.stringify([cachedFields(role.base), system, role.guide ?? null, role.renderOptions]))
        .digest('base64url')
        .slice(0, 22),
      traits: role.epoch.recorded,
      next: role.epoch.next,
      hasSystemFunction: plan.hasSystemFunction,
      toolNames: registry.list().map(({ description }) => description.name),
      tool: (name) => {
        const tool = registry.get(name);
        if (tool === undefined) return undefined;
        const { description } = tool;
        return {
          effect: description.effect,
          timeoutMs: description.timeoutMs ?? this.#toolTimeoutMs(plan),
          adjustableTimeout: takesTimeout(description),
          isRuntimeTool: runtimeNames.has(name),
          asks: plan.asks?.find((each) => each.name === name),
        };
      },
      toolRounds: plan.toolRounds ?? this.#limits.toolRounds,
      tokenBudget: plan.tokenBudget ?? standard,
      maxActiveChildren: plan.subagents.maxActive ?? subagents.maxActive,
      imagesMax: modelTraits(role.base.model).imagesMax,
      compression: this.#compression(plan, role),
      enrichers: role.isChild ? this.#namer : this.#enrichers,
      ...runLoopFacts(plan),
      ...(plan.approvals === undefined
        ? {}
        : { approvals: { ...this.#settings.approvals, ...defined(plan.approvals) } }),
    };
  }

  #toolTimeoutMs({ toolTimeoutMs }: AgentPlan): number {
    return toolTimeoutMs ?? this.#settings.timeouts.tool * SECOND_MS;
  }

  /** Refuses compression together with Mneme: each would summarise messages that the other has already summarised. */
  #checkMemory({ name, compression, enrichers }: AgentFacts): void {
    if (enrichers?.mneme === undefined || compression?.isAutomatic !== true) return;
    const key = 'enrichers.mneme';
    throw new ConfigError(
      `agent ${JSON.stringify(name)}: a session has either compression or ${key}; turn compression.enabled off, or ${key}`,
      { data: { key, agent: name } },
    );
  }

  /** The compression of a session. A child is compressed only when a request would otherwise be too long. */
  #compression(
    plan: AgentPlan,
    role: { readonly isChild: boolean; readonly epoch: EpochTraits },
  ): CompressionFacts | undefined {
    const own = typeof plan.compression === 'object' ? { enabled: true, ...plan.compression } : {};
    const { enabled, ...bounds } = { ...this.#settings.compression, ...own };
    const isOn = typeof plan.compression === 'boolean' ? plan.compression : enabled;
    if (!isOn) return undefined;
    const { bindsThinking } = role.epoch.traits;
    return { ...bounds, isAutomatic: !role.isChild, bindsThinking };
  }
}

/** The key in the cache. Agents with the same key have the same tools and the same model. */
function keyOf({ plan }: AgentDefinition, { isChild, depth, grants, place }: AgentRole): string {
  return `${agentKey(plan.name, plan.version)} ${isChild} ${depth} ${place} ${grants?.join(',') ?? '*'}`;
}
