/**
 * Images, documents and search results of a history, as parts of a prompt. A file that the model cannot take becomes a
 * text. Pure.
 */
import { isRecord } from '../../base/json.ts';
import { type ContentBlock, textOf } from '../../base/messages.ts';
import type { FilePart, ResultPart, SupportedUrls, TextPart, UserPart } from './specification.ts';

/** The facts of a model that decide how files are sent. */
export interface MediaReader {
  readonly version: 'v3' | 'v4';
  readonly urls: SupportedUrls;
}

/**
 * The part for a block. An image or a document becomes a file or a text; a text or a search result becomes a text.
 * Undefined for a block without content, and for any other block.
 */
export function mediaPart(block: ContentBlock, reader: MediaReader): UserPart | undefined {
  if (block.type === 'text') return textPart(block.text);
  if (block.type === 'search_result') {
    return textPart([block.title, block.source, textOf(block.content)].join('\n'));
  }
  if (block.type === 'image') return sourcePart(block.source, 'image/*', reader);
  if (block.type !== 'document') return undefined;
  const { source, title, context } = block;
  const { type, data, content } = source;
  const head = [title, context].filter((each) => each !== undefined && each !== null && each !== '');
  if (type === 'text') return textPart([...head, String(data)].join('\n'));
  if (type === 'content') {
    const text = typeof content === 'string' ? content : textOf(content as unknown as readonly ContentBlock[]);
    return textPart([...head, text].join('\n'));
  }
  const part = sourcePart(source, 'application/pdf', reader);
  return part?.type === 'file' && title !== undefined && title !== null ? { ...part, filename: title } : part;
}

function textPart(text: string): TextPart | undefined {
  return text.trim() === '' ? undefined : { type: 'text', text };
}

function sourcePart(
  source: Readonly<Record<string, unknown>>,
  kind: 'image/*' | 'application/pdf',
  reader: MediaReader,
): UserPart | undefined {
  const { type, media_type: mediaType, data, url, file_id: fileId } = source;
  const name = kind === 'image/*' ? 'image' : 'file';
  if (type === 'file') return textPart(`[${name} ${String(fileId)}: kept by another provider]`);
  if (type === 'url') {
    const address = String(url);
    if (!URL.canParse(address) || !takesUrl(address, kind, reader.urls)) return textPart(`[${name}: ${address}]`);
    const parsed = new URL(address);
    return { type: 'file', mediaType: kind, data: reader.version === 'v3' ? parsed : { type: 'url', url: parsed } };
  }
  // The data of this image or document was removed from the history.
  if (typeof data !== 'string' || data === '') return undefined;
  return {
    type: 'file',
    mediaType: typeof mediaType === 'string' ? mediaType : kind,
    data: reader.version === 'v3' ? data : { type: 'data', data },
  };
}

/** True if the model can read this address itself, by the specification's rules for `supportedUrls`. */
function takesUrl(address: string, mediaType: string, urls: SupportedUrls): boolean {
  return Object.entries(urls).some(([type, patterns]) => {
    const start = type === '*' || type === '*/*' ? '' : type.replace(/\*$/u, '');
    return mediaType.startsWith(start) && patterns.some((pattern) => pattern.test(address.toLowerCase()));
  });
}

/** A part of a user's message as a part of a result. */
export function resultPart(part: UserPart): ResultPart {
  if (part.type === 'text') return part;
  const { data, mediaType } = part;
  if (isRecord(data) && 'type' in data) return part;
  const isImage = mediaType.startsWith('image/');
  if (data instanceof URL) {
    return isImage ? { type: 'image-url', url: data.href } : { type: 'file-url', url: data.href, mediaType };
  }
  const inline = { data: String(data), mediaType };
  return isImage ? { type: 'image-data', ...inline } : { type: 'file-data', ...inline, ...nameOf(part) };
}

function nameOf({ filename }: FilePart): { readonly filename?: string } {
  return filename === undefined ? {} : { filename };
}
