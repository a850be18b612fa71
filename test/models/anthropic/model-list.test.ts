/**
 * Goal: `GET /v1/models` is read whole, in bounds, and never harms: its rows become traits, a row without the documented
 * form is left out, and a failure shows no secret. Method: the provider's list against the strict fake, whose form the
 * vendor's SDK checks, and against fetches that misbehave.
 */
import Anthropic from '@anthropic-ai/sdk';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { MODEL_LIST_BYTES_MAX, MODEL_LIST_ENTRIES_MAX, MODEL_LIST_MS_MAX } from '../../../src/base/bounds.ts';
import { systemClock } from '../../../src/base/clock.ts';
import type { ListedModel } from '../../../src/context/model-traits.ts';
import { anthropicModels, readModel } from '../../../src/models/anthropic/model-list.ts';
import type { ModelListing } from '../../../src/models/model-list.ts';
import type { AnthropicData } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { type StrictFake, strictFake } from '../../../src/testing/strict-fake.ts';

const fakes: StrictFake[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const fake of fakes.splice(0)) await fake.close();
});

async function fakeWith(models?: readonly ListedModel[]): Promise<StrictFake> {
  const fake = await strictFake({ script: () => 'Fine.', ...(models === undefined ? {} : { models }) });
  fakes.push(fake);
  return fake;
}

const never = new AbortController().signal;
type Fetch = typeof globalThis.fetch;

function read(data: AnthropicData, fetch?: Fetch): Promise<ModelListing> {
  return anthropicModels(data, fetch).read({ signal: never, clock: systemClock });
}

/** A fetch that answers with these pages, one after another, and the addresses it was asked for. */
function pagesOf(...pages: readonly unknown[]): { readonly fetch: Fetch; readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    fetch: (url) => {
      asked.push(String(url));
      return Promise.resolve(Response.json(pages[asked.length - 1] ?? pages.at(-1)));
    },
  };
}

const numbered = (count: number): readonly ListedModel[] =>
  Array.from({ length: count }, (_, index) => ({ id: `claude-opus-${index + 10}`, efforts: ['low', 'max'] as const }));

const WHOLE: ListedModel = {
  id: 'claude-opus-6',
  thinkingTypes: ['adaptive', 'disabled'],
  efforts: ['low', 'medium', 'high'],
  structuredOutputs: false,
  webSearch: false,
  codeExecution: true,
  contextTokensMax: 2_000_000,
  outputTokensMax: 200_000,
  lifecycle: 'deprecated',
  retiresAfter: '2027-03-04',
};

describe('against the API', () => {
  test('every member of a row is read as it was listed', async () => {
    const fake = await fakeWith([WHOLE]);
    expect(await read({ apiKey: 'k', baseURL: fake.url })).toEqual({ models: [WHOLE] });
  });

  test("the fake lists what the vendor's SDK reads, page by page", async () => {
    const fake = await fakeWith(numbered(45));
    const client = new Anthropic({ apiKey: 'k', baseURL: fake.url });
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(numbered(45).map(({ id }) => id));
    expect((await client.models.retrieve('claude-opus-12')).id).toBe('claude-opus-12');
    await expect(client.models.retrieve('claude-opus-9')).rejects.toMatchObject({ status: 404 });
  });

  test('a list of several pages is read whole', async () => {
    const fake = await fakeWith(numbered(250));
    const { models } = await read({ apiKey: 'k', baseURL: `${fake.url}/` });
    expect(models.map(({ id }) => id)).toEqual(numbered(250).map(({ id }) => id));
  });

  test('without a key nothing is asked, and a request without a key is refused', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', '');
    vi.stubEnv('ANTHROPIC_AUTH_TOKEN', '');
    const fake = await fakeWith();
    expect(anthropicModels({ baseURL: fake.url }, undefined).source()).toBeUndefined();
    await expect(read({ baseURL: fake.url })).rejects.toMatchObject({ code: 'model_authentication' });
    expect((await fetch(`${fake.url}/v1/models`, { headers: { 'anthropic-version': '2026-10-21' } })).status).toBe(401);
    expect((await fetch(`${fake.url}/v1/models`, { headers: { 'x-api-key': 'k' } })).status).toBe(400);
  });

  test('the headers are those of a call: of the options, the environment and a token', async () => {
    vi.stubEnv('ANTHROPIC_CUSTOM_HEADERS', 'x-team: blue\nx-gateway: env');
    const sent: Headers[] = [];
    const fetchOnce: Fetch = (_url, init) => {
      sent.push(new Headers(init?.headers));
      return Promise.resolve(Response.json({ data: [], has_more: false, last_id: null }));
    };
    await read({ authToken: 'token-1', headers: { 'x-gateway': 'own' } }, fetchOnce);
    await read({ headers: { 'x-api-key': 'in-a-header' } }, fetchOnce);
    const shown = sent.map((each) =>
      ['authorization', 'x-api-key', 'x-team', 'x-gateway'].map((name) => each.get(name)),
    );
    expect(shown).toEqual([
      ['Bearer token-1', null, 'blue', 'own'],
      [null, 'in-a-header', 'blue', 'env'],
    ]);
    expect(sent[0]?.get('anthropic-version')).toBe('2026-10-21');
  });
});

describe('rows', () => {
  test('fields that are not known are ignored, and what is null or missing says nothing', () => {
    expect(readModel({ id: 'm', capabilities: null, lifecycle: 'sunset', line: 'quill', max_tokens: null })).toEqual({
      id: 'm',
    });
    const capabilities = {
      effort: { supported: true, low: { supported: true }, ultra: { supported: true }, xhigh: null },
      thinking: { supported: true, types: { adaptive: { supported: true }, dreaming: { supported: true } } },
      telepathy: { supported: true },
    };
    expect(readModel({ id: 'm', capabilities })).toEqual({ id: 'm', efforts: ['low'], thinkingTypes: ['adaptive'] });
    expect(readModel({ id: 'm', capabilities: { effort: { supported: false } } })).toEqual({ id: 'm', efforts: [] });
  });

  test('a row without the documented form is left out and named; the others are read', async () => {
    const data = [
      { id: 'a' },
      { id: 7 },
      null,
      { id: 'b', capabilities: { effort: { supported: 'yes' } } },
      { id: 'c' },
    ];
    const { fetch: given } = pagesOf({ data, has_more: false, last_id: 'c' });
    expect(await read({ apiKey: 'k' }, given)).toEqual({
      models: [{ id: 'a' }, { id: 'c' }],
      unread: ['(no id)', '(no id)', 'b'],
    });
  });
});

describe('bounds', () => {
  test('a list that never ends is read up to the bound of pages', async () => {
    let page = 0;
    const endless: Fetch = () => {
      page += 1;
      return Promise.resolve(Response.json({ data: [{ id: `m${page}` }], has_more: true, last_id: `m${page}` }));
    };
    expect((await read({ apiKey: 'k' }, endless)).models).toHaveLength(10);
    expect(page).toBe(10);
  });

  test('a list that names the same end again has ended', async () => {
    const { fetch: given, asked } = pagesOf({ data: [{ id: 'a' }], has_more: true, last_id: 'a' });
    expect((await read({ apiKey: 'k' }, given)).models).toEqual([{ id: 'a' }]);
    expect(asked).toHaveLength(2);
  });

  test('rows beyond the bound of entries are left out', async () => {
    const data = Array.from({ length: MODEL_LIST_ENTRIES_MAX + 5 }, (_, index) => ({ id: `m${index}` }));
    const { fetch: given } = pagesOf({ data, has_more: false, last_id: 'x' });
    expect((await read({ apiKey: 'k' }, given)).models).toHaveLength(MODEL_LIST_ENTRIES_MAX);
  });

  test('a page beyond the bound of bytes is not a list', async () => {
    const long = JSON.stringify({
      data: [{ id: 'a', display_name: 'x'.repeat(MODEL_LIST_BYTES_MAX) }],
      has_more: false,
    });
    await expect(read({ apiKey: 'k' }, () => Promise.resolve(new Response(long)))).rejects.toMatchObject({
      code: 'model_protocol',
    });
  });

  test('a list that does not come ends at its deadline, even if fetch ignores the signal', async () => {
    const clock = manualClock();
    const list = anthropicModels({ apiKey: 'k' }, () => new Promise(() => {}));
    const answer = list.read({ signal: never, clock }).catch((error: unknown) => error);
    await clock.advance(MODEL_LIST_MS_MAX - 1);
    expect(await Promise.race([answer, Promise.resolve('still waiting')])).toBe('still waiting');
    await clock.advance(1);
    expect(await answer).toMatchObject({ code: 'model_timeout' });
  });
});

describe('failures', () => {
  test('N3: an error names the cause and shows no key', async () => {
    const key = 'sk-ant-very-secret-key';
    const refuse: Fetch = () =>
      Promise.resolve(
        Response.json({ type: 'error', error: { type: 'permission_error', message: `no: ${key}` } }, { status: 403 }),
      );
    const error = await read({ apiKey: key }, refuse).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'model_authentication', status: 403, message: 'no: [redacted]' });
    expect(JSON.stringify(error)).not.toContain(key);
  });

  test.each([
    ['a page of a gateway', new Response('<html>hello</html>')],
    ['JSON of another form', Response.json({ models: [] })],
  ])('%s is not a list', async (_what, response) => {
    await expect(read({ apiKey: 'k' }, () => Promise.resolve(response))).rejects.toMatchObject({
      code: 'model_protocol',
    });
  });

  test('a redirect is not followed, since the key would go along', async () => {
    const fake = await fakeWith();
    let redirect: string | undefined;
    const spy: Fetch = (url, init) => {
      redirect = init?.redirect;
      return fetch(url, init);
    };
    await read({ apiKey: 'k', baseURL: fake.url }, spy);
    expect(redirect).toBe('error');
  });
});
