/** The provider port: one model call, in the shape of the Anthropic Messages API. */

import type { Json } from '../base/json.ts';
import type { ContentBlock, Usage } from '../base/messages.ts';
import type { Effort } from '../context/model-traits.ts';
import type { ModelList } from './model-list.ts';

/** One message of a request. */
export interface RequestMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly ContentBlock[];
}

/** One tool as the model sees it. */
export interface ToolSchema {
  readonly name: string;
  readonly description: string;
  readonly input_schema: Readonly<Record<string, Json>>;
  /** True if the model sees the tool only after a tool search has found it. */
  readonly defer_loading?: true;
}

/** A tool that the provider runs: its dated type, its name, its settings. */
export interface ServerToolSchema {
  readonly type: string;
  readonly name: string;
  readonly [field: string]: Json;
}

/** An entry of a request's tools. */
export type RequestTool = ToolSchema | ServerToolSchema;

/** The thinking option of the Messages API. */
export type Thinking =
  | { readonly type: 'enabled'; readonly budget_tokens: number }
  | { readonly type: 'adaptive'; readonly display?: 'summarized' | 'omitted' }
  | { readonly type: 'between_tools' }
  | { readonly type: 'disabled' };

/** The `tool_choice` of the Messages API. */
export type ToolChoiceField =
  | { readonly type: 'auto' | 'any'; readonly disable_parallel_tool_use?: true }
  | { readonly type: 'tool'; readonly name: string; readonly disable_parallel_tool_use?: true }
  | { readonly type: 'none' };

/** The `output_config` of the Messages API. Members other than `effort` come from an agent's option `request`. */
export interface OutputConfig {
  readonly effort?: Effort;
  readonly [member: string]: Json | undefined;
}

/**
 * How a request uses a message thread, a conversation that the API keeps for some minutes. `create`: the whole request
 * is sent, and the API keeps it. `continue`: the API has the conversation up to the answer `previousMessageId`, and
 * only the messages from the index `messagesFrom` are sent.
 */
export type ThreadStep =
  | { readonly kind: 'create' }
  | { readonly kind: 'continue'; readonly previousMessageId: string; readonly messagesFrom: number };

/** The facts of a call that are not fields of its body. A provider never sends `transport` itself. */
export interface RequestTransport {
  /** The provider of the call, by its name in the option `providers`. Missing: the first one. */
  readonly provider?: string;
  /**
   * True if the agent's options were written for another model of its list. Options that the provider cannot send are
   * then left out instead of refused.
   */
  readonly fits?: true;
  /** Values of the header `anthropic-beta`. */
  readonly betas?: readonly string[];
  /** `1h`: the cache marks last an hour. Missing: five minutes. */
  readonly cacheTtl?: '1h';
  /**
   * UTF-16 units at the beginning of `system` that all sessions of the agent share. This part of `system` is one block
   * with a cache mark. So sub-agents, whose tasks follow this block, read one cache entry. Missing: `system` is one
   * block.
   */
  readonly sharedSystem?: number;
  /** True: the provider may keep the conversation in a message thread (`settings.llm.threads`). */
  readonly threads?: true;
  /** The thread of this call. The request is still complete; `wireBody` leaves out the part that the API has. */
  readonly thread?: ThreadStep;
}

/**
 * The body of a model call, and its `transport`. The body has no cache marks and no `stream` yet. Within an epoch, the
 * part of the body that the vendor caches only grows. An agent's option `request` may add further fields of the body.
 */
export interface ModelRequest {
  readonly model: string;
  readonly max_tokens: number;
  readonly system?: string;
  /** The session's own tools, then those that the provider runs. */
  readonly tools?: readonly RequestTool[];
  readonly thinking?: Thinking;
  /** The id of the container in which the provider runs the session's code. */
  readonly container?: string;
  readonly tool_choice?: ToolChoiceField;
  readonly output_config?: OutputConfig;
  readonly stop_sequences?: readonly string[];
  readonly service_tier?: 'auto' | 'standard_only';
  readonly speed?: 'fast';
  readonly messages: readonly RequestMessage[];
  readonly transport?: RequestTransport;
}

/** A request without its messages: the parts that options decide. */
export type RequestShape = Omit<ModelRequest, 'messages'>;

/** An option that a provider cannot send. */
export interface RequestRefusal {
  /** The option of the agent, or the setting. */
  readonly key: string;
  readonly value: unknown;
  /** A value or an option to use instead. */
  readonly remedy: string;
}

/** The stop reasons that an embedder's own provider may give. */
export const KNOWN_STOP_REASONS = [
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
] as const;

/** Why a model stopped. The Messages API may add reasons; every other provider gives one of `KNOWN_STOP_REASONS`. */
export type StopReason = (typeof KNOWN_STOP_REASONS)[number] | (string & {});

/** One rate limit, as the provider counted it when the provider took the call. */
export interface RateLimit {
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds until the full limit is available again. */
  readonly resetMs?: number;
}

/** The provider's rate limits for the model of a call. */
export interface RateLimits {
  readonly requests?: RateLimit;
  /** The most restrictive limit of tokens at the moment. */
  readonly tokens?: RateLimit;
  readonly inputTokens?: RateLimit;
  readonly outputTokens?: RateLimit;
}

/** How the answered request of a call was sent. For metrics and events; not part of the conversation. */
export interface SentRequest {
  /** UTF-8 bytes of the request's body. Missing: not known. */
  readonly bytes?: number;
  /**
   * The message thread. `created`: the whole request was sent, and began a thread. `continued`: only the new messages
   * were sent. `replayed`: the API refused to continue, so the whole request was sent. `refused`: the API keeps no
   * thread for this session, so the whole request was sent without one. Missing: the session has no threads.
   */
  readonly thread?: (typeof THREAD_OUTCOMES)[number];
  /** The API's code for the refusal, with `replayed` and `refused`. */
  readonly code?: string;
}

/** The values of `SentRequest.thread`. */
export const THREAD_OUTCOMES = ['created', 'continued', 'replayed', 'refused'] as const;

/** The answer of a model. */
export interface ModelResponse {
  readonly content: readonly ContentBlock[];
  readonly stop_reason: StopReason | null;
  readonly usage: Usage;
  readonly model?: string;
  readonly id?: string;
  /** The stop sequence that ended the answer. */
  readonly stop_sequence?: Json;
  /** Why the answer was refused, as the API describes it. */
  readonly stop_details?: Json;
  /** The container of the provider's code execution; the next request names its `id`. */
  readonly container?: Json;
  /** Edits the API made to the context. */
  readonly context_management?: Json;
  /** Parts of the request that the API changed or dropped, such as thoughts. */
  readonly input_transformations?: Json;
  /** The provider's rate limits, for the governor; not part of the conversation. */
  readonly rateLimits?: RateLimits;
  /** How the request was sent; not part of the conversation. */
  readonly sent?: SentRequest;
}

/** A piece of a streamed answer; ephemeral. */
export interface ModelDelta {
  readonly type: 'text' | 'thinking';
  readonly text: string;
}

/** The arguments of a call besides its request. */
export interface GenerateContext {
  /** Aborted on interrupt and close, and when the call exceeds `settings.timeouts.api` (300 s by default). */
  readonly signal: AbortSignal;
  /**
   * Publishes a piece of the answer, as `text.delta` or `thinking.delta`. May be called any number of times before the
   * promise settles; never throws. A value of another form, such as a text that is `undefined`, ends the call: `signal`
   * aborts, and the turn fails with `model_protocol`. After the end of the call, `onDelta` does nothing.
   */
  readonly onDelta: (delta: ModelDelta) => void;
  /**
   * Reports the tokens that the vendor has counted for this answer so far; a later report replaces an earlier one. If
   * the call ends without an answer, these tokens count for the session. Missing if the caller does not need them.
   */
  readonly onUsage?: (usage: Usage) => void;
  /** The session's id, for logs and for scripted providers. */
  readonly session: string;
}

/**
 * A model. `generate` takes a request in the shape of the Messages API and resolves to an answer in that shape.
 * `generate` must not retry: the runtime's retries run on the runtime's clock and are shown to the user. `generate` is
 * called on a model thread, or on the host thread for a provider given by value.
 *
 * `generate` rejects with:
 * - `ModelError`: its `retryable` decides whether the half-step waits and tries again;
 * - `ModelAuthenticationError`: every session of the provider then waits for `resume()`;
 * - `ModelInvalidRequestError`, if the same request would fail again;
 * - any other error, which counts as not retryable.
 */
export interface ModelProvider {
  readonly name: string;
  generate(request: ModelRequest, context: GenerateContext): Promise<ModelResponse>;
  /**
   * The first option of a request that this provider cannot send. If the provider is a value, `open` calls this
   * function for every agent. If the provider comes from a module, every model call first calls this function, and a
   * refused call fails with `model_invalid_request`. Missing: the provider sends the Messages API's fields.
   */
  readonly refuses?: (request: RequestShape) => RequestRefusal | undefined;
  /** The models that the vendor offers. Missing: only the dated table of this library (`model-traits.ts`) is used. */
  readonly models?: ModelList;
}

/** A provider as plain data: it crosses to a model thread and is built there. `scripted` and `anthropic` make one. */
export type ProviderData =
  | { readonly kind: 'anthropic'; readonly options: AnthropicData }
  | {
      readonly kind: 'scripted';
      /** A script without functions; checked when the provider is built. */
      readonly script: unknown;
      /** False: requests are not checked against the rules of the Messages API. */
      readonly strict?: boolean;
      /** Milliseconds between the words of an answer. */
      readonly pieceMs?: number;
    }
  | {
      readonly kind: 'module';
      /** The `href` of a module whose default export is a `ModelProvider` or `ProviderData`. */
      readonly url: string;
    };

/** Options of `anthropic()` that are plain data. */
export interface AnthropicData {
  /** The API key. Default: `ANTHROPIC_API_KEY`, read when a call is made. */
  readonly apiKey?: string;
  /** A bearer token, sent in place of a key. Default: `ANTHROPIC_AUTH_TOKEN`, if there is no key either. */
  readonly authToken?: string;
  /** The address of the API. Default: `ANTHROPIC_BASE_URL`, otherwise the public API. */
  readonly baseURL?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The milliseconds that a call may take in total. */
  readonly timeoutMs?: number;
  /** Milliseconds until the answer begins. */
  readonly firstByteTimeoutMs?: number;
  /** Milliseconds of silence inside an answer; a ping ends a silence. */
  readonly idleTimeoutMs?: number;
  /**
   * False: `GET /v1/models` is never requested, and only this library's dated table of models says what a model
   * accepts. Default true.
   */
  readonly listModels?: boolean;
}
