/**
 * The fake's list of models: `GET /v1/models`, in pages, and `GET /v1/models/<id>`. The list has the form that the
 * vendor documents (the SDK's `resources/models.d.ts`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { checkHeaders } from '../context/legality/legality.ts';
import { EFFORTS, type ListedModel, modelTraits, THINKING_TYPES } from '../context/model-traits.ts';
import { hasCredentials, sendError, sendJson } from './fake-http.ts';

/** The path of the list. */
export const MODELS_PATH = '/v1/models';

const PAGE_ENTRIES = 20;
const PAGE_ENTRIES_MAX = 1_000;

/** The newest models of the table in `src/context/model-traits.ts`, and older models whose thinking types differ. */
const DEFAULT_IDS = [
  ...['claude-fable-5-2', 'claude-haiku-5-5', 'claude-sonnet-5-5', 'claude-opus-5-5', 'claude-opus-5'],
  ...['claude-sonnet-5', 'claude-opus-4-6', 'claude-opus-4-5-20251101'],
];

/** The models that a fake lists by default, with their traits in `src/context/model-traits.ts`. */
export const DEFAULT_MODELS: readonly ListedModel[] = DEFAULT_IDS.map((id) => {
  const { thinkingTypes, efforts = [], contextTokensMax, outputTokensMax } = modelTraits(id);
  return {
    id,
    thinkingTypes: [...(thinkingTypes ?? [])],
    efforts,
    structuredOutputs: true,
    lifecycle: 'active',
    ...(contextTokensMax === undefined ? {} : { contextTokensMax }),
    ...(outputTokensMax === undefined ? {} : { outputTokensMax }),
  };
});

/** Answers a request for the list or for one of its models. */
export function answerModels(request: IncomingMessage, response: ServerResponse, rows: readonly ListedModel[]): void {
  request.resume();
  const url = new URL(request.url ?? '', 'http://fake');
  if (request.method !== 'GET') return sendError(response, 405, `Method ${request.method} not allowed`);
  if (!hasCredentials(request)) return sendError(response, 401, 'invalid x-api-key');
  const fault = checkHeaders(request.headers).find(({ path, fatal }) => fatal && path === 'anthropic-version');
  if (fault !== undefined) return sendError(response, 400, fault.message);
  const id = decodeURIComponent(url.pathname.slice(MODELS_PATH.length + 1));
  if (id === '') return sendPage(response, url.searchParams, rows);
  const found = rows.find((row) => row.id === id);
  if (found === undefined) return sendError(response, 404, `model: ${id}`);
  return sendJson(response, 200, JSON.stringify(documented(found)));
}

function sendPage(response: ServerResponse, query: URLSearchParams, rows: readonly ListedModel[]): void {
  const limit = Number(query.get('limit') ?? PAGE_ENTRIES);
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_ENTRIES_MAX) {
    return sendError(response, 400, `limit: Input should be between 1 and ${PAGE_ENTRIES_MAX}`);
  }
  // Retired models appear only on request.
  const stages = query.getAll('lifecycle').concat(query.getAll('lifecycle[]'));
  const shown = stages.length === 0 ? ['active', 'deprecated'] : stages;
  const all = rows.filter(({ lifecycle = 'active' }) => shown.includes(lifecycle));
  const after = query.get('after_id');
  const start = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
  if (after !== null && start === 0) return sendError(response, 400, `after_id: ${after} is not a model`);
  const page = all.slice(start, start + limit);
  const answer = {
    data: page.map(documented),
    has_more: start + limit < all.length,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  };
  return sendJson(response, 200, JSON.stringify(answer));
}

/** The entry of a model, with every documented member. */
function documented(row: ListedModel): object {
  const { id, efforts, thinkingTypes, lifecycle = 'active', retiresAfter } = row;
  const yes = { supported: true };
  const supports = (is: boolean): { readonly supported: boolean } => ({ supported: is });
  const strategies = ['clear_thinking_20251015', 'clear_tool_uses_20250919', 'compact_20260112'];
  return {
    type: 'model',
    id,
    display_name: id,
    created_at: '2026-01-01T00:00:00Z',
    lifecycle,
    line: null,
    deprecated_at: lifecycle === 'active' ? null : '2026-01-01T00:00:00Z',
    retires_at: retiresAfter === undefined ? null : `${retiresAfter}T00:00:00Z`,
    max_input_tokens: row.contextTokensMax ?? null,
    max_tokens: row.outputTokensMax ?? null,
    capabilities: {
      batch: yes,
      citations: yes,
      code_execution: supports(row.codeExecution ?? true),
      context_management: { ...yes, ...Object.fromEntries(strategies.map((each) => [each, yes])) },
      effort:
        efforts === undefined
          ? null
          : { ...supports(efforts.length > 0), ...supportOf(EFFORTS, (each) => efforts.includes(each)) },
      image_input: yes,
      pdf_input: yes,
      server_tools: {
        ...yes,
        code_execution: supports(row.codeExecution ?? true),
        web_search: supports(row.webSearch ?? true),
      },
      structured_outputs: supports(row.structuredOutputs ?? true),
      thinking: {
        ...supports(thinkingTypes?.some((each) => each !== 'disabled') ?? true),
        types: supportOf(THINKING_TYPES, (each) => thinkingTypes?.includes(each) ?? true),
      },
    },
  };
}

function supportOf<Name extends string>(names: readonly Name[], has: (name: Name) => boolean): object {
  return Object.fromEntries(names.map((each) => [each, { supported: has(each) }]));
}
