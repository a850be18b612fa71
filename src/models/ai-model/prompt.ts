/**
 * `promptOf` translates a request in the shape of the Messages API into the options of a call of the AI SDK. The same
 * request gives the same options, and the prompt of a longer history begins with the prompt of the shorter one (A8).
 * `losses.ts` lists everything that is lost. Pure.
 *
 * Why the prompt is legal for every wire (the interface of a vendor):
 * - Every result follows its call in the next message (R01 to R04 hold for the request).
 * - Neighbours of one role are joined: Gemini refuses a call that follows the model's own message.
 * - A thought is sent only to the model that wrote it, and only if another part follows. The Responses API refuses a
 *   reasoning item "without its required following item".
 * - The last message is never the model's.
 */
import { isFrom, originOf } from '../../base/block-origin.ts';
import { isRecord, type Json } from '../../base/json.ts';
import type { ContentBlock, ToolResultBlock } from '../../base/messages.ts';
import { RESUMING_TEXT } from '../../context/request-draft.ts';
import type { ModelRequest, RequestMessage, RequestTool, ToolChoiceField, ToolSchema } from '../provider.ts';
import { CallIds } from './call-ids.ts';
import { type MediaReader, mediaPart, resultPart } from './media.ts';
import { reasoningLevel } from './options.ts';
import type {
  AssistantPart,
  CallOptions,
  FunctionTool,
  PartOptions,
  PromptMessage,
  ToolChoicePart,
  ToolResultPart,
  UserPart,
  VerbatimPart,
} from './specification.ts';

/** The model that gets a prompt. */
export interface PromptReader extends MediaReader {
  /** The language model's own name of its provider and interface, which decides the form of ids. */
  readonly wire: string;
  /** The name of the provider, as `BlockOrigin` has it. */
  readonly provider: string;
  readonly model: string;
  /** True if a result can hold images and files: chat completions take texts only. */
  readonly mediaInResults: boolean;
  readonly providerOptions?: PartOptions;
}

/** The name of the schema of an answer. Some wires require one. */
const ANSWER_NAME = 'answer';
/** The text before the images and files of a failed call. */
export const FAILED_TEXT = '[The call failed.]';
/** The text of a result that has only images or files, for wires (interfaces) whose results are texts. */
export const MEDIA_FOLLOWS_TEXT = '[The result is in the next message.]';

/** The options of a call, without its signal. The request was checked by `refusedRequest`. */
export function promptOf(request: ModelRequest, reader: PromptReader): CallOptions {
  const { system, tools = [], tool_choice: choice, stop_sequences: stops, output_config: config } = request;
  const { providerOptions, version } = reader;
  const format = formatOf(config?.['format']);
  const reasoning = version === 'v4' ? reasoningLevel(request) : undefined;
  const own = tools.filter(isOwnTool);
  // A choice of a tool that only Anthropic runs has no meaning here.
  const hasChoice = choice !== undefined && (choice.type !== 'tool' || own.some(({ name }) => name === choice.name));
  return {
    prompt: [
      ...(system === undefined || system.trim() === '' ? [] : [{ role: 'system', content: system } as const]),
      ...messagesOf(request.messages, reader),
    ],
    maxOutputTokens: request.max_tokens,
    ...(stops === undefined ? {} : { stopSequences: stops }),
    ...(format === undefined ? {} : { responseFormat: format }),
    ...(own.length === 0 ? {} : { tools: own.map(toolOf) }),
    ...(hasChoice && own.length > 0 ? { toolChoice: choiceOf(choice) } : {}),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
  };
}

function isOwnTool(tool: RequestTool): tool is ToolSchema {
  return 'input_schema' in tool;
}

function toolOf({ name, description, input_schema: inputSchema }: ToolSchema): FunctionTool {
  return { type: 'function', name, description, inputSchema };
}

function choiceOf(choice: ToolChoiceField): ToolChoicePart {
  if (choice.type === 'tool') return { type: 'tool', toolName: choice.name };
  return { type: choice.type === 'any' ? 'required' : choice.type };
}

function formatOf(format: Json | undefined): CallOptions['responseFormat'] {
  if (format === undefined || format === null || typeof format !== 'object') return undefined;
  const { schema } = format as { readonly schema?: Readonly<Record<string, Json>> };
  return { type: 'json', name: ANSWER_NAME, ...(schema === undefined ? {} : { schema }) };
}

/** The messages of a prompt without its system prompt. */
export function messagesOf(messages: readonly RequestMessage[], reader: PromptReader): readonly PromptMessage[] {
  const draft = new PromptDraft(reader);
  for (const message of messages) draft.add(message);
  return draft.finish();
}

class PromptDraft {
  readonly #reader: PromptReader;
  readonly #ids: CallIds;
  /** The names of the calls, by the ids of the log. */
  readonly #names = new Map<string, string>();
  readonly #messages: PromptMessage[] = [];

  constructor(reader: PromptReader) {
    this.#reader = reader;
    this.#ids = new CallIds(reader);
  }

  add({ role, content }: RequestMessage): void {
    const blocks: readonly ContentBlock[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    if (role === 'assistant') {
      this.#put('assistant', withoutLastThoughts(blocks.flatMap((block) => this.#assistantPart(block))));
      return;
    }
    const results: ToolResultPart[] = [];
    const parts: UserPart[] = [];
    for (const block of blocks) {
      if (block.type === 'tool_result') results.push(this.#result(block, parts));
      else parts.push(...this.#userPart(block));
    }
    if (results.length > 0) this.#messages.push({ role: 'tool', content: results });
    this.#put('user', parts);
  }

  finish(): readonly PromptMessage[] {
    if (this.#messages.at(-1)?.role === 'assistant') this.#put('user', [{ type: 'text', text: RESUMING_TEXT }]);
    return this.#messages;
  }

  #put(role: 'user' | 'assistant', content: readonly (UserPart | AssistantPart)[]): void {
    if (content.length === 0) return;
    const last = this.#messages.at(-1);
    const isJoined = last?.role === role;
    const all = isJoined ? [...last.content, ...content] : content;
    if (isJoined) this.#messages.pop();
    // Each caller passes only parts that fit the role.
    this.#messages.push({ role, content: all } as PromptMessage);
  }

  #userPart(block: ContentBlock): readonly UserPart[] {
    const part = mediaPart(block, this.#reader);
    return part === undefined ? [] : [part];
  }

  #assistantPart(block: ContentBlock): readonly AssistantPart[] {
    const isOwn = isFrom(block, this.#reader);
    const origin = isOwn ? originOf(block) : undefined;
    const options = origin?.metadata === undefined ? {} : { providerOptions: origin.metadata as PartOptions };
    switch (block.type) {
      case 'text':
        return block.text.trim() === '' ? [] : [{ type: 'text', text: block.text, ...options }];
      case 'thinking':
        return isOwn ? [{ type: 'reasoning', text: block.thinking, ...options }] : [];
      case 'provider_part':
        return isOwn ? [{ ...revived(block.part), ...options }] : [];
      case 'tool_use': {
        this.#names.set(block.id, block.name);
        const toolCallId = this.#ids.ofCall(block.id, origin?.id);
        return [{ type: 'tool-call', toolCallId, toolName: block.name, input: block.input, ...options }];
      }
      default:
        return [];
    }
  }

  /** A result. `after`: collects the images and files that a result of this wire cannot hold. */
  #result(block: ToolResultBlock, after: UserPart[]): ToolResultPart {
    const toolCallId = this.#ids.ofResult(block.tool_use_id);
    const toolName = this.#names.get(block.tool_use_id) ?? '';
    const { content = '', is_error: isError = false } = block;
    const type = isError ? 'error-text' : 'text';
    if (typeof content === 'string') {
      return { type: 'tool-result', toolCallId, toolName, output: { type, value: content } };
    }
    const parts = content.flatMap((each) => this.#userPart(each));
    const files = parts.filter((part) => part.type === 'file');
    if (files.length === 0 || !this.#reader.mediaInResults) {
      after.push(...files);
      const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
      const value = texts.length === 0 && files.length > 0 ? MEDIA_FOLLOWS_TEXT : texts.join('\n');
      return { type: 'tool-result', toolCallId, toolName, output: { type, value } };
    }
    const value = [...(isError ? [{ type: 'text', text: FAILED_TEXT } as const] : []), ...parts].map(resultPart);
    return { type: 'tool-result', toolCallId, toolName, output: { type: 'content', value } };
  }
}

/** The part with its address as a `URL` object, which version 4 requires. */
function revived(part: VerbatimPart): Readonly<Record<string, unknown>> {
  const { data } = part;
  if (!isRecord(data) || data['type'] !== 'url') return part;
  const { url } = data;
  return typeof url === 'string' && URL.canParse(url) ? { ...part, data: { ...data, url: new URL(url) } } : part;
}

/** Thoughts with nothing after them are left out. */
function withoutLastThoughts(parts: readonly AssistantPart[]): readonly AssistantPart[] {
  return parts.slice(0, parts.findLastIndex(({ type }) => type !== 'reasoning') + 1);
}
