/**
 * The numbers and names of the behaviour contract that an embedder may change: `open({ settings })`. They are grouped
 * by the first part of the contract's key. Keys are in camelCase, values in the contract's units (seconds for
 * `timeouts`, characters, bytes, tokens).
 */
import { z } from 'zod';
import { MODEL_ATTEMPTS_MAX, RETRY_AFTER_MS_MAX, SNAPSHOTS_KEPT_MAX } from './bounds.ts';
import { parseOption } from './parse-option.ts';
import { secretNamesSchema } from './secret-environment.ts';

/** All settings, with every default filled in. */
export interface Settings {
  readonly llm: {
    readonly model: string;
    readonly maxTokens: number;
    readonly tokenBudget: number;
    /** The model of children; missing: a child uses its agent's model. */
    readonly subagentModel?: string | undefined;
    readonly subagentTokenBudget: number;
    /** Tool rounds that one run of an enricher may take. */
    readonly maxToolRounds: number;
    /**
     * Whether a call without output fills the provider's cache before a fan-out: several calls with the same tools and
     * system prompt that are sent at once. The calls then wait for one more request, and read the cache instead of
     * each paying for writing it.
     */
    readonly warmCache: boolean;
    /** Attempts of a model call that fails for a transient reason, and the waits between them. */
    readonly retry: RetrySettings;
    /**
     * Whether the conversations of agents are sent over message threads. The vendor then keeps a conversation in memory
     * for some minutes, and a request has only the new messages. Accounts with zero data retention or under HIPAA must
     * not use this.
     */
    readonly threads: boolean;
  };
  /** Times in seconds. */
  readonly timeouts: { readonly api: number; readonly tool: number; readonly mcpResponse: number };
  readonly tools: {
    readonly maxToolResponseChars: number;
    readonly maxSubagentResponseChars: number;
    /**
     * Names of environment variables that are passed to the tool threads although their names look like secrets
     * (`'GITHUB_TOKEN'`).
     */
    readonly secretEnv: readonly string[];
  };
  readonly session: {
    readonly defaultViewMode: 'basic' | 'verbose' | 'debug';
    /** Whether a line with the UTC time precedes user text. */
    readonly timestamps: boolean;
  };
  /**
   * How Melete prepares a turn: the tokens of one answer; how many of the newest messages it reads; the seconds it may
   * take.
   */
  readonly melete: { readonly maxTokens: number; readonly messageWindow: number; readonly timeout: number };
  /**
   * How Mneme summarises: fractions of the token budget; the tokens of one answer of its model; the number of level 1
   * snapshots that are summed up in one snapshot of level 2.
   */
  readonly mneme: {
    readonly evictionFraction: number;
    readonly pinnedBudgetFraction: number;
    readonly maxTokens: number;
    readonly l1BudgetFraction: number;
    readonly l2BudgetFraction: number;
    readonly l2SnapshotThreshold: number;
  };
  /**
   * How messages are recalled: the results of one search; the weight that a year of age takes from a message; the
   * tokens of one recalled message.
   */
  readonly recall: { readonly maxResults: number; readonly recencyDecay: number; readonly maxSnippetTokens: number };
  /** Children of one session that work at once, spawned by its model or by a program. Later children are queued. */
  readonly subagents: { readonly maxActive: number };
  readonly recovery: {
    readonly resumeAwaiting: boolean;
    /** Whether a turn that failed for good is removed from the history when the next turn starts. */
    readonly rollbackFailed: boolean;
  };
  /** Calls that wait for a person's decision. */
  readonly approvals: {
    /** Waiting calls are denied after this time. `null`: they wait forever, since only a person may answer them. */
    readonly expiresMs: number | null;
    /**
     * The effect of a user's message that arrives before the decision. `wait`: the message waits for the decision.
     * `deny`: the message denies the waiting calls and is read next.
     */
    readonly onInput: 'wait' | 'deny';
  };
  /**
   * How calls without a result are treated. `onSeed`: whether they are removed when a history is seeded. `onInterrupt`:
   * whether they stay open or are answered with a placeholder when a run is interrupted.
   */
  readonly repair: { readonly onSeed: boolean; readonly onInterrupt: 'keep' | 'fill' };
  /** When old messages are replaced by a summary. An agent may override this (`agent({ compression })`). */
  readonly compression: CompressionSettings;
}

/** The attempts of a model call that fails for a transient reason, and the waits in between. Times in seconds. */
export interface RetrySettings {
  /** The number of attempts, the first included; 1: a failed call is not retried. */
  readonly attempts: number;
  /** The wait after the first attempt. */
  readonly base: number;
  /**
   * Each wait is this many times the previous one. Missing: the wait after attempt k is k⁴ times the base, as in the
   * contract.
   */
  readonly factor?: number | undefined;
  /** The longest wait, before up to 15 % random jitter is added. The provider's `retry-after` may ask for more. */
  readonly maximum: number;
}

/** The thresholds for compressing a conversation, and the number of messages that are kept unchanged. */
export interface CompressionSettings {
  readonly enabled: boolean;
  /** A conversation with this many tokens is compressed. */
  readonly tokens: number;
  /** A conversation with this many messages is compressed. */
  readonly messages: number;
  /** Newest messages that stay unchanged. Tool rounds stay whole, so more messages may stay. */
  readonly keepRecent: number;
  /**
   * Expected tokens of a compressed conversation. If this would save less than a tenth, the token threshold alone does
   * not cause a compression.
   */
  readonly targetTokens: number;
  /** A forced compression needs at least this many tokens. */
  readonly idleMinTokens: number;
  /** A forced compression needs more than this many messages. */
  readonly idleMinMessages: number;
}

const positive = z.number().int().positive();
const seconds = z.number().positive();
const fraction = z.number().gt(0).lt(1);

/** The schema of the option `settings`, with the defaults. */
export const settingsSchema: z.ZodType<Settings> = z.strictObject({
  llm: z
    .strictObject({
      model: z.string().min(1).default('claude-opus-5-5'),
      maxTokens: positive.default(8_192),
      tokenBudget: positive.default(120_000),
      subagentModel: z.string().min(1).optional(),
      subagentTokenBudget: positive.default(90_000),
      maxToolRounds: positive.default(500),
      warmCache: z.boolean().default(false),
      retry: z
        .strictObject({
          attempts: positive.max(MODEL_ATTEMPTS_MAX).default(5),
          base: seconds.default(1),
          factor: z.number().min(1).optional(),
          maximum: seconds.max(RETRY_AFTER_MS_MAX / 1_000).default(300),
        })
        .prefault({}),
      threads: z.boolean().default(false),
    })
    .prefault({}),
  timeouts: z
    .strictObject({ api: seconds.default(300), tool: seconds.default(180), mcpResponse: seconds.default(60) })
    .prefault({}),
  tools: z
    .strictObject({
      maxToolResponseChars: positive.default(6_000),
      maxSubagentResponseChars: positive.default(24_000),
      secretEnv: secretNamesSchema.default([]),
    })
    .prefault({}),
  session: z
    .strictObject({
      defaultViewMode: z.enum(['basic', 'verbose', 'debug']).default('basic'),
      timestamps: z.boolean().default(false),
    })
    .prefault({}),
  melete: z
    .strictObject({
      maxTokens: positive.default(4_096),
      messageWindow: positive.default(20),
      timeout: seconds.default(60),
    })
    .prefault({}),
  mneme: z
    .strictObject({
      evictionFraction: fraction.default(0.33),
      pinnedBudgetFraction: z.number().min(0).lt(1).default(0.05),
      maxTokens: positive.default(2_048),
      l1BudgetFraction: z.number().min(0).lt(1).default(0.15),
      l2BudgetFraction: z.number().min(0).lt(1).default(0.05),
      l2SnapshotThreshold: positive.min(2).max(SNAPSHOTS_KEPT_MAX).default(5),
    })
    .prefault({}),
  recall: z
    .strictObject({
      maxResults: positive.default(5),
      recencyDecay: z.number().min(0).default(0.3),
      maxSnippetTokens: positive.default(512),
    })
    .prefault({}),
  subagents: z.strictObject({ maxActive: positive.default(8) }).prefault({}),
  recovery: z
    .strictObject({ resumeAwaiting: z.boolean().default(true), rollbackFailed: z.boolean().default(false) })
    .prefault({}),
  approvals: z
    .strictObject({
      expiresMs: positive.nullable().default(null),
      onInput: z.enum(['wait', 'deny']).default('wait'),
    })
    .prefault({}),
  compression: z
    .strictObject({
      enabled: z.boolean().default(false),
      tokens: positive.default(150_000),
      messages: positive.default(200),
      keepRecent: positive.default(20),
      targetTokens: positive.default(10_000),
      idleMinTokens: z.number().int().min(0).default(20_000),
      idleMinMessages: z.number().int().min(0).default(21),
    })
    .prefault({}),
  repair: z
    .strictObject({ onSeed: z.boolean().default(true), onInterrupt: z.enum(['keep', 'fill']).default('keep') })
    .prefault({}),
});

/** The form that an embedder writes: any part of `Settings`. */
export type SettingsInput = {
  readonly [Part in keyof Settings]?: {
    readonly [Key in keyof Settings[Part]]?: PartOf<Settings[Part][Key]> | undefined;
  };
};

type PartOf<Value> = Value extends object ? { readonly [Key in keyof Value]?: Value[Key] | undefined } : Value;

/**
 * All settings with defaults filled in. Throws `ConfigError` naming the key. Runs on the host thread, once at `open`.
 */
export function parseSettings(input: unknown): Settings {
  return parseOption(settingsSchema, 'settings', input ?? {}, 'once');
}
