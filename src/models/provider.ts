/** The provider port: one model call, in the shape of the Anthropic Messages API. */

import type { Json } from '../base/json.ts';
import type { ContentBlock, Usage } from '../base/messages.ts';

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
}

/** The thinking option of the Messages API. */
export type Thinking =
  | { readonly type: 'enabled'; readonly budget_tokens: number }
  | { readonly type: 'adaptive' }
  | { readonly type: 'disabled' };

/** The body of a model call, without cache marks and transport fields (`stream`). Byte-stable within an epoch (A8). */
export interface ModelRequest {
  readonly model: string;
  readonly max_tokens: number;
  readonly system?: string;
  readonly tools?: readonly ToolSchema[];
  readonly thinking?: Thinking;
  readonly messages: readonly RequestMessage[];
}

/** Why a model stopped. Open: a newer API may add reasons. */
export type StopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_use'
  | 'pause_turn'
  | 'refusal'
  | 'model_context_window_exceeded'
  | (string & {});

/** The answer of a model. */
export interface ModelResponse {
  readonly content: readonly ContentBlock[];
  readonly stop_reason: StopReason | null;
  readonly usage: Usage;
  readonly model?: string;
  readonly id?: string;
}

/** A piece of a streamed answer; ephemeral. */
export interface ModelDelta {
  readonly type: 'text' | 'thinking';
  readonly text: string;
}

/** The arguments of a call besides its request. */
export interface GenerateContext {
  /** Aborted on interrupt and close. */
  readonly signal: AbortSignal;
  /** May be called any number of times before the promise settles; never throws. */
  readonly onDelta: (delta: ModelDelta) => void;
  /** The session's id, for logs and for scripted providers. */
  readonly session: string;
}

/**
 * A model. `generate` rejects with `ModelError`, whose `retryable` decides whether the half-step waits and tries again.
 * Any other error counts as not retryable. It must not retry: the runtime's retries run on the runtime's clock and are
 * shown to the user. Called on a model thread, or on the host thread for a provider given by value.
 */
export interface ModelProvider {
  readonly name: string;
  generate(request: ModelRequest, context: GenerateContext): Promise<ModelResponse>;
}

/** A provider as plain data: it crosses to a model thread and is built there by `src/models/resolve.ts`. */
export type ProviderData =
  | { readonly kind: 'anthropic'; readonly options: AnthropicData }
  | {
      readonly kind: 'scripted';
      /** A `PlainScript` of `src/models/script/script.ts`; checked when the provider is built. */
      readonly script: unknown;
      /** False: requests are not checked against the rules of the Messages API. */
      readonly strict?: boolean;
    }
  | {
      readonly kind: 'module';
      /** The `href` of a module whose default export is a `ModelProvider` or `ProviderData`. */
      readonly url: string;
    };

/** Options of `anthropic()` that are plain data. */
export interface AnthropicData {
  /** If missing: `ANTHROPIC_API_KEY`, read when a call is made. */
  readonly apiKey?: string;
  /** Sent as a bearer token in place of a key. If missing: `ANTHROPIC_AUTH_TOKEN`, if there is no key either. */
  readonly authToken?: string;
  /** If missing: `ANTHROPIC_BASE_URL`, otherwise the public API. */
  readonly baseURL?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The milliseconds that a call may take in total. */
  readonly timeoutMs?: number;
  /** Milliseconds until the answer begins. */
  readonly firstByteTimeoutMs?: number;
  /** Milliseconds of silence inside an answer; a ping ends a silence. */
  readonly idleTimeoutMs?: number;
}
