/** The bytes of an answer as the Messages API sends them: one JSON message, or the events of a stream. Pure. */
import { defined } from '../base/defined.ts';
import { isRecord } from '../base/json.ts';
import type { ContentBlock, Usage } from '../base/messages.ts';
import type { ModelResponse } from '../models/provider.ts';

/** Characters of one delta of text, thinking or input. */
const DELTA_CHARACTERS = 32;
/**
 * Bounds of the cache of events: the number of texts, and the characters of one text. Benchmarks repeat their answers.
 */
const READY_TEXTS_MAX = 1_000;
const READY_TEXT_CHARACTERS_MAX = 16_384;

/** One event of a stream as text, including the blank line. */
export function eventText(data: Readonly<Record<string, unknown>> & { readonly type: string }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** An answer as one JSON text. */
export function messageText(response: ModelResponse): string {
  return JSON.stringify({
    ...messageHead(response),
    content: response.content,
    stop_reason: response.stop_reason,
    ...ending(response),
    ...edited(response),
    ...transformed(response),
    usage: response.usage,
  });
}

/** An answer as the texts of its events, in order. */
export function streamTexts(response: ModelResponse): readonly string[] {
  const texts = [startText(response)];
  response.content.forEach((block, index) => {
    texts.push(...blockTexts(block, index));
  });
  texts.push(
    eventText({
      type: 'message_delta',
      delta: { stop_reason: response.stop_reason, ...ending(response) },
      ...edited(response),
      usage: endUsage(response.usage),
    }),
    eventText({ type: 'message_stop' }),
  );
  return texts;
}

/** The first event. Its usage has one output token, and the last event corrects that number. */
function startText(response: ModelResponse): string {
  const message = {
    ...messageHead(response),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...transformed(response),
    usage: startUsage(response.usage),
  };
  return eventText({ type: 'message_start', message });
}

function messageHead(response: ModelResponse): Readonly<Record<string, unknown>> {
  return { id: response.id, type: 'message', role: 'assistant', model: response.model };
}

/** The members that the API sends at the end of an answer. */
function ending({ stop_sequence = null, stop_details, container }: ModelResponse): Readonly<Record<string, unknown>> {
  return { stop_sequence, ...defined({ stop_details, container }) };
}

function edited({ context_management }: ModelResponse): Readonly<Record<string, unknown>> {
  return defined({ context_management });
}

/** The member that the API sends at the beginning of an answer. */
function transformed({ input_transformations }: ModelResponse): Readonly<Record<string, unknown>> {
  return defined({ input_transformations });
}

/**
 * The usage of the first event. It has the members that the last event lacks: the split of the cached tokens, and the
 * service tier.
 */
function startUsage(usage: Usage): Readonly<Record<string, unknown>> {
  const { output_tokens_details: _details, server_tool_use: _served, iterations: _iterations, ...start } = usage;
  return { ...start, output_tokens: 1 };
}

function endUsage({ output_tokens, output_tokens_details, server_tool_use, iterations }: Usage): object {
  return { output_tokens, ...defined({ output_tokens_details, server_tool_use, iterations }) };
}

const ready = new Map<string, readonly string[]>();

function blockTexts(block: ContentBlock, index: number): readonly string[] {
  if (block.type !== 'text' || block.text.length > READY_TEXT_CHARACTERS_MAX) {
    return buildBlock(block, index);
  }
  const key = `${index} ${block.text}`;
  const known = ready.get(key);
  if (known !== undefined) return known;
  const texts = buildBlock(block, index);
  if (ready.size >= READY_TEXTS_MAX) ready.clear();
  ready.set(key, texts);
  return texts;
}

function buildBlock(block: ContentBlock, index: number): readonly string[] {
  const start = (content: unknown): string => eventText({ type: 'content_block_start', index, content_block: content });
  const delta = (content: unknown): string => eventText({ type: 'content_block_delta', index, delta: content });
  const stop = eventText({ type: 'content_block_stop', index });
  switch (block.type) {
    case 'text':
      return [
        start({ type: 'text', text: '' }),
        ...pieces(block.text).map((text) => delta({ type: 'text_delta', text })),
        stop,
      ];
    case 'thinking':
      return [
        start({ type: 'thinking', thinking: '', signature: '' }),
        ...pieces(block.thinking).map((thinking) => delta({ type: 'thinking_delta', thinking })),
        delta({ type: 'signature_delta', signature: block.signature }),
        stop,
      ];
    case 'tool_use':
    case 'server_tool_use': {
      const input = isRecord(block.input) ? block.input : {};
      const json = Object.keys(input).length === 0 ? '' : JSON.stringify(input);
      return [
        start({ ...block, input: {} }),
        ...['', ...pieces(json)].map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
        stop,
      ];
    }
    default:
      return [start(block), stop];
  }
}

/** A text in pieces of at most `DELTA_CHARACTERS`, except that no surrogate pair is split. */
function pieces(text: string): readonly string[] {
  const list: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + DELTA_CHARACTERS, text.length);
    const unit = text.charCodeAt(end - 1);
    if (end < text.length && unit >= 0xd800 && unit <= 0xdbff) end += 1;
    list.push(text.slice(start, end));
    start = end;
  }
  return list;
}
