/**
 * The agents an embedder defined, in the form that session threads need. From plain data it makes facts for `decide`
 * and headers for requests. Each is computed once and shared by all sessions of one agent with the same grants.
 */
import { createHash } from 'node:crypto';
import { ANSWER_FORMS_KEPT_MAX, type Limits } from '../src/base/bounds.ts';
import { defined } from '../src/base/defined.ts';
import { ConfigError } from '../src/base/errors.ts';
import { isRecord } from '../src/base/json.ts';
import type { CompressionSettings, Settings } from '../src/base/settings.ts';
import { findListed, type ListedModel, modelTraits } from '../src/context/model-traits.ts';
import type { RenderOptions } from '../src/context/render.ts';
import { type RequestTraits, readTraits, writeTraits } from '../src/context/request-traits.ts';
import { enricherSections, sharedPromptLength, systemPrompt } from '../src/context/system-prompt.ts';
import { fittedOptions } from '../src/models/fitted-options.ts';
import { refusedServerTool } from '../src/models/model-option-checks.ts';
import { cachedFields, type ModelOptions, modelOf, requestFields } from '../src/models/model-options.ts';
import type { RequestHeader } from '../src/models/pool.ts';
import type { RequestTool } from '../src/models/provider.ts';
import { isEpochInUse } from '../src/session/rules/epoch.ts';
import { formInForce } from '../src/session/rules/structured-answer.ts';
import type { AnswerForm } from '../src/session/state/answer-form.ts';
import type { AgentFacts, CompressionFacts, EnricherFacts } from '../src/session/state/inputs.ts';
import type { SessionState } from '../src/session/state/state.ts';
import type { ToolPlace } from '../src/tools/pool.ts';
import type { ServerToolEntry } from '../src/tools/server-tool.ts';
import { type RegisteredTool, ToolRegistry } from '../src/tools/tool-registry.ts';
import { takesTimeout } from '../src/tools/tool-schema.ts';
import { checkTools } from './agent-checks.ts';
import { type AnswerParts, answerParts, toolsWith } from './answer-forms.ts';
import { NO_SPAWN, runtimeTools, type SpawnGrant } from './runtime-tools.ts';
import { type SupervisorOptionsInput, supervisorOptions } from './supervision/child-spec.ts';

/** An agent as plain data, because it crosses to the session threads. */
export interface AgentPlan extends ModelOptions {
  readonly name: string;
  readonly model?: string;
  readonly system?: string;
  /** True if the agent's `system` is a function on the host thread. */
  readonly hasSystemFunction: boolean;
  readonly maxTokens?: number;
  readonly toolRounds?: number;
  readonly tokenBudget?: number;
  readonly subagents: { readonly spawn: SpawnGrant; readonly maxActive?: number };
  /** How a failure of one of its sub-agents is handled. Missing: it is reported. */
  readonly supervision?: SupervisorOptionsInput;
  /** Model answers after a user's message before the run is suspended. */
  readonly maxSteps?: number;
  /** Tools whose calls need a person's approval. `function`: a predicate on the host thread selects the calls. */
  readonly approval?: readonly string[] | 'function';
  /** Whether the agent has guardrails on the host thread, before and after its model calls. */
  readonly guards?: { readonly before: boolean; readonly after: boolean };
  /** The agent's purpose, shown to agents that may spawn it as a specialist. */
  readonly description?: string;
  /** Whether and when its conversations are compressed. Missing: the settings decide. */
  readonly compression?: boolean | Partial<CompressionSettings>;
  /** The form of the answers of its main sessions. */
  readonly output?: AnswerForm;
}

/** An agent with the tools that were found for it. */
export interface AgentDefinition {
  readonly plan: AgentPlan;
  readonly tools: readonly RegisteredTool[];
  /** The tools that the provider runs; missing: none. */
  readonly serverTools?: readonly ServerToolEntry[];
}

/** Everything about its agent that a session's half-steps need. */
export interface SessionAgent {
  /** Counts the changes in what is known of the models, until the agent was built. */
  readonly generation: number;
  readonly supervision: SupervisorOptionsInput | undefined;
  readonly facts: AgentFacts;
  readonly registry: ToolRegistry;
  readonly renderOptions: RenderOptions;
  /** The part of a request that is not messages. The object stays the same as long as no part of it changes. */
  readonly header: (state: SessionState) => RequestHeader;
  /** Location of a tool's code. Undefined for tools of the runtime. */
  readonly place: (toolName: string) => ToolPlace | undefined;
}

const SECOND_MS = 1_000;

/** The role of a session, by which sessions of one agent differ. */
interface AgentRole {
  readonly isChild: boolean;
  readonly depth: number;
  readonly grants: readonly string[] | undefined;
  /** The form of the answer that the session itself asks for. */
  readonly form?: AnswerForm;
}

/** The traits of an agent's model for some epochs. */
interface EpochTraits {
  readonly traits: RequestTraits;
  /** Their short form in the log; missing for epochs of earlier versions, which have none. */
  readonly recorded?: string;
  readonly next?: AgentFacts['next'];
}

/**
 * The agents of one runtime. Immutable after construction except for its caches and for what is known of the models.
 */
export class AgentCatalog {
  readonly #definitions: ReadonlyMap<string, AgentDefinition>;
  readonly #settings: Settings;
  readonly #limits: Limits;
  readonly #enrichers: EnricherFacts | undefined;
  /** Enricher facts of sub-agents. */
  readonly #namer: EnricherFacts | undefined;
  readonly #cache = new Map<string, SessionAgent>();
  /** Agents for the forms that messages and tasks ask for; the one used last is the last one. */
  readonly #formed = new Map<string, SessionAgent>();
  /** Rows of the vendor's list, for the models in use. */
  #listed: readonly ListedModel[];
  #generation = 0;

  constructor(
    definitions: readonly AgentDefinition[],
    settings: Settings,
    limits: Limits,
    enrichers?: EnricherFacts | undefined,
    listed: readonly ListedModel[] = [],
  ) {
    this.#listed = listed;
    this.#definitions = new Map(definitions.map((definition) => [definition.plan.name, definition]));
    this.#settings = settings;
    this.#limits = limits;
    this.#enrichers = enrichers;
    this.#namer = enrichers?.melete === undefined ? undefined : { namer: enrichers.melete };
    // Building each agent once here refuses duplicate and reserved tool names at `open`.
    for (const definition of definitions) {
      if (definition.plan.supervision !== undefined) supervisorOptions(definition.plan.supervision);
      const own = this.#latest(definition, { isChild: false, depth: 0, grants: undefined });
      const asChild = this.#latest(definition, { isChild: true, depth: 1, grants: undefined });
      this.#checkMemory(own.facts);
      checkTools(definition, [own.registry, asChild.registry]);
    }
  }

  /**
   * The agent of a session; `undefined` when it is no longer defined. In an epoch that is in use it follows the traits
   * which that epoch recorded, otherwise the newest ones.
   */
  of(state: SessionState): SessionAgent | undefined {
    const definition = state.agent === undefined ? undefined : this.#definitions.get(state.agent);
    if (definition === undefined) return undefined;
    const { depth, grants } = state;
    const form = formInForce(state);
    const role: AgentRole = { isChild: state.parent !== undefined, depth, grants, ...defined({ form }) };
    const latest = this.#latest(definition, role);
    if (state.fingerprint === undefined || state.traits === latest.facts.traits || !isEpochInUse(state)) return latest;
    const recorded = this.#recorded(definition, role, state.traits, latest.facts);
    // With other options of the agent, the recorded traits no longer give the requests of this epoch.
    return recorded.facts.fingerprint === state.fingerprint ? recorded : latest;
  }

  /** True if `of` would return this agent again, which it did for an earlier state of the session. */
  isCurrent({ facts, generation }: SessionAgent, state: SessionState): boolean {
    return generation === this.#generation && facts.traits === state.traits && facts.next === undefined;
  }

  /** Takes rows of the vendor's list. Epochs in use keep the traits they have. */
  learn(listed: readonly ListedModel[]): void {
    const before = this.#traitsInUse();
    this.#listed = listed;
    // Agents that are built again render their sessions' requests from the beginning, so they are kept if they can be.
    if (before.join() === this.#traitsInUse().join()) return;
    this.#generation += 1;
    this.#cache.clear();
    this.#formed.clear();
  }

  /** The traits of all agents' models, in short form. */
  #traitsInUse(): readonly string[] {
    const plans = [...this.#definitions.values()].map(({ plan }) => plan);
    return plans.flatMap((plan) => [false, true].map((isChild) => writeTraits(this.#traitsNow(plan, isChild))));
  }

  #traitsNow(plan: AgentPlan, isChild: boolean): RequestTraits {
    const model = modelOf(plan, this.#settings, isChild);
    return modelTraits(model, findListed(model, this.#listed));
  }

  #latest(definition: AgentDefinition, role: AgentRole): SessionAgent {
    return this.#cached(definition, role, '*', () => {
      const traits = this.#traitsNow(definition.plan, role.isChild);
      return this.#build(definition, role, { traits, recorded: writeTraits(traits) });
    });
  }

  #recorded(
    definition: AgentDefinition,
    role: AgentRole,
    recorded: string | undefined,
    { fingerprint, traits }: AgentFacts,
  ): SessionAgent {
    return this.#cached(definition, role, String(recorded), () => {
      const next = { fingerprint, traits };
      if (recorded !== undefined) {
        return this.#build(definition, role, { traits: readTraits(recorded), recorded, next });
      }
      const model = modelOf(definition.plan, this.#settings, role.isChild);
      return this.#build(definition, role, { traits: modelTraits(model), next });
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

  /** Facts of an agent that is no longer defined. Its sessions keep their state and start nothing. */
  missing(name: string): AgentFacts {
    return {
      name,
      fingerprint: '',
      hasSystemFunction: false,
      toolNames: [],
      tool: () => undefined,
      toolRounds: this.#limits.toolRounds,
      tokenBudget: this.#settings.llm.tokenBudget,
      maxActiveChildren: 0,
    };
  }

  /** The agent of a session that names none: the first one defined. */
  get defaultName(): string {
    const [first] = this.#definitions.keys();
    if (first === undefined) throw new ConfigError('no agent is defined');
    return first;
  }

  has(name: string): boolean {
    return this.#definitions.has(name);
  }

  /** Tool names a child of this agent may be granted. Undefined if there is no such agent. */
  toolNamesOf(name: string): readonly string[] | undefined {
    const definition = this.#definitions.get(name);
    if (definition === undefined) return undefined;
    const { tools, serverTools = [] } = definition;
    return [...tools.map((tool) => tool.description.name), ...serverTools.map((tool) => tool.name)];
  }

  #build(definition: AgentDefinition, role: AgentRole, epoch: EpochTraits): SessionAgent {
    const { llm } = this.#settings;
    const given = { ...definition.plan, maxTokens: definition.plan.maxTokens ?? llm.maxTokens };
    const plan = fittedOptions(given, epoch.traits);
    const form = role.form ?? (role.isChild ? undefined : plan.output);
    // A tool that only the vendor's list refuses is left out, as long as the epoch has these traits.
    const server = (definition.serverTools ?? []).filter((each) => refusedServerTool(each, epoch.traits) === undefined);
    const granted = new ToolRegistry(plan.name, definition.tools, server).narrow(role.grants ?? null);
    const specialists = [...this.#definitions.values()]
      .filter((other) => other.plan.name !== plan.name)
      .map((other) => ({ name: other.plan.name, description: other.plan.description ?? '' }));
    const own = runtimeTools({
      // A child that owes a structured reply ends with that reply, not with a free text.
      reports: role.isChild && form === undefined,
      spawn: role.depth < this.#limits.depth ? plan.subagents.spawn : NO_SPAWN,
      specialists,
    });
    const registry = new ToolRegistry(plan.name, [...granted.list(), ...own], granted.server);
    const granting = registry.schemas(this.#settings.timeouts.tool * SECOND_MS);
    const runtimeNames = new Set(own.map((tool) => tool.description.name));
    const model = modelOf(plan, this.#settings, role.isChild);
    const answer = form === undefined ? undefined : answerParts(form, epoch.traits, registry.names());
    const tools = toolsWith(answer, plan.toolChoice === 'none', granting);
    const base = this.#headerBase(plan, { model, traits: epoch.traits, tools, answer });
    const guide = role.isChild ? undefined : this.#guide(registry);
    const renderOptions: RenderOptions = {
      timestamps: this.#settings.session.timestamps,
      deliveriesAsText: tools.length === 0 || plan.thinking?.type === 'enabled',
      callsAsText: tools.length === 0,
      callsNeedThought: plan.thinking?.type === 'enabled',
      bindsThinking: epoch.traits.bindsThinking,
      // A format may also come with the agent's own fields of the request.
      ...(base.output_config?.['format'] === undefined ? {} : { dropsCitations: true }),
    };
    const sources = { isChild: role.isChild, base, guide, renderOptions, epoch };
    const facts = this.#facts(plan, registry, runtimeNames, sources);
    return {
      generation: this.#generation,
      supervision: plan.supervision,
      facts: {
        ...facts,
        factsFor: (other) => (other?.key === role.form?.key ? facts : this.#factsFor(definition, role, other)),
        ...(answer === undefined ? {} : { answer: answer.facts }),
      },
      registry,
      renderOptions,
      header: headerOf(base, plan.system, guide),
      place: (name) => (runtimeNames.has(name) ? undefined : registry.get(name)?.place),
    };
  }

  /** The facts of a turn that asks for another form. Its header differs, so it has a new epoch and the newest traits. */
  #factsFor(definition: AgentDefinition, role: AgentRole, other: AnswerForm | undefined): AgentFacts {
    const { form: _form, ...plainRole } = role;
    return this.#latest(definition, { ...plainRole, ...defined({ form: other }) }).facts;
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
      readonly model: string;
      readonly traits: RequestTraits;
      readonly tools: readonly RequestTool[];
      readonly answer: AnswerParts | undefined;
    },
  ): RequestHeader {
    const { model, traits, tools, answer } = parts;
    const toolNames = tools.map((tool) => tool.name);
    const options = answer === undefined ? plan : answerOptions(plan, answer);
    return {
      model,
      max_tokens: plan.maxTokens,
      ...(tools.length === 0 ? {} : { tools }),
      ...requestFields(options, traits, toolNames, this.#settings.llm.threads),
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
    const { llm, timeouts, subagents } = this.#settings;
    const standard = role.isChild ? llm.subagentTokenBudget : llm.tokenBudget;
    const system = plan.hasSystemFunction ? '(function)' : (plan.system ?? '');
    return {
      name: plan.name,
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
          timeoutMs: description.timeoutMs ?? timeouts.tool * SECOND_MS,
          adjustableTimeout: takesTimeout(description),
          isRuntimeTool: runtimeNames.has(name),
        };
      },
      toolRounds: plan.toolRounds ?? this.#limits.toolRounds,
      tokenBudget: plan.tokenBudget ?? standard,
      maxActiveChildren: plan.subagents.maxActive ?? subagents.maxActive,
      imagesMax: modelTraits(role.base.model).imagesMax,
      compression: this.#compression(plan, role),
      enrichers: role.isChild ? this.#namer : this.#enrichers,
      ...runLoopFacts(plan),
    };
  }

  /** Compression and Mneme exclude each other: each would summarise what the other already summarised. */
  #checkMemory({ name, compression, enrichers }: AgentFacts): void {
    if (enrichers?.mneme === undefined || compression?.isAutomatic !== true) return;
    const key = 'enrichers.mneme';
    throw new ConfigError(
      `agent ${JSON.stringify(name)}: a session has either compression or ${key}; turn compression.enabled off, or ${key}`,
      { data: { key, agent: name } },
    );
  }

  /** A child's conversation is compressed only when a request would otherwise be too long, never earlier. */
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

/** The key of an agent with the same tools and model. */
function keyOf({ plan }: AgentDefinition, { isChild, depth, grants }: AgentRole): string {
  return `${plan.name} ${isChild} ${depth} ${grants?.join(',') ?? '*'}`;
}

/**
 * The agent's options in a turn with a structured answer. A forced tool would keep the turn from ending, so none is
 * forced.
 */
function answerOptions(plan: AgentPlan, { tool, format }: AnswerParts): ModelOptions {
  const { toolChoice, ...rest } = plan;
  const isKept = toolChoice === 'auto' || (toolChoice === 'none' && tool === undefined);
  const options: ModelOptions = isKept ? { ...rest, toolChoice } : rest;
  if (format === undefined) return options;
  const { request = {} } = options;
  const given = request['output_config'];
  return { ...options, request: { ...request, output_config: { ...(isRecord(given) ? given : {}), format } } };
}

/** The agent facts of the run loop. Empty for an agent that uses none of its features. */
function runLoopFacts({ maxSteps, approval, guards }: AgentPlan): Partial<AgentFacts> {
  return {
    ...(maxSteps === undefined && approval === undefined ? {} : { holdsCalls: true }),
    ...(maxSteps === undefined ? {} : { maxSteps }),
    ...(approval === undefined ? {} : { approval: approval === 'function' ? approval : new Set(approval) }),
    ...(guards === undefined ? {} : { guards }),
  };
}

/** Builds a header once per epoch and system text. Sessions with the same text share one object. */
function headerOf(
  base: RequestHeader,
  agentSystem: string | undefined,
  guide: string | undefined,
): (state: SessionState) => RequestHeader {
  const plain = new Map<string | undefined, RequestHeader>();
  return (state) => {
    const system = systemPrompt(state, agentSystem, guide);
    const hasOwn = state.prompt !== undefined || state.goal !== undefined || state.system !== undefined;
    const isShared = !hasOwn && state.promptCount === 0 && state.memory?.shown === undefined;
    const known = isShared ? plain.get(system) : undefined;
    if (known !== undefined) return known;
    // The order of members is part of the request's bytes: model, max_tokens, system, tools, and the fields of the
    // agent's options.
    const { model, max_tokens, ...rest } = base;
    const header: RequestHeader = { model, max_tokens, ...(system === undefined ? {} : { system }), ...rest };
    if (isShared) plain.set(system, header);
    const sharedSystem = sharedPromptLength(state, agentSystem, guide);
    // The prompt of a session that adds nothing to it is one block.
    if (sharedSystem === 0 || sharedSystem >= (system?.length ?? 0)) return header;
    return { ...header, transport: { ...header.transport, sharedSystem } };
  };
}
