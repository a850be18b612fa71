/**
 * The models of the Anthropic API, from `GET /v1/models`.
 *
 * Source: the vendor's page on the Models API, and the types of its SDK 1.12.0 (`resources/models.d.ts`). The request
 * is made without the SDK, because it is made on the host thread, which otherwise does not load the SDK. Every page is
 * bounded in bytes, and all pages together in number, entries and time. Unknown fields are ignored. A row without the
 * documented form is left out.
 */
import { z } from 'zod';
import {
  MODEL_LIST_BYTES_MAX,
  MODEL_LIST_ENTRIES_MAX,
  MODEL_LIST_MS_MAX,
  MODEL_LIST_PAGE_ENTRIES,
  MODEL_LIST_PAGES_MAX,
  MODEL_NAME_CHARACTERS_MAX,
} from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { EFFORTS, type ListedModel, THINKING_TYPES } from '../../context/model-traits.ts';
import { modelErrorOf } from '../model-error.ts';
import type { ModelList, ModelListing } from '../model-list.ts';
import type { AnthropicData } from '../provider.ts';
import { boundedFetch, type FetchFunction } from './bounded-fetch.ts';
import { authenticationMissing, type Credentials, credentialsOf, headersOf } from './credentials.ts';
import { anthropicError } from './error.ts';

const PATH = '/v1/models';
const UNREAD_MAX = 10;

/** The list of models for these options. `fetch` replaces the platform's. */
export function anthropicModels(data: AnthropicData, fetch: FetchFunction | undefined): ModelList {
  return {
    source: () => {
      const credentials = credentialsIfAny(data);
      return credentials === undefined ? undefined : addressOf(credentials);
    },
    read: ({ signal, clock }) => withDeadline(clock, signal, (inner) => readPages(data, fetch, clock, inner)),
  };
}

/** The credentials; undefined also for a key that no header can carry. The first call of a model reports such a key. */
function credentialsIfAny(data: AnthropicData): Credentials | undefined {
  try {
    return credentialsOf(data);
  } catch {
    return undefined;
  }
}

function addressOf({ baseURL }: Credentials): string {
  return `${baseURL.replace(/\/+$/, '')}${PATH}`;
}

/** Runs `run`. The promise settles by the deadline, even if a given `fetch` ignores its signal. */
async function withDeadline<T>(clock: Clock, outer: AbortSignal, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let stop: (error: Error) => void = () => {};
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = reject;
  });
  const end = (error: Error): void => {
    controller.abort();
    stop(error);
  };
  const onAbort = (): void => end(new CancelledError('the list of models was cancelled'));
  if (outer.aborted) onAbort();
  outer.addEventListener('abort', onAbort, { once: true });
  const timer = clock.setTimer(() => {
    const message = `the list of models was not complete within ${MODEL_LIST_MS_MAX} ms`;
    end(modelErrorOf({ code: 'model_timeout', message, data: { phase: 'total' } }));
  }, MODEL_LIST_MS_MAX);
  const answer = run(controller.signal);
  try {
    return await Promise.race([answer, stopped]);
  } finally {
    outer.removeEventListener('abort', onAbort);
    clock.clearTimer(timer);
    // The promise that lost the race may still reject.
    answer.catch(() => {});
    stopped.catch(() => {});
  }
}

const pageSchema = z.object({
  data: z.array(z.unknown()),
  has_more: z.boolean(),
  last_id: z.string().max(MODEL_NAME_CHARACTERS_MAX).nullish(),
});

async function readPages(
  data: AnthropicData,
  fetch: FetchFunction | undefined,
  clock: Clock,
  signal: AbortSignal,
): Promise<ModelListing> {
  const credentials = credentialsOf(data);
  if (credentials === undefined) throw authenticationMissing();
  const get = boundedFetch(fetch ?? globalThis.fetch, MODEL_LIST_BYTES_MAX);
  const models = new Map<string, ListedModel>();
  const unread: string[] = [];
  let after: string | undefined;
  for (let page = 0; page < MODEL_LIST_PAGES_MAX && models.size < MODEL_LIST_ENTRIES_MAX; page += 1) {
    const {
      data: rows,
      has_more: hasMore,
      last_id: last,
    } = await readPage(get, { data, credentials, after, clock, signal });
    for (const row of rows.slice(0, MODEL_LIST_ENTRIES_MAX - models.size)) {
      const model = readModel(row);
      if (model !== undefined) models.set(model.id, model);
      else if (unread.length < UNREAD_MAX) unread.push(idOf(row));
    }
    // A page that names no last row, or the same one as before, ends the list, whatever `has_more` says.
    if (!hasMore || typeof last !== 'string' || last === after) break;
    after = last;
  }
  return { models: [...models.values()], ...(unread.length === 0 ? {} : { unread }) };
}

async function readPage(
  get: FetchFunction,
  request: {
    readonly data: AnthropicData;
    readonly credentials: Credentials;
    readonly after: string | undefined;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<z.infer<typeof pageSchema>> {
  const { data, credentials, after, clock, signal } = request;
  const query = new URLSearchParams({ limit: String(MODEL_LIST_PAGE_ENTRIES), ...defined({ after_id: after }) });
  try {
    // A redirect is an error, because the header with the key would go to the other address.
    const response = await get(`${addressOf(credentials)}?${query}`, {
      headers: headersOf(data.headers, credentials),
      redirect: 'error',
      signal,
    });
    const text = await response.text();
    if (!response.ok) throw refusal(response, text);
    return pageOf(text);
  } catch (error) {
    throw anthropicError(error, credentials.secrets, clock.now());
  }
}

function pageOf(text: string): z.infer<typeof pageSchema> {
  const page = pageSchema.safeParse(parsed(text));
  if (page.success) return page.data;
  // The error has no cause: a cause would show a part of the answer, which may be the page of a gateway.
  throw modelErrorOf({ code: 'model_protocol', message: `the answer of ${PATH} is not a list of models` });
}

/** A refusal in the shape of the SDK's errors, which `anthropicError` reads. */
function refusal({ status, headers }: Response, text: string): Error {
  return Object.assign(new Error(`${PATH} answered ${status}`), { status, headers, error: parsed(text) });
}

/** The value of a JSON text; undefined for any other text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const support = z.object({ supported: z.boolean() }).nullish();

/** A row of the API. Only members that shape requests, or say when the model is retired, are read. */
const rowSchema = z.object({
  id: z.string().min(1).max(MODEL_NAME_CHARACTERS_MAX),
  lifecycle: z.string().nullish(),
  retires_at: z.iso.datetime({ offset: true }).nullish(),
  max_input_tokens: z.number().int().positive().nullish(),
  max_tokens: z.number().int().positive().nullish(),
  capabilities: z
    .object({
      effort: z
        .object({ supported: z.boolean(), low: support, medium: support, high: support, xhigh: support, max: support })
        .nullish(),
      structured_outputs: support,
      server_tools: z.object({ web_search: support, code_execution: support }).nullish(),
      thinking: z
        .object({
          types: z.object({ adaptive: support, between_tools: support, disabled: support, enabled: support }).nullish(),
        })
        .nullish(),
    })
    .nullish(),
});

/**
 * The traits that a row of the API gives; undefined for a row without the documented form. A member that is `null` or
 * missing gives no trait, and neither does an unknown lifecycle.
 */
export function readModel(row: unknown): ListedModel | undefined {
  const read = rowSchema.safeParse(row);
  if (!read.success) return undefined;
  const { id, lifecycle, capabilities, ...limits } = read.data;
  const { effort, structured_outputs: structured, server_tools: server, thinking } = capabilities ?? {};
  const types = thinking?.types;
  return {
    id,
    ...defined({
      thinkingTypes: types ? THINKING_TYPES.filter((each) => types[each]?.supported === true) : undefined,
      efforts: effort ? EFFORTS.filter((each) => effort.supported && effort[each]?.supported === true) : undefined,
      structuredOutputs: structured?.supported,
      webSearch: server?.web_search?.supported,
      codeExecution: server?.code_execution?.supported,
      contextTokensMax: limits.max_input_tokens ?? undefined,
      outputTokensMax: limits.max_tokens ?? undefined,
      lifecycle: LIFECYCLES.find((each) => each === lifecycle),
      retiresAfter: limits.retires_at?.slice(0, 'YYYY-MM-DD'.length),
    }),
  };
}

const LIFECYCLES = ['active', 'deprecated', 'retired'] as const;

function idOf(row: unknown): string {
  const id = isRecord(row) ? row['id'] : undefined;
  return typeof id === 'string' ? id.slice(0, MODEL_NAME_CHARACTERS_MAX) : '(no id)';
}
