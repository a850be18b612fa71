/**
 * The part of the AI SDK's language model specification (`LanguageModelV3`, `LanguageModelV4`) that is used here. These
 * are our own types: no package of the AI SDK is needed or loaded. Source: the package `@ai-sdk/provider`, versions 3
 * and 4. Types only.
 */
import type { Json } from '../../base/json.ts';

/** Options or metadata of a part, by provider. */
export type PartOptions = Readonly<Record<string, Json>>;

interface Part {
  readonly providerOptions?: PartOptions;
}

/** The data of a file. In version 3 the data is plain; in version 4 an object names the kind of the data. */
export type FileData =
  | string
  | URL
  | { readonly type: 'data'; readonly data: string }
  | { readonly type: 'url'; readonly url: URL };

/** A text of a prompt. */
export interface TextPart extends Part {
  readonly type: 'text';
  readonly text: string;
}

/** A file of a prompt: base64 or an address. */
export interface FilePart extends Part {
  readonly type: 'file';
  readonly data: FileData;
  readonly mediaType: string;
  readonly filename?: string;
}

/** A thought of a prompt. */
export interface ReasoningPart extends Part {
  readonly type: 'reasoning';
  readonly text: string;
}

/** A call of a prompt. */
export interface ToolCallPart extends Part {
  readonly type: 'tool-call';
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
}

/** A part of a result: a text, or a file in the form of version 3 or of version 4. */
export type ResultPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image-data'; readonly data: string; readonly mediaType: string }
  | { readonly type: 'image-url'; readonly url: string }
  | { readonly type: 'file-data'; readonly data: string; readonly mediaType: string; readonly filename?: string }
  | { readonly type: 'file-url'; readonly url: string; readonly mediaType?: string }
  | FilePart;

/** The result of a call in a prompt. */
export interface ToolResultPart {
  readonly type: 'tool-result';
  readonly toolCallId: string;
  readonly toolName: string;
  readonly output:
    | { readonly type: 'text' | 'error-text'; readonly value: string }
    | { readonly type: 'content'; readonly value: readonly ResultPart[] };
}

/** A part that this library does not read, as the provider gave it. */
export type VerbatimPart = Readonly<Record<string, Json>>;

/** A part of a user's message. */
export type UserPart = TextPart | FilePart;

/** A part of a model's message. */
export type AssistantPart = TextPart | ReasoningPart | ToolCallPart | Readonly<Record<string, unknown>>;

/** One message of a prompt. */
export type PromptMessage =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user'; readonly content: readonly UserPart[] }
  | { readonly role: 'assistant'; readonly content: readonly AssistantPart[] }
  | { readonly role: 'tool'; readonly content: readonly ToolResultPart[] };

/** A tool of a call. */
export interface FunctionTool {
  readonly type: 'function';
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, Json>>;
}

/** The tools that the model may or must call. */
export type ToolChoicePart =
  | { readonly type: 'auto' | 'none' | 'required' }
  | { readonly type: 'tool'; readonly toolName: string };

/** How much a model of version 4 thinks. */
export type ReasoningLevel = 'none' | 'low' | 'medium' | 'high' | 'xhigh';

/** The options of a call, without its signal. */
export interface CallOptions {
  readonly prompt: readonly PromptMessage[];
  readonly maxOutputTokens: number;
  readonly stopSequences?: readonly string[];
  readonly responseFormat?: {
    readonly type: 'json';
    readonly schema?: Readonly<Record<string, Json>>;
    readonly name?: string;
  };
  readonly tools?: readonly FunctionTool[];
  readonly toolChoice?: ToolChoicePart;
  readonly reasoning?: ReasoningLevel;
  readonly providerOptions?: PartOptions;
}

/** The addresses that a model can read itself, by media type. */
export type SupportedUrls = Readonly<Record<string, readonly RegExp[]>>;

/** The result of `doStream`: the parts of the answer, and the headers of the response. */
export interface StreamResult {
  readonly stream: ReadableStream<unknown>;
  readonly response?: { readonly headers?: Readonly<Record<string, string | undefined>> | undefined } | undefined;
}

/** A language model of the AI SDK: every `LanguageModelV3` and `LanguageModelV4` is one. */
export interface LanguageModel {
  readonly specificationVersion: 'v3' | 'v4';
  /** The provider and its interface, such as `openai.responses`. */
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: SupportedUrls | PromiseLike<SupportedUrls>;
  /** `never`: each version has its own type of options, and `CallOptions` is built to fit the model's version. */
  doStream(options: never): PromiseLike<StreamResult>;
}
