/** Results of MCP servers as blocks for the model. Pure. */
import type { CallToolResult } from '@modelcontextprotocol/client';
import { IMAGE_TYPES } from '../../base/content-rules.ts';
import type { ResultBlock } from '../../base/messages.ts';
import { schemaIssue } from '../json-schema.ts';
import type { McpResult } from './protocol.ts';

type McpContent = CallToolResult['content'][number];
type McpResource = Extract<McpContent, { type: 'resource' }>['resource'];

const PDF = 'application/pdf';

/**
 * The blocks of a result, in order: texts, images and documents. Consecutive texts are joined by newlines. Content of
 * another kind becomes a text that names it. If there is no content, the structured content is given as JSON.
 * `outputSchema`: the schema of the structured content. Throws if the structured content is missing or does not fit,
 * unless the result is an error.
 */
export function resultOf(result: CallToolResult, outputSchema?: object): McpResult {
  const { content, structuredContent, isError } = result;
  if (outputSchema !== undefined && isError !== true) checkOutput(outputSchema, structuredContent);
  const blocks: ResultBlock[] = [];
  for (const block of content.map(blockOf)) {
    const last = blocks.at(-1);
    if (block.type === 'text' && last?.type === 'text') {
      blocks[blocks.length - 1] = { type: 'text', text: `${last.text}\n${block.text}` };
    } else blocks.push(block);
  }
  if (blocks.length === 0 && structuredContent !== undefined) blocks.push(text(JSON.stringify(structuredContent)));
  return { blocks, isError: isError === true };
}

function checkOutput(schema: object, output: unknown): void {
  if (output === undefined) throw new Error('the result has no structured content, and the tool has a schema of it');
  const issue = schemaIssue(schema, output);
  if (issue === undefined) return;
  throw new Error(`the structured content does not fit the schema of the tool: ${issue.path}: ${issue.message}`);
}

function blockOf(content: McpContent): ResultBlock {
  switch (content.type) {
    case 'text':
      return text(content.text);
    case 'image':
      return media(content.mimeType, content.data, `[image: ${content.mimeType}]`);
    case 'audio':
      return text(`[audio: ${content.mimeType}]`);
    case 'resource_link':
      return text(`[resource: ${content.uri}, ${content.title ?? content.name}]`);
    case 'resource':
      return resource(content.resource);
  }
}

function resource(given: McpResource): ResultBlock {
  if ('text' in given) return text(given.text);
  const { uri, mimeType = 'application/octet-stream', blob } = given;
  return media(mimeType, blob, `[resource: ${uri}, ${mimeType}]`);
}

/** An image or a document; for another media type, a text that names it. */
function media(mediaType: string, data: string, name: string): ResultBlock {
  const source = { type: 'base64', media_type: mediaType, data };
  if (IMAGE_TYPES.has(mediaType)) return { type: 'image', source };
  return mediaType === PDF ? { type: 'document', source } : text(name);
}

function text(value: string): ResultBlock {
  return { type: 'text', text: value };
}
