/** An agent as plain data: its options, and the tools that were found for it. */
import type { CompressionSettings, Settings } from '../src/base/settings.ts';
import type { ModelOptions } from '../src/models/model-options.ts';
import type { AnswerForm } from '../src/session/state/answer-form.ts';
import type { AgentFacts } from '../src/session/state/inputs.ts';
import type { AskPlan } from '../src/tools/built-in/ask-tools.ts';
import type { McpGrantData } from '../src/tools/mcp/grants.ts';
import type { ServerToolEntry } from '../src/tools/server-tool-entry.ts';
import type { RegisteredTool } from '../src/tools/tool-registry.ts';
import type { SpawnGrant } from './runtime-tools.ts';
import type { SupervisorOptionsInput } from './supervision/supervisor-options.ts';

/** An agent's options as plain data, because they are sent to the session threads. */
export interface AgentPlan extends ModelOptions {
  readonly name: string;
  /** The version of this definition; missing: the definition has no version. */
  readonly version?: string;
  /** True if the agent has an `upgrade` function on the host thread. */
  readonly upgrades?: true;
  readonly model?: string | readonly string[];
  readonly fallbackAfterMs?: number;
  readonly returnAfterMs?: number;
  readonly system?: string;
  /** True if the agent's `system` is a function on the host thread. */
  readonly hasSystemFunction: boolean;
  readonly maxTokens?: number;
  readonly toolRounds?: number;
  readonly toolTimeoutMs?: number;
  readonly toolResultChars?: number;
  readonly toolConcurrency?: number;
  readonly tokenBudget?: number;
  readonly subagents: { readonly spawn: SpawnGrant; readonly maxActive?: number };
  /** How a failure of one of its sub-agents is handled. Missing: the failure is reported. */
  readonly supervision?: SupervisorOptionsInput;
  /** Most model answers of a run after a user's message. Then the run is suspended. */
  readonly maxSteps?: number;
  /** Tools whose calls need a person's approval. `function`: a predicate on the host thread selects the calls. */
  readonly approval?: readonly string[] | 'function';
  /** How long calls wait for a person, and the effect of input meanwhile. Missing members: the settings decide. */
  readonly approvals?: Partial<Settings['approvals']>;
  /** The agent's tools whose calls are questions; missing: none. */
  readonly asks?: readonly AskPlan[];
  /** Whether the agent has guardrails on the host thread, before and after its model calls. */
  readonly guards?: { readonly before: boolean; readonly after: boolean };
  /** The agent's purpose, shown to agents that may spawn it as a specialist. */
  readonly description?: string;
  /** Decides whether and when the agent's conversations are compressed. Missing: the settings decide. */
  readonly compression?: boolean | Partial<CompressionSettings>;
  /** The form of the answers of the agent's main sessions. */
  readonly output?: AnswerForm;
}

/** An agent with the tools that were found for it. */
export interface AgentDefinition {
  readonly plan: AgentPlan;
  readonly tools: readonly RegisteredTool[];
  /** The tools that the provider runs; missing: none. */
  readonly serverTools?: readonly ServerToolEntry[];
  /** The tools of MCP servers that the agent may use; missing: none. */
  readonly mcp?: readonly McpGrantData[];
}

/** The agent facts for step limits, approvals and guardrails. Empty for an agent that has none of them. */
export function runLoopFacts({ maxSteps, approval, guards }: AgentPlan): Partial<AgentFacts> {
  return {
    ...(maxSteps === undefined && approval === undefined ? {} : { holdsCalls: true }),
    ...(maxSteps === undefined ? {} : { maxSteps }),
    ...(approval === undefined ? {} : { approval: approval === 'function' ? approval : new Set(approval) }),
    ...(guards === undefined ? {} : { guards }),
  };
}
