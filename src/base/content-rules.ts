/**
 * Checks content blocks from outside, so that the Messages API accepts a request with them. The checks apply wherever
 * content enters. They follow the API's rules for blocks (R07 to R09, R16 to R18, R29, R37, R39, R50, R51, R61). Pure.
 */
import { ContentError, describeValue } from './errors.ts';
import { isCallId, isToolName } from './ids.ts';
import { imageSize, imageType } from './image-size.ts';
import { isRecord } from './json.ts';
import { SERVER_RESULT_TYPES } from './messages.ts';

/** Media types of an image in base64 (R61). */
export const IMAGE_TYPES: ReadonlySet<unknown> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);
/** The most images in one content. Every model accepts this many in a request, and some accept more (R61). */
const IMAGES_MAX = 100;
/** Most base64 characters of an image, 10 MB (R61). */
export const IMAGE_CHARACTERS_MAX: number = 10 * 1024 * 1024;

/**
 * The position of the blocks. `message`: in a user's message that is sent. `history`: in a user's message of a history,
 * which may also have results and images whose data was removed. `result`: in a result of a history. `tool`: in a
 * result that a tool returns now. `answer`: in an answer of a model.
 */
export type ContentPlace = 'message' | 'history' | 'result' | 'tool' | 'answer';

/** Most pixels of an image's longer side, in a request with at most `FEW_IMAGES` images, and in one with more (R61). */
export const IMAGE_SIDE_MAX = 8_000;
/** See `IMAGE_SIDE_MAX`. */
export const IMAGE_SIDE_OF_MANY_MAX = 2_000;
/** See `IMAGE_SIDE_MAX`. */
export const FEW_IMAGES = 20;

type Fields = Readonly<Record<string, unknown>>;

const RESULT_TYPES = ['text', 'image', 'document', 'search_result'];
const TYPES: Readonly<Record<ContentPlace, readonly string[]>> = {
  message: ['text', 'image', 'document', 'container_upload'],
  history: ['text', 'image', 'document', 'container_upload', 'tool_result'],
  result: RESULT_TYPES,
  tool: RESULT_TYPES,
  answer: [
    ...['text', 'thinking', 'redacted_thinking', 'tool_use', 'provider_part', 'server_tool_use'],
    ...SERVER_RESULT_TYPES,
  ],
};
/** Fields of a block beside its type (R39). For types without a row any field is accepted. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  text: ['text', 'cache_control', 'citations', 'origin'],
  image: ['source', 'cache_control'],
  document: ['source', 'title', 'context', 'citations', 'cache_control'],
  search_result: ['source', 'title', 'content', 'citations', 'cache_control'],
  container_upload: ['file_id', 'cache_control'],
  tool_use: ['id', 'name', 'input', 'caller', 'cache_control', 'origin'],
  tool_result: ['tool_use_id', 'content', 'is_error', 'cache_control'],
};
const SOURCE_TYPES: Readonly<Record<string, readonly string[]>> = {
  image: ['base64', 'url', 'file'],
  document: ['base64', 'text', 'content', 'url', 'file'],
};
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/**
 * Throws `ContentError` unless `content` is allowed at this place. The error names the block, its value and the
 * expected form. A call of the provider's own tool and its result may be in two answers, so this function does not
 * check that both exist. A request leaves out a call or a result without its counterpart.
 */
export function checkBlocks(content: unknown, path: string, place: ContentPlace): void {
  if (!Array.isArray(content)) throw unfit(path, 'a string or a list of blocks', content);
  let images = 0;
  content.forEach((block: unknown, index) => {
    const at = `${path}[${index}]`;
    const type = isRecord(block) ? block['type'] : block;
    if (!isRecord(block) || typeof type !== 'string' || !TYPES[place].includes(type)) {
      throw unfit(`${at}.type`, `one of ${TYPES[place].join(', ')}`, type);
    }
    checkBlock(block, type, at, place);
    if (type === 'image') images += 1;
  });
  if (images > IMAGES_MAX) throw unfit(path, `at most ${IMAGES_MAX} images; send the others apart`, `${images} images`);
  if (images > FEW_IMAGES) checkMany(content, path);
}

function checkBlock(block: Fields, type: string, at: string, place: ContentPlace): void {
  const fields = FIELDS[type];
  if (fields !== undefined) {
    const foreign = Object.keys(block).find((key) => key !== 'type' && !fields.includes(key));
    if (foreign !== undefined) throw unfit(`${at}.${foreign}`, `left out of a ${type} block`, block[foreign]);
  }
  checkMark(block['cache_control'], `${at}.cache_control`);
  checkOrigin(block, at, place);
  switch (type) {
    case 'text':
      checkText(block['text'], `${at}.text`);
      // Only the model may cite (R51).
      if (block['citations'] !== undefined && place !== 'answer') {
        throw unfit(`${at}.citations`, `left out of a user's text`, block['citations']);
      }
      return;
    case 'image':
    case 'document':
      return checkMedia(block, type, at, place);
    case 'search_result':
      return checkSearchResult(block, at);
    case 'container_upload':
      return checkName(block['file_id'], `${at}.file_id`);
    case 'tool_result':
      checkText(block['tool_use_id'], `${at}.tool_use_id`);
      if (block['is_error'] !== undefined && typeof block['is_error'] !== 'boolean') {
        throw unfit(`${at}.is_error`, 'true or false', block['is_error']);
      }
      if (block['content'] !== undefined && typeof block['content'] !== 'string') {
        checkBlocks(block['content'], `${at}.content`, 'result');
      }
      return;
    case 'provider_part':
      if (!isRecord(block['part'])) throw unfit(`${at}.part`, 'an object', block['part']);
      if (block['origin'] === undefined) throw unfit(`${at}.origin`, 'an object', block['origin']);
      return;
    case 'thinking':
      checkText(block['thinking'], `${at}.thinking`);
      return checkText(block['signature'], `${at}.signature`);
    case 'redacted_thinking':
      return checkText(block['data'], `${at}.data`);
    case 'tool_use':
      if (typeof block['name'] !== 'string' || !isToolName(block['name'])) {
        throw unfit(`${at}.name`, 'a tool name', block['name']);
      }
      return checkCall(block, at);
    case 'server_tool_use':
      checkName(block['name'], `${at}.name`);
      return checkCall(block, at);
    default:
      return checkName(block['tool_use_id'], `${at}.tool_use_id`);
  }
}

function checkSearchResult(block: Fields, at: string): void {
  checkName(block['source'], `${at}.source`);
  checkName(block['title'], `${at}.title`);
  checkCitations(block['citations'], at);
  const { content } = block;
  if (!Array.isArray(content) || content.length === 0) throw unfit(`${at}.content`, 'a list of text blocks', content);
  content.forEach((part: unknown, index) => {
    const isText = isRecord(part) && part['type'] === 'text';
    if (!isText) throw unfit(`${at}.content[${index}]`, 'a text block', part);
    checkBlock(part, 'text', `${at}.content[${index}]`, 'result');
    checkName(part['text'], `${at}.content[${index}].text`);
  });
}

function checkCitations(citations: unknown, at: string): void {
  if (citations !== undefined && !(isRecord(citations) && typeof citations['enabled'] === 'boolean')) {
    throw unfit(`${at}.citations`, '{ enabled: true } or { enabled: false }', citations);
  }
}

function checkCall(block: Fields, at: string): void {
  const { id, input } = block;
  if (typeof id !== 'string' || !isCallId(id)) throw unfit(`${at}.id`, 'a tool-use id', id);
  if (!isRecord(input)) throw unfit(`${at}.input`, 'an object', input);
}

function checkMedia(block: Fields, type: 'image' | 'document', at: string, place: ContentPlace): void {
  const { source, title, context, citations } = block;
  for (const [name, value] of Object.entries({ title, context })) {
    if (value !== undefined && value !== null) checkText(value, `${at}.${name}`);
  }
  checkCitations(citations, at);
  const path = `${at}.source`;
  if (!isRecord(source)) throw unfit(path, 'an object', source);
  const kind = source['type'];
  const kinds = SOURCE_TYPES[type] ?? [];
  if (typeof kind !== 'string' || !kinds.includes(kind))
    throw unfit(`${path}.type`, `one of ${kinds.join(', ')}`, kind);
  if (kind === 'url') return checkAddress(source['url'], `${path}.url`);
  if (kind === 'file') return checkName(source['file_id'], `${path}.file_id`);
  if (kind === 'content') {
    const { content } = source;
    if (typeof content === 'string') return checkName(content, `${path}.content`);
    checkBlocks(content, `${path}.content`, 'result');
    // The API refuses a document that contains documents or search results.
    const nested = (content as readonly Fields[]).find(({ type: part }) => part !== 'text' && part !== 'image');
    if (nested !== undefined) throw unfit(`${path}.content`, 'a list of text and image blocks', nested);
    if ((content as readonly unknown[]).length === 0) throw unfit(`${path}.content`, 'not empty', content);
    return;
  }
  const wanted: ReadonlySet<unknown> =
    type === 'image' ? IMAGE_TYPES : new Set([kind === 'text' ? 'text/plain' : 'application/pdf']);
  const { media_type: mediaType, data } = source;
  // A history keeps an image whose data was removed; requests leave it out.
  const isHole =
    place !== 'message' && place !== 'tool' && type === 'image' && (data === undefined || data === null || data === '');
  if (isHole && mediaType === undefined) return;
  if (!wanted.has(mediaType)) throw unfit(`${path}.media_type`, `one of ${[...wanted].join(', ')}`, mediaType);
  if (isHole) return;
  checkName(data, `${path}.data`);
  if (kind !== 'base64' || typeof data !== 'string') return;
  checkBase64(data, `${path}.data`, type);
  const shown = imageType(data);
  if (shown !== undefined && shown !== mediaType)
    throw unfit(`${path}.media_type`, `${shown}, as the data is`, mediaType);
  if (type === 'image') checkPixels(data, `${path}.data`, IMAGE_SIDE_MAX);
}

function checkPixels(data: string, path: string, sideMax: number): void {
  const { width, height } = imageSize(data) ?? { width: 0, height: 0 };
  if (Math.max(width, height) <= sideMax) return;
  const size = `${width} x ${height} pixels`;
  throw unfit(path, `an image of at most ${sideMax} pixels a side; scale it down before it is sent`, size);
}

/** The stricter size limit for images of a content with more than `FEW_IMAGES`, because they share one request. */
function checkMany(content: readonly unknown[], path: string): void {
  content.forEach((block, index) => {
    if (!isRecord(block) || block['type'] !== 'image' || !isRecord(block['source'])) return;
    const { data } = block['source'];
    if (typeof data === 'string') checkPixels(data, `${path}[${index}].source.data`, IMAGE_SIDE_OF_MANY_MAX);
  });
}

function checkBase64(data: string, path: string, type: 'image' | 'document'): void {
  if (data.length % 4 !== 0 || !BASE64.test(data)) throw unfit(path, 'base64', data);
  if (type === 'image' && data.length > IMAGE_CHARACTERS_MAX) {
    throw unfit(path, `at most ${IMAGE_CHARACTERS_MAX} characters (10 MB); send a smaller image`, `${data.length}`);
  }
}

function checkAddress(url: unknown, path: string): void {
  const wanted = 'an http or https URL; send a file of this machine as base64';
  if (typeof url !== 'string' || !URL.canParse(url)) throw unfit(path, wanted, url);
  const { protocol } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:') throw unfit(path, wanted, url);
}

function checkMark(mark: unknown, path: string): void {
  if (mark === undefined || mark === null) return;
  if (!isRecord(mark) || mark['type'] !== 'ephemeral') throw unfit(path, '{ type: "ephemeral" }', mark);
  const { ttl } = mark;
  if (ttl !== undefined && ttl !== '5m' && ttl !== '1h') throw unfit(`${path}.ttl`, '"5m" or "1h"', ttl);
}

/** Only blocks that another vendor's model wrote may have an origin. */
function checkOrigin({ origin }: Fields, at: string, place: ContentPlace): void {
  if (origin === undefined) return;
  if (place !== 'answer') throw unfit(`${at}.origin`, `left out of a user's block`, origin);
  if (!isRecord(origin)) throw unfit(`${at}.origin`, 'an object', origin);
  checkName(origin['provider'], `${at}.origin.provider`);
  checkName(origin['model'], `${at}.origin.model`);
  if (origin['id'] !== undefined) checkText(origin['id'], `${at}.origin.id`);
  if (origin['metadata'] !== undefined && !isRecord(origin['metadata'])) {
    throw unfit(`${at}.origin.metadata`, 'an object', origin['metadata']);
  }
}

function checkText(value: unknown, path: string): void {
  if (typeof value !== 'string') throw unfit(path, 'a string', value);
}

/** Requires a text that is not blank. */
function checkName(value: unknown, path: string): void {
  if (typeof value !== 'string' || value.trim() === '') throw unfit(path, 'a text that is not blank', value);
}

function unfit(path: string, wanted: string, value: unknown): ContentError {
  return new ContentError(`${path} must be ${wanted}; got ${describeValue(value)}`, { data: { path } });
}
