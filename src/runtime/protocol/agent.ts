/** `agent()` and its checks. An agent is the definition from which sessions are made. */
import { z } from 'zod';
import type { SpawnGrant } from '../../../actors/runtime-tools.ts';
import { AGENT_MODELS_MAX, GUARDRAILS_MAX, PARALLEL_CALLS_MAX, TOOL_TIMEOUT_MS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { agentKey, isAgentName, isAgentVersion } from '../../base/ids.ts';
import { isRecord } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { CompressionSettings, Settings } from '../../base/settings.ts';
import type { ModelOptions } from '../../models/model-options.ts';
import { askPlanOf } from '../../tools/built-in/ask-tools.ts';
import { isRuntimeTool } from '../../tools/built-in/runtime-tool-names.ts';
import { grantData, isMcpTools, type McpTools } from '../../tools/mcp/mcp-tools.ts';
import { isNamedTool } from '../../tools/named-tool.ts';
import { isServerTool, type ServerTool } from '../../tools/server-tool.ts';
import type { AnyTool } from '../../tools/tool.ts';
import { originOf } from '../../tools/tool-origin.ts';
import { describeTool } from '../../tools/tool-schema.ts';
import type { ApprovalPredicate, Guardrails } from './guardrails.ts';
import { checkParallelCalls, modelOptionsShape } from './model-options-schema.ts';
import { type AnswerOf, answerForm, type OutputSchema } from './output-option.ts';
import type { AgentSource, ToolSource } from './protocol.ts';
import type { UpgradeFunction } from './upgrade.ts';

/** Options of an agent's sub-agents. */
export interface SubagentOptions {
  /** Gives the model `spawn_subagent`, and `spawn_specialist` if other agents are defined. Default false. */
  readonly spawn?: boolean;
  /**
   * Maximum children of one session that work at once; further children wait in order. Default
   * `settings.subagents.maxActive`.
   */
  readonly maxActive?: number;
}

/** An agent as its embedder describes it. */
export interface AgentOptions extends ModelOptions {
  readonly name: string;
  /**
   * The version of this definition: letters, digits, dots, hyphens, underscores and `+`, at most 64. With a version, an
   * agent can be changed while its sessions work. A turn keeps the version with which it began, and a session moves to
   * the current version between two turns. If `agents` has several definitions of one name, the last is the current
   * one; the others only finish the turns that began with them. Missing: sessions use the present definition at once,
   * even within a turn.
   */
  readonly version?: string;
  /**
   * Moves a session from another version to this one: returns edits of the session's history. Runs on the host thread,
   * before the session's next turn. Without this function the history stays as it is, and a new epoch opens if the
   * requests of the two versions differ.
   */
  readonly upgrade?: UpgradeFunction;
  /**
   * The name of the model, or the names of several models in the order in which they are asked; default
   * `settings.llm.model`. If a model refuses, is unavailable or fails after all retries, the half-step continues with
   * the next model (event `model.changed`). The options of the agent must suit the first model. For another model, the
   * options that it refuses are left out or changed to fit.
   */
  readonly model?: string | readonly string[];
  /**
   * With several models: the longest wait in milliseconds that is accepted from a provider (`retry-after`, a pause
   * after failures). If the wait would be longer, the next model is asked instead. Default 10,000.
   */
  readonly fallbackAfterMs?: number;
  /**
   * With several models: milliseconds after a change of model. A turn that begins later asks the first model again. If
   * that call fails, the next model is asked at once. Default five minutes, the usual life of a provider's cache.
   */
  readonly returnAfterMs?: number;
  /** The system prompt, or a function that returns it. The function runs once per epoch, on the host thread. */
  readonly system?: string | SystemFunction;
  /**
   * The agent's tools. A URL names a module whose exported tools all run in tool threads. A tool given as a value runs
   * on the host thread, unless it is a built-in tool. The provider runs tools made by `serverTool`. `mcpTools` grants
   * the tools of an MCP server.
   */
  readonly tools?: readonly (AnyTool | URL | ServerTool | McpTools)[];
  /** Maximum tokens of one answer; default `settings.llm.maxTokens`. */
  readonly maxTokens?: number;
  /** Maximum model calls of one turn; default `limits.toolRounds`. */
  readonly toolRounds?: number;
  /** Milliseconds that a call may take if its tool has no `timeoutMs`; default `settings.timeouts.tool`. */
  readonly toolTimeoutMs?: number;
  /**
   * Maximum characters of a result whose tool has no `maxResultChars`. A longer result is shortened. Default
   * `settings.tools.maxToolResponseChars`.
   */
  readonly toolResultChars?: number;
  /** Maximum tool calls of one session at a time, from 1 to 32; default 32. With 1, calls run one after another. */
  readonly toolConcurrency?: number;
  /**
   * Maximum model answers after a user's message. At this limit the run stops with its calls pending. The next message,
   * or `resume()`, continues the run. Default and null: no limit.
   */
  readonly maxSteps?: number | null;
  /**
   * Names of the tools whose calls a person must allow with `session.approve`, or a function that decides for each
   * call.
   */
  readonly approve?: readonly string[] | ApprovalPredicate;
  /**
   * How long calls of the agent's sessions wait for a person (`expiresMs`, null: forever), and the effect of a user's
   * message meanwhile (`onInput`). A given member overrides the one in `settings.approvals`.
   */
  readonly approvals?: Partial<Settings['approvals']>;
  /** Functions that run before each model call and after each answer, on the host thread. */
  readonly guardrails?: Guardrails;
  readonly subagents?: SubagentOptions;
  readonly supervision?: SupervisionOptions;
  /** Maximum tokens of the conversation that are shown to the model; overrides the settings. */
  readonly tokenBudget?: number;
  /** The agent's purpose, shown to agents that may spawn it as a specialist. */
  readonly description?: string;
  /**
   * Turns compression on (`true`) or off (`false`), or sets its bounds for this agent. With compression, a summary
   * replaces old messages. Default `settings.compression`.
   */
  readonly compression?: boolean | Partial<CompressionSettings>;
}

/**
 * An agent whose main sessions give structured answers. A sub-agent gives a structured reply only if its `spawn` has an
 * `output`.
 */
export interface StructuredAgentOptions<Output extends OutputSchema = OutputSchema> extends AgentOptions {
  /** The form of every answer, unless a message asks for another form. */
  readonly output: Output;
}

/**
 * The effect of a child's failed turn on the parent and its other children. The names are those of Erlang/OTP
 * supervisors.
 */
export interface SupervisionOptions {
  readonly strategy?: 'oneForOne' | 'oneForAll' | 'restForOne';
  /** Restarts allowed within `periodMs`. */
  readonly intensity?: number;
  readonly periodMs?: number;
  readonly onChildFailure?: 'report' | 'restart' | 'escalate' | 'ignore';
}

/** A checked agent. `Answer`: the type of the answers of its main sessions. */
export interface Agent<Answer = string, Name extends string = string> extends AgentOptions {
  readonly name: Name;
  readonly [CHECKED]: true;
  readonly output?: OutputSchema;
  /** Exists only as a type: no agent has this member at run time. */
  readonly [ANSWER]?: Answer;
}

const CHECKED: unique symbol = Symbol('troupe.agent');
declare const ANSWER: unique symbol;

const positive = z.number().int().positive();
const functions = z
  .array(z.custom<never>((value) => typeof value === 'function', 'must be a function'))
  .max(GUARDRAILS_MAX)
  .optional();
/** The schema of the options of `agent`. Each option is a key of the schema. */
export const agentSchema: z.ZodType<AgentOptions & { readonly output?: OutputSchema }> = z.strictObject({
  name: z.string().refine(isAgentName, 'must be letters, digits, dots, hyphens or underscores, at most 64'),
  version: z
    .string()
    .refine(isAgentVersion, 'must be letters, digits, dots, hyphens, underscores or plus signs, at most 64')
    .optional(),
  upgrade: z.custom<UpgradeFunction>((value) => typeof value === 'function', 'must be a function').optional(),
  model: z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(AGENT_MODELS_MAX)]).optional(),
  fallbackAfterMs: z.number().int().min(0).optional(),
  returnAfterMs: z.number().int().min(0).optional(),
  system: z
    .union([
      z.string(),
      z.custom<SystemFunction>((value) => typeof value === 'function', 'must be a string or a function'),
    ])
    .optional(),
  tools: z
    .array(
      z.custom<AnyTool | URL | ServerTool | McpTools>(
        (value) => typeof value === 'object' && value !== null,
        'must be a tool, a URL or mcpTools()',
      ),
    )
    .optional(),
  maxTokens: positive.optional(),
  toolRounds: positive.optional(),
  toolTimeoutMs: positive.max(TOOL_TIMEOUT_MS_MAX).optional(),
  toolResultChars: positive.optional(),
  toolConcurrency: positive.max(PARALLEL_CALLS_MAX).optional(),
  maxSteps: positive.nullable().optional(),
  approve: z
    .union([
      z.array(z.string().min(1)),
      z.custom<ApprovalPredicate>((value) => typeof value === 'function', 'must be tool names or a function'),
    ])
    .optional(),
  approvals: z
    .strictObject({ expiresMs: positive.nullable().optional(), onInput: z.enum(['wait', 'deny']).optional() })
    .optional(),
  guardrails: z.strictObject({ before: functions, after: functions }).optional(),
  subagents: z.strictObject({ spawn: z.boolean().optional(), maxActive: positive.optional() }).optional(),
  supervision: z
    .strictObject({
      strategy: z.enum(['oneForOne', 'oneForAll', 'restForOne']).optional(),
      intensity: z.number().int().min(0).optional(),
      periodMs: positive.optional(),
      onChildFailure: z.enum(['report', 'restart', 'escalate', 'ignore']).optional(),
    })
    .optional(),
  ...modelOptionsShape,
  tokenBudget: positive.optional(),
  description: z.string().optional(),
  compression: z
    .union([
      z.boolean(),
      z.strictObject({
        enabled: z.boolean().optional(),
        tokens: positive.optional(),
        messages: positive.optional(),
        keepRecent: positive.optional(),
        targetTokens: positive.optional(),
        idleMinTokens: z.number().int().min(0).optional(),
        idleMinMessages: z.number().int().min(0).optional(),
      }),
    ])
    .optional(),
  output: z.unknown().optional(),
}) as unknown as z.ZodType<AgentOptions & { readonly output?: OutputSchema }>;

/**
 * Creates an agent. Throws a `ConfigError` that names the key for unknown keys and bad values. `open` checks the tools,
 * and loads those given by URL.
 */
export function agent<Output extends OutputSchema, const Name extends string>(
  options: StructuredAgentOptions<Output> & { readonly name: Name },
): Agent<AnswerOf<Output>, Name>;
export function agent<const Name extends string>(options: AgentOptions & { readonly name: Name }): Agent<string, Name>;
export function agent(options: AgentOptions): Agent<unknown> {
  const name = typeof options === 'object' && options !== null && typeof options.name === 'string' ? options.name : '';
  const key = name === '' ? 'agent' : `agent ${name}`;
  const checked = parseOption(agentSchema, key, options);
  checkParallelCalls(key, checked);
  checkModels(key, checked);
  checkUpgrade(key, checked);
  if (checked.output !== undefined) checkOutput(key, checked);
  return { ...checked, [CHECKED]: true };
}

/** Refuses an `upgrade` function without a version, because sessions move only between versions. */
function checkUpgrade(agentKey: string, { version, upgrade }: AgentOptions): void {
  if (upgrade === undefined || version !== undefined) return;
  const key = `${agentKey}.upgrade`;
  const why = 'sessions move between versions, so the agent needs a "version"';
  throw new ConfigError(`option ${JSON.stringify(key)}: ${why}`, { data: { key } });
}

/** Refuses a model that is listed twice, and options for several models if only one is given. */
function checkModels(agentKey: string, { model, fallbackAfterMs, returnAfterMs }: AgentOptions): void {
  if (typeof model === 'object' && new Set(model).size < model.length) {
    const key = `${agentKey}.model`;
    throw new ConfigError(`option ${JSON.stringify(key)}: a model is listed twice; list each once`, { data: { key } });
  }
  if (typeof model === 'object' && model.length > 1) return;
  const given = Object.entries(defined({ fallbackAfterMs, returnAfterMs }));
  for (const [option, value] of given) {
    const key = `${agentKey}.${option}`;
    const remedy = 'this option is for several models; list them in "model", or leave this option out';
    throw new ConfigError(`option ${JSON.stringify(key)}: ${remedy}`, { data: { key, value } });
  }
}

/** Refuses options that would keep every turn of the agent from ending with its structured answer. */
function checkOutput(agentKey: string, checked: AgentOptions & { readonly output?: OutputSchema }): void {
  answerForm(checked.output, `${agentKey}.output`);
  const { toolChoice, request } = checked;
  if (toolChoice === 'any' || typeof toolChoice === 'object') {
    const key = `${agentKey}.toolChoice`;
    const why = 'a model that must call a tool cannot give its structured answer; leave toolChoice out';
    throw new ConfigError(`option ${JSON.stringify(key)}: ${why}`, { data: { key, value: toolChoice } });
  }
  const config = request?.['output_config'];
  if (isRecord(config) && config['format'] !== undefined) {
    const key = `${agentKey}.request.output_config.format`;
    throw new ConfigError(`option ${JSON.stringify(key)}: use the option "output" alone`, { data: { key } });
  }
}

/** True for a value made by `agent()`. */
export function isAgent(value: unknown): value is Agent<unknown> {
  return typeof value === 'object' && value !== null && CHECKED in value;
}

/**
 * The description of an agent that is sent to its shards. Throws `ConfigError` for a tool value with a bad name or
 * schema (R29 to R33).
 */
export function agentSource(definition: Agent<unknown>): AgentSource {
  const { fallbackAfterMs, returnAfterMs, version, upgrade } = definition;
  const { name, model, system, maxTokens, toolRounds, tokenBudget, thinking, subagents, supervision, description } =
    definition;
  const { toolTimeoutMs, toolResultChars, toolConcurrency } = definition;
  const { compression, maxSteps, approve, guardrails, effort, toolChoice, parallelToolCalls } = definition;
  const { stopSequences, serviceTier, speed, cacheTtl, betas, request, output, approvals, tools = [] } = definition;
  const asks = tools.flatMap((tool) => askPlanOf(tool) ?? []);
  return {
    plan: {
      name,
      hasSystemFunction: typeof system === 'function',
      subagents: {
        spawn: spawnGrant(definition),
        ...defined({ maxActive: subagents?.maxActive }),
      },
      ...defined({ version, model, fallbackAfterMs, returnAfterMs, supervision }),
      ...(upgrade === undefined ? {} : { upgrades: true as const }),
      ...(typeof system === 'string' ? { system } : {}),
      ...defined({ toolTimeoutMs, toolResultChars, toolConcurrency }),
      ...defined({ maxTokens, toolRounds, tokenBudget, thinking, description, compression }),
      ...defined({ effort, toolChoice, parallelToolCalls, stopSequences, serviceTier, speed }),
      ...defined({ cacheTtl, betas, request, approvals }),
      ...(asks.length === 0 ? {} : { asks }),
      ...(output === undefined ? {} : { output: answerForm(output, `agent ${name}.output`) }),
      ...(maxSteps === undefined || maxSteps === null ? {} : { maxSteps }),
      ...(approve === undefined ? {} : { approval: typeof approve === 'function' ? 'function' : approve }),
      ...(guardrails === undefined
        ? {}
        : {
            guards: {
              before: (guardrails.before?.length ?? 0) > 0,
              after: (guardrails.after?.length ?? 0) > 0,
            },
          }),
    },
    tools: tools.flatMap((tool) => (isRuntimeTool(tool) ? [] : [toolSource(name, tool)])),
  };
}

/** The spawn tools that the model gets: through the option `subagents`, or because `tools` lists them. */
function spawnGrant(definition: Agent<unknown>): SpawnGrant {
  const named = new Set((definition.tools ?? []).filter(isRuntimeTool).map((tool) => tool.name));
  const both = definition.subagents?.spawn === true;
  return { subagent: both || named.has('spawn_subagent'), specialist: both || named.has('spawn_specialist') };
}

function toolSource(agentName: string, tool: AnyTool | URL | ServerTool | McpTools): ToolSource {
  if (tool instanceof URL) return { kind: 'module', url: tool.href };
  if (isMcpTools(tool)) return { kind: 'mcp', grant: grantData(tool) };
  if (isServerTool(tool)) return { kind: 'server', entry: tool.entry };
  if (isNamedTool(tool)) return { kind: 'named', name: tool.name };
  try {
    const description = describeTool(tool);
    if (description.isolation !== undefined) throw isolatedValue(description.name);
    return { kind: 'value', description, ...defined({ origin: originOf(tool) }) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(`agent ${JSON.stringify(agentName)}: ${error.message}`, { cause: error, data: error.data });
  }
}

function isolatedValue(tool: string): ConfigError {
  const remedy = "export it from a module and give the agent the module's URL: new URL('./tools.js', import.meta.url)";
  return new ConfigError(
    `tool ${JSON.stringify(tool)}: isolation "process" is not possible for a value, whose functions belong to this thread; ${remedy}`,
    { data: { key: 'isolation', tool } },
  );
}

/** The tool values of an agent by name. */
export function toolValues(definition: Agent<unknown>): ReadonlyMap<string, AnyTool> {
  const values = new Map<string, AnyTool>();
  for (const tool of definition.tools ?? []) {
    if (tool instanceof URL || isServerTool(tool) || isMcpTools(tool)) continue;
    if (isRuntimeTool(tool) || isNamedTool(tool)) continue;
    values.set(tool.name, tool);
  }
  return values;
}

/** Throws `ConfigError` unless every agent was made by `agent()` and no two share a name and a version. */
export function checkAgents(agents: readonly unknown[]): readonly Agent<unknown>[] {
  const names = new Set<string>();
  return agents.map((each, index) => {
    if (!isAgent(each)) {
      throw new ConfigError(`option "agents.${index}" must be made by agent(); got ${describeValue(each)}`, {
        data: { key: `agents.${index}` },
      });
    }
    const { name, version } = each;
    const own = agentKey(name, version);
    if (names.has(own)) {
      const which = version === undefined ? '' : ` and have version ${JSON.stringify(version)}`;
      throw new ConfigError(`two agents are named ${JSON.stringify(name)}${which}`, {
        data: { key: `agents.${index}.${version === undefined ? 'name' : 'version'}` },
      });
    }
    names.add(own);
    return each;
  });
}

/** Throws `ConfigError` if an agent is granted tools of an MCP server that is not in `servers`. */
export function checkMcpServers(agents: readonly Agent<unknown>[], servers: readonly string[]): void {
  for (const { name, tools = [] } of agents) {
    const unknown = tools.filter(isMcpTools).find(({ server }) => !servers.includes(server));
    if (unknown === undefined) continue;
    const { server } = unknown;
    const known = servers.length === 0 ? 'none' : servers.join(', ');
    throw new ConfigError(
      `agent ${JSON.stringify(name)}: mcpTools(${JSON.stringify(server)}) names no server of the option "mcp", which has: ${known}`,
      { data: { key: 'tools', agent: name, server } },
    );
  }
}

/** A system prompt as a function. */
export type SystemFunction = (context: { readonly session: string }) => string | Promise<string>;
