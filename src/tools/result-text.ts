/** Converts a tool's return value or error to the text for the model (contract §5.3, §11.3). Pure. */
import { ERROR_TEXT_CHARACTERS_MAX } from '../base/bounds.ts';
import { checkBlocks } from '../base/content-rules.ts';
import { asError, ContentError, describeValue } from '../base/errors.ts';
import { cutText, isRecord, NotPlainError, toPlainJson, wellFormed } from '../base/json.ts';
import type { ResultBlock } from '../base/messages.ts';
import { AskingResult, type ServerQuestion } from './server-question.ts';
import { isToolContent } from './tool-content.ts';

/** A result as text; `success` is false for a failure. */
export interface ResultText {
  readonly content: string;
  readonly success: boolean;
}

/** A result as text, or as blocks with an empty text. */
export interface ResultContent extends ResultText {
  readonly blocks?: readonly ResultBlock[];
  /** The question of the call's MCP server, in place of a result. */
  readonly asks?: ServerQuestion;
}

/**
 * The result for a returned value. For a value of `content()`: its blocks, checked, with clean texts and without blank
 * texts. For any other value: `resultText`. Blocks of more than `bytesMax` UTF-8 bytes are a failure, because an image
 * cannot be cut. Never throws.
 */
export function resultContent(value: unknown, bytesMax: number): ResultContent {
  if (value instanceof AskingResult) return { content: '', success: true, asks: value.asks };
  try {
    if (!isToolContent(value)) return resultText(value, bytesMax);
    const blocks = toPlainJson(value.blocks);
    checkBlocks(blocks, 'content', 'tool');
    const kept = (blocks as unknown as readonly ResultBlock[]).map(cleanBlock).filter(isFilled);
    if (kept.length === 0) return { content: NO_OUTPUT, success: !value.isError };
    const bytes = Buffer.byteLength(JSON.stringify(kept));
    if (bytes > bytesMax) throw new ContentError(tooLargeText(bytes, bytesMax));
    return { content: '', blocks: kept, success: !value.isError };
  } catch (error) {
    return { content: cutMiddle(cleanText(`result ${safeMessage(error)}`), bytesMax), success: false };
  }
}

/** The reason why a result of blocks is refused. */
export function tooLargeText(bytes: number, bytesMax: number): string {
  return `has ${bytes} bytes, of which ${bytesMax} are allowed; return smaller images or documents, or their URLs`;
}

function cleanBlock(block: ResultBlock): ResultBlock {
  if (block.type === 'text') return { ...block, text: cleanText(block.text) };
  if (block.type !== 'search_result') return block;
  return { ...block, content: block.content.map((part) => ({ ...part, text: cleanText(part.text) })) };
}

function isFilled(block: ResultBlock): boolean {
  return block.type !== 'text' || block.text.trim() !== '';
}

/** The text in place of a blank result: a blank message can neither be stored nor sent (Δ19). */
export const NO_OUTPUT = '(no output)';

/**
 * The text of a returned value. A string stays as it is, bytes are read as UTF-8, and other values become JSON.
 * `undefined` and blank text become `(no output)`. An object with its own `error` is a failure. A value that JSON
 * cannot carry is also a failure; the text then names the value's path. The text is cut to `bytesMax` UTF-8 bytes.
 * Never throws.
 */
export function resultText(value: unknown, bytesMax: number): ResultText {
  try {
    if (value === undefined) return { content: NO_OUTPUT, success: true };
    // The text is cut before it is cleaned: cleaning a hundred megabytes takes longer than the tool did.
    if (typeof value === 'string') return plainText(cutMiddle(value, bytesMax));
    if (value instanceof Uint8Array) return plainText(cutMiddle(bytesText(value), bytesMax));
    if (value instanceof Error) return thrownText(value, bytesMax);
    const success = !(isRecord(value) && Object.hasOwn(value, 'error'));
    return { content: cutMiddle(cleanJson(JSON.stringify(toPlainJson(value))), bytesMax), success };
  } catch (error) {
    const why = error instanceof NotPlainError ? error.message : `not serialisable at $: ${safeMessage(error)}`;
    return { content: cutMiddle(cleanText(`result ${why}`), bytesMax), success: false };
  }
}

/**
 * The text of bytes in UTF-8. Throws `NotPlainError` for a buffer that was transferred to another thread, because such
 * a buffer reads as empty.
 */
function bytesText(bytes: Uint8Array): string {
  if (isDetached(bytes.buffer)) throw new NotPlainError('$', 'a detached buffer');
  return new TextDecoder().decode(bytes);
}

/** True if a buffer was transferred. Older engines have no flag for this, but refuse a view of such a buffer. */
function isDetached(buffer: ArrayBufferLike): boolean {
  try {
    return new Uint8Array(buffer).length < 0;
  } catch {
    return true;
  }
}

/** The text of a thrown value: `{"error":"<Class>: <message>"}`. Accepts anything, never throws. */
export function thrownText(thrown: unknown, bytesMax: number): ResultText {
  const error = cleanText(cutMiddle(nameAndMessage(thrown), bytesMax));
  return { content: cutMiddle(cleanJson(JSON.stringify({ error })), bytesMax), success: false };
}

/** `<Class>: <message>`; accepts anything, never throws. */
export function nameAndMessage(thrown: unknown): string {
  try {
    const error = asError(thrown);
    const own = error.name !== 'Error' && error.name !== '' ? error.name : error.constructor.name;
    return `${own || 'Error'}: ${error.message}`;
  } catch {
    return `Error: unreadable ${typeof thrown} thrown`;
  }
}

/** The stack of a thrown error, or else the thrown value as text. Accepts anything, never throws. */
export function thrownStack(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.stack === 'string') {
      return cleanText(cutText(thrown.stack, ERROR_TEXT_CHARACTERS_MAX));
    }
  } catch {
    // A getter or a proxy of the error threw.
  }
  return cleanText(cutText(nameAndMessage(thrown), ERROR_TEXT_CHARACTERS_MAX));
}

function safeMessage(thrown: unknown): string {
  try {
    return asError(thrown).message;
  } catch {
    return describeValue(typeof thrown);
  }
}

function plainText(text: string): ResultText {
  const clean = cleanText(text);
  return { content: clean.trim() === '' ? NO_OUTPUT : clean, success: true };
}

const ESC = '\\u001b';
const STRING_END = `(?:\\u0007|${ESC}\\\\|\\u009c)`;
/**
 * Terminal sequences (ECMA-48): control strings such as OSC with their terminator, CSI with parameters, and
 * two-character escapes. No part of the pattern can match in two ways, and no match continues past the beginning of
 * another sequence. So the time is linear in the text.
 */
const ESCAPES: RegExp = new RegExp(
  [
    `(?:${ESC}[\\]PX^_]|[\\u0090\\u0098\\u009d-\\u009f])[^\\u0007\\u001b\\u0090\\u0098\\u009c-\\u009f]*${STRING_END}`,
    `(?:${ESC}\\[|\\u009b)[0-?]*[ -/]*[@-~]`,
    `${ESC}[ -/]*[0-~]`,
  ].join('|'),
  'g',
);
/** Every control character except newline and tab. */
const CONTROLS = /[^\P{Cc}\n\t]/gu;

/** Matches any text that needs cleaning; terminal sequences begin with a control character. Most texts do not match. */
const UNCLEAN: RegExp = /[^\P{Cc}\n\t]|\p{Surrogate}/u;

/**
 * Text that is safe for a log, a request and a terminal: well-formed, no escape sequences, no controls except newline
 * and tab.
 */
export function cleanText(text: string): string {
  if (!UNCLEAN.test(text)) return text;
  return wellFormed(text).replace(ESCAPES, '').replace(CONTROLS, '');
}

/**
 * Cleans a JSON text. Only single characters are removed: a whole terminal sequence could include a quote of the JSON.
 */
function cleanJson(json: string): string {
  return UNCLEAN.test(json) ? json.replace(CONTROLS, '') : json;
}

/**
 * `text` cut in the middle to at most `bytesMax` UTF-8 bytes, both ends kept, on code-point borders (F55). A result is
 * cut in this way before it is sent to another thread. `truncateResult` later decides how much of it the model sees.
 */
export function cutMiddle(text: string, bytesMax: number): string {
  // A text of this UTF-16 length cannot exceed the bound, so its bytes need not be counted.
  if (text.length * 3 <= bytesMax) return text;
  if (text.length <= bytesMax && Buffer.byteLength(text) <= bytesMax) return text;
  const notice = `\n[… cut: a result of more than ${bytesMax} bytes …]\n`;
  const side = Math.max(0, Math.floor((bytesMax - Buffer.byteLength(notice)) / 2));
  return headOfBytes(text, side) + notice + tailOfBytes(text, side);
}

/** The longest start of `text` of at most `bytesMax` UTF-8 bytes that splits no code point. */
export function headOfBytes(text: string, bytesMax: number): string {
  const bytes = Buffer.from(cutText(text, bytesMax));
  if (bytes.length <= bytesMax) return bytes.toString();
  let end = bytesMax;
  while (end > 0 && isContinuation(bytes[end])) end -= 1;
  return bytes.subarray(0, end).toString();
}

/** The longest end of `text` of at most `bytesMax` UTF-8 bytes that splits no code point. */
export function tailOfBytes(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text.slice(Math.max(0, text.length - bytesMax)).replace(/^[\uDC00-\uDFFF]/, ''));
  if (bytes.length <= bytesMax) return bytes.toString();
  let start = bytes.length - bytesMax;
  while (start < bytes.length && isContinuation(bytes[start])) start += 1;
  return bytes.subarray(start).toString();
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
