/**
 * Translates a call of the AI SDK to the body of a request to OpenAI's Responses API. The AI SDK's own package makes
 * the same body when `store` is false. The strict fake of that API checks the body. Pure.
 */
import { isRecord } from '../../../base/json.ts';
import type {
  AssistantPart,
  CallOptions,
  FilePart,
  PromptMessage,
  ResultPart,
  ToolResultPart,
  UserPart,
} from '../../../models/ai-model/specification.ts';

/** The member of a part's metadata that this vendor wrote. */
export const VENDOR = 'openai';

type Item = Readonly<Record<string, unknown>>;

/** The body of the request. */
export function responsesBody(model: string, options: CallOptions): Item {
  const { prompt, maxOutputTokens, tools, toolChoice, responseFormat: format } = options;
  return {
    model,
    input: prompt.flatMap(itemsOf),
    max_output_tokens: maxOutputTokens,
    store: false,
    include: ['reasoning.encrypted_content'],
    ...(tools === undefined
      ? {}
      : {
          tools: tools.map(({ name, description, inputSchema }) => {
            return { type: 'function', name, description, parameters: inputSchema, strict: false };
          }),
        }),
    ...(toolChoice === undefined
      ? {}
      : {
          tool_choice: toolChoice.type === 'tool' ? { type: 'function', name: toolChoice.toolName } : toolChoice.type,
        }),
    ...(format?.schema === undefined
      ? {}
      : { text: { format: { type: 'json_schema', name: format.name, schema: format.schema, strict: false } } }),
  };
}

/** The metadata of a part that this vendor wrote. */
export function metadataOf(part: { readonly providerOptions?: unknown }): Item {
  const options = part.providerOptions;
  const own = isRecord(options) ? options[VENDOR] : undefined;
  return isRecord(own) ? own : {};
}

function itemsOf(message: PromptMessage): readonly Item[] {
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: message.content }];
    case 'user':
      return [{ role: 'user', content: message.content.map(contentOf) }];
    case 'tool':
      return message.content.map(outputOf);
    default:
      return answerItems(message.content);
  }
}

/** A text keeps its id only if a thought precedes it in the same message, as in the AI SDK. */
function answerItems(parts: readonly AssistantPart[]): readonly Item[] {
  const items: Item[] = [];
  let hasThought = false;
  for (const part of parts) {
    const { itemId: id, reasoningEncryptedContent: encrypted } = metadataOf(part);
    if (isPart(part, 'reasoning')) {
      hasThought = true;
      const summary = part['text'] === '' ? [] : [{ type: 'summary_text', text: part['text'] }];
      items.push({ type: 'reasoning', id, encrypted_content: encrypted, summary });
    } else if (isPart(part, 'text')) {
      const content = [{ type: 'output_text', text: part['text'] }];
      items.push({ role: 'assistant', content, ...(hasThought && id !== undefined ? { id } : {}) });
    } else if (isPart(part, 'tool-call')) {
      const { toolCallId, toolName, input } = part;
      const text = typeof input === 'string' ? input : JSON.stringify(input);
      items.push({ type: 'function_call', call_id: toolCallId, name: toolName, arguments: text });
    } else {
      items.push({ type: String(part['type']) });
    }
  }
  return items;
}

function isPart(part: AssistantPart, type: string): part is AssistantPart & Readonly<Record<string, unknown>> {
  return part['type'] === type;
}

function contentOf(part: UserPart): Item {
  return part.type === 'text' ? { type: 'input_text', text: part.text } : fileOf(part);
}

function fileOf({ data, mediaType }: Pick<FilePart, 'data' | 'mediaType'>): Item {
  const url = typeof data === 'string' ? `data:${mediaType};base64,${data}` : addressOf(data, mediaType);
  return mediaType.startsWith('image/')
    ? { type: 'input_image', image_url: url }
    : { type: 'input_file', file_data: url };
}

function addressOf(data: Exclude<FilePart['data'], string>, mediaType: string): string {
  if (data instanceof URL) return data.href;
  return data.type === 'url' ? data.url.href : `data:${mediaType};base64,${data.data}`;
}

function outputOf({ toolCallId, output }: ToolResultPart): Item {
  const value = output.type === 'content' ? output.value.map(resultOf) : output.value;
  return { type: 'function_call_output', call_id: toolCallId, output: value };
}

function resultOf(part: ResultPart): Item {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'file':
    case 'image-data':
    case 'file-data':
      return fileOf(part);
    default:
      return { type: 'input_image', image_url: part.url };
  }
}
