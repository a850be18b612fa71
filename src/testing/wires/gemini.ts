/**
 * A strict fake of the Gemini API (`POST …:streamGenerateContent`): a `fetch` for `createGoogleGenerativeAI`.
 *
 * Owns: the thought signatures it has given. Does not own: the script.
 *
 * | rule | refused | source |
 * | --- | --- | --- |
 * | G01 | an unknown field | API reference of `generateContent`; error "Unknown name … Cannot find field" |
 * | G02 | no contents, a content without parts | API reference, `Content`; error "contents is not specified" |
 * | G03 | a role other than `user` and `model` | error "Please use a valid role: user, model." |
 * | G04 | a part without data, or with several | API reference, `Part` (a union); error "required oneof field 'data'" |
 * | G05 | a call that follows the model's own content | error "function call turn comes immediately after a user turn" |
 * | G06 | other than one response for each call | error "number of function response parts is equal to" |
 * | G07 | a response that follows no call | error "function response turn comes immediately after a function call turn" |
 * | G08 | Gemini 3: a call of the current turn without its signature | page "Thought signatures" |
 * | G09 | a signature that the API did not give, or on another part | page "Thought signatures" |
 * | G10 | contents that end with the model's | error "ensure that multiturn requests end with a user role" |
 * | G11 | a function without a valid name | API reference, `FunctionDeclaration` |
 * | G12 | a keyword of a schema that `Schema` does not have | API reference, `Schema` |
 * | G13 | a tool choice that names no function of the request | page "Function calling", `allowedFunctionNames` |
 * | G14 | a schema of the answer without `application/json` | API reference, `GenerationConfig` |
 * | G15 | inline data without a type, or not in base64 | API reference, `Blob` |
 */
import { createHash } from 'node:crypto';
import { isRecord, stableText } from '../../base/json.ts';
import type { ContentBlock } from '../../base/messages.ts';
import type { ModelResponse } from '../../models/provider.ts';
import { checkDeclarations, checkGeneration } from './gemini-rules.ts';
import {
  createWireFake,
  eventOf,
  piecesOf,
  type Refuse,
  recordsOf,
  type WireCall,
  type WireFake,
  type WireFakeOptions,
} from './wire-fake.ts';

type Fields = Readonly<Record<string, unknown>>;

const BODY_FIELDS: ReadonlySet<string> = new Set([
  ...['contents', 'tools', 'toolConfig', 'safetySettings', 'systemInstruction', 'generationConfig', 'cachedContent'],
  ...['labels', 'serviceTier', 'store'],
]);
const PART_FIELDS: ReadonlySet<string> = new Set([
  ...['thought', 'thoughtSignature', 'partMetadata', 'mediaResolution', 'videoMetadata'],
]);
const DATA_FIELDS: readonly string[] = [
  ...['text', 'inlineData', 'functionCall', 'functionResponse', 'fileData', 'executableCode', 'codeExecutionResult'],
  ...['toolCall', 'toolResponse'],
];
/** Signatures that stand for a call which no Gemini model made. Source: the page "Thought signatures". */
const SKIPPING: ReadonlySet<unknown> = new Set([
  'skip_thought_signature_validator',
  'context_engineering_is_the_way_to_go',
]);
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/u;
const PATH = /\/models\/([^/:]+):streamGenerateContent$/u;
/** Maximum number of remembered signatures. The oldest are forgotten and then refused. */
const SIGNATURES_MAX = 100_000;

/**
 * A fake of the Gemini API. It streams answers from the script, and refuses what the API refuses. Models whose name
 * begins with `gemini-3` require thought signatures. Throws `ConfigError` for a bad script. Runs on the thread of its
 * caller.
 *
 * ```ts
 * const fake = fakeGemini({ script: ['Hello.'] });
 * const model = createGoogleGenerativeAI({ apiKey: 'test', fetch: fake.fetch })('gemini-3-pro');
 * ```
 */
export function fakeGemini(options: WireFakeOptions): WireFake {
  const signatures = new Signatures();
  return createWireFake(
    {
      serves: (path) => PATH.test(path),
      modelOf: ({ path }) => PATH.exec(path)?.[1] ?? '',
      hasKey: (headers) => headers.has('x-goog-api-key'),
      check: (call, refuse) => check(call, signatures, refuse),
      stream: (response, call, number) => streamOf(response, call, number, signatures),
      errorBody: (code, message) => ({ error: { code, message, status: STATUS_NAMES.get(code) ?? 'UNKNOWN' } }),
    },
    options,
  );
}

const STATUS_NAMES: ReadonlyMap<number, string> = new Map([
  [400, 'INVALID_ARGUMENT'],
  [401, 'UNAUTHENTICATED'],
  [403, 'PERMISSION_DENIED'],
  [404, 'NOT_FOUND'],
  [429, 'RESOURCE_EXHAUSTED'],
  [500, 'INTERNAL'],
  [503, 'UNAVAILABLE'],
]);

/** The signatures of one fake, each bound to the content of its part. */
class Signatures {
  readonly #given = new Map<string, string>();

  give(content: unknown, number: number, place: number): string {
    const text = stableText(content);
    const signature = createHash('sha256').update(`${number} ${place} ${text}`).digest('base64');
    this.#given.set(signature, text);
    const [oldest] = this.#given.keys();
    if (this.#given.size > SIGNATURES_MAX && oldest !== undefined) this.#given.delete(oldest);
    return signature;
  }

  fits(signature: unknown, content: unknown): boolean {
    return SKIPPING.has(signature) || this.#given.get(String(signature)) === stableText(content);
  }
}

function check({ body, path }: WireCall, signatures: Signatures, refuse: Refuse): void {
  const unknown = Object.keys(body).find((field) => !BODY_FIELDS.has(field));
  if (unknown !== undefined) refuse('G01', unknown, unknownName(unknown, ''));
  const { contents, tools, toolConfig, generationConfig } = body;
  if (!Array.isArray(contents) || contents.length === 0) {
    refuse('G02', 'contents', '* GenerateContentRequest.contents: contents is not specified');
  }
  const turns = recordsOf(contents).map(([content, place]) =>
    turnOf(content, `contents[${place}]`, signatures, refuse),
  );
  checkOrder(turns, refuse);
  if (PATH.exec(path)?.[1]?.startsWith('gemini-3') === true) checkSignatures(turns, refuse);
  checkDeclarations(tools, toolConfig, refuse);
  checkGeneration(generationConfig, refuse);
}

function unknownName(name: string, at: string): string {
  const where = at === '' ? '' : ` at '${at}'`;
  return `Invalid JSON payload received. Unknown name "${name}"${where}: Cannot find field.`;
}

/** The facts about one content that the rules of order need. */
interface Turn {
  readonly path: string;
  readonly role: unknown;
  readonly parts: readonly Fields[];
  readonly calls: number;
  readonly responses: number;
}

function turnOf(content: Fields, path: string, signatures: Signatures, refuse: Refuse): Turn {
  const { role, parts } = content;
  const unknown = Object.keys(content).find((field) => field !== 'role' && field !== 'parts');
  if (unknown !== undefined) refuse('G01', `${path}.${unknown}`, unknownName(unknown, path));
  if (role !== 'user' && role !== 'model') refuse('G03', `${path}.role`, 'Please use a valid role: user, model.');
  const list = recordsOf(parts);
  if (list.length === 0)
    refuse('G02', `${path}.parts`, `* GenerateContentRequest.${path}.parts: contents.parts must not be empty.`);
  for (const [part, place] of list) checkPart(part, `${path}.parts[${place}]`, signatures, refuse);
  const own = list.map(([part]) => part);
  return {
    path,
    role,
    parts: own,
    calls: own.filter((part) => part['functionCall'] !== undefined).length,
    responses: own.filter((part) => part['functionResponse'] !== undefined).length,
  };
}

function checkPart(part: Fields, path: string, signatures: Signatures, refuse: Refuse): void {
  const data = DATA_FIELDS.filter((field) => part[field] !== undefined);
  if (data.length !== 1)
    refuse('G04', path, `* ${path}.data: required oneof field 'data' must have one initialized field`);
  const unknown = Object.keys(part).find((field) => !PART_FIELDS.has(field) && !DATA_FIELDS.includes(field));
  if (unknown !== undefined) refuse('G01', `${path}.${unknown}`, unknownName(unknown, path));
  const { inlineData, thoughtSignature: signature } = part;
  if (isRecord(inlineData)) {
    const { mimeType, data: bytes } = inlineData;
    const isData = typeof mimeType === 'string' && mimeType !== '' && BASE64.test(String(bytes));
    if (!isData)
      refuse('G15', `${path}.inlineData`, `Invalid value at '${path}.inlineData' (TYPE_BYTES): Base64 decoding failed`);
  }
  if (signature === undefined || signatures.fits(signature, signedContent(part))) return;
  refuse('G09', `${path}.thoughtSignature`, 'Corrupted thought signature.');
}

/** The content to which a signature is bound. This content lacks the call's id, because the caller chooses the id. */
function signedContent({ text, functionCall }: Fields): unknown {
  if (!isRecord(functionCall)) return { text };
  return { name: functionCall['name'], args: functionCall['args'] };
}

function checkOrder(turns: readonly Turn[], refuse: Refuse): void {
  turns.forEach(({ path, calls, responses }, index) => {
    const previous = turns[index - 1];
    if (calls > 0 && previous !== undefined && previous.role !== 'user') {
      refuse(
        'G05',
        path,
        'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
      );
    }
    const next = turns[index + 1];
    if (calls > 0 && (next?.responses ?? 0) !== calls) {
      refuse(
        'G06',
        path,
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
      );
    }
    if (responses > 0 && (previous?.calls ?? 0) === 0) {
      refuse('G07', path, 'Please ensure that function response turn comes immediately after a function call turn.');
    }
  });
  const last = turns.at(-1);
  if (last !== undefined && last.role !== 'user') {
    refuse('G10', last.path, 'Please ensure that multiturn requests end with a user role or a function response.');
  }
}

/**
 * Reports G08: the first call of each content of the current turn needs a signature. The current turn is everything
 * since the last content of the user that is not a function response.
 */
function checkSignatures(turns: readonly Turn[], refuse: Refuse): void {
  const opening = turns.findLastIndex(({ role, responses }) => role === 'user' && responses === 0);
  for (const { path, parts, role } of turns.slice(opening + 1)) {
    const call = role === 'model' ? parts.find((part) => part['functionCall'] !== undefined) : undefined;
    if (call === undefined || call['thoughtSignature'] !== undefined) continue;
    const name = isRecord(call['functionCall']) ? String(call['functionCall']['name']) : '';
    refuse(
      'G08',
      path,
      `Function call is missing a thought_signature in functionCall parts. Function call \`default_api:${name}\`, position ${parts.indexOf(call) + 1}.`,
    );
  }
}

function streamOf(
  { content, stop_reason: stop, usage }: ModelResponse,
  call: WireCall,
  number: number,
  signatures: Signatures,
): readonly string[] {
  const texts: string[] = [];
  const push = (fields: object): void => {
    texts.push(eventOf({ responseId: `response_${number}`, ...fields }));
  };
  const part = (fields: object): void => push({ candidates: [{ content: { role: 'model', parts: [fields] } }] });
  const isThird = PATH.exec(call.path)?.[1]?.startsWith('gemini-3') === true;
  const firstCall = content.findIndex(({ type }) => type === 'tool_use');
  content.forEach((block, place) => {
    const sign = (signed: unknown): object =>
      isThird ? { thoughtSignature: signatures.give(signed, number, place) } : {};
    if (block.type === 'thinking') {
      for (const text of piecesOf(block.thinking)) part({ text, thought: true });
    } else if (block.type === 'tool_use') {
      const functionCall = { name: block.name, args: block.input };
      // The first of several parallel calls has the signature of all of them.
      part({ functionCall, ...(place === firstCall ? sign(functionCall) : {}) });
    } else if (block.type === 'text') {
      for (const text of piecesOf(block.text)) part({ text });
      // The signature of a text comes after the text, in a part with an empty text.
      if (isThird && isLastText(content, place)) part({ text: '', ...sign({ text: block.text }) });
    }
  });
  const thought = usage.output_tokens_details?.thinking_tokens ?? 0;
  push({
    candidates: [{ content: { role: 'model', parts: [] }, finishReason: FINISH_REASONS.get(String(stop)) ?? 'STOP' }],
    usageMetadata: {
      promptTokenCount: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
      cachedContentTokenCount: usage.cache_read_input_tokens ?? 0,
      candidatesTokenCount: usage.output_tokens - thought,
      thoughtsTokenCount: thought,
    },
  });
  return texts;
}

function isLastText(content: readonly ContentBlock[], place: number): boolean {
  return !content.slice(place + 1).some(({ type }) => type === 'text' || type === 'tool_use');
}

const FINISH_REASONS: ReadonlyMap<string, string> = new Map([
  ['max_tokens', 'MAX_TOKENS'],
  ['refusal', 'SAFETY'],
]);
