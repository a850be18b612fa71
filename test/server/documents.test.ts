/** Goal: readers can use the OpenAPI document and the metrics text as their formats promise. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { agent } from '../../src/index.ts';
import { createApplication } from '../../src/server/application.ts';
import { checkHandlerOptions } from '../../src/server/options.ts';
import { prometheusText } from '../../src/server/prometheus.ts';
import { echo, serverKit } from './support.ts';

const kit = serverKit();

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { readonly schema: object }>>;
  };
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
}
interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

describe('/openapi.json', () => {
  test('has each route of the router, and no other', async () => {
    const { get, runtime } = await kit.serve();
    const { paths, openapi } = (await get('/openapi.json')).body as Document;
    expect(openapi).toBe('3.1.0');
    const documented = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const { routes } = createApplication(runtime, checkHandlerOptions({}));
    const routed = routes.map((line) => line.replaceAll(/:(\w+)/g, '{$1}').replace('*', '{file}'));
    expect(documented.toSorted()).toEqual([...new Set(routed)].toSorted());
    expect(documented).toContain('POST /sessions/{id}/messages');
  });

  test('docs/http.md lists each route of the router, and no other', async () => {
    const { runtime } = await kit.serve();
    const text = readFileSync(new URL('../../docs/http.md', import.meta.url), 'utf8');
    const listed = [...text.matchAll(/^\| `([A-Z]+ \/[^`]*)` \|/gm)].map(([, line]) => line);
    const { routes } = createApplication(runtime, checkHandlerOptions({}));
    expect(listed.toSorted()).toEqual([...new Set(routes)].toSorted());
  });

  test('names each operation once, with the parameters of its path and its responses', async () => {
    const { get } = await kit.serve();
    const { paths } = (await get('/openapi.json')).body as Document;
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.values(methods).map((operation) => ({ path, ...operation })),
    );
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
    for (const { path, parameters, responses, summary } of operations) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect(parameters.filter((each) => each.in === 'path').map(({ name }) => name)).toEqual(inPath);
      expect(Object.keys(responses).length).toBeGreaterThan(0);
      expect(summary).not.toBe('');
      expect(parameters.map(({ name }) => name)).not.toContain('token');
    }
  });

  test('consists of the schemas that validate requests', async () => {
    const { get } = await kit.serve();
    const { paths } = (await get('/openapi.json')).body as Document;
    const send = paths['/sessions/{id}/messages']?.['post'];
    expect(send?.requestBody).toMatchObject({
      required: true,
      content: {
        'application/json': {
          schema: {
            required: ['content'],
            additionalProperties: false,
            properties: { deliver: { enum: ['ride', 'steer', 'turn', 'interrupt', 'merge', 'latest', 'reject'] } },
          },
        },
      },
    });
    const list = paths['/sessions']?.['get'];
    expect(list?.parameters.map(({ name }) => name)).toEqual([
      'after',
      'limit',
      'order',
      'parent',
      'status',
      'state',
      'outcome',
      'agent',
      'changedAfter',
      'changedBefore',
      'children',
    ]);
  });
});

interface Family {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly { readonly name: string; readonly labels: string; readonly value: number }[];
}

/** Reads the text format 0.0.4 strictly: for each family HELP, TYPE, then its samples. */
function parse(text: string): ReadonlyMap<string, Family> {
  const families = new Map<string, Family & { samples: { name: string; labels: string; value: number }[] }>();
  expect(text.endsWith('\n')).toBe(true);
  let help = { name: '', text: '' };
  let current = '';
  for (const line of text.slice(0, -1).split('\n')) {
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
    if (comment?.[1] === 'HELP') help = { name: comment[2] ?? '', text: comment[3] ?? '' };
    else if (comment?.[1] === 'TYPE') {
      current = comment[2] ?? '';
      expect(current).toBe(help.name);
      expect(families.has(current)).toBe(false);
      families.set(current, { type: comment[3] ?? '', help: help.text, samples: [] });
    } else {
      const sample = /^([a-zA-Z_:][a-zA-Z0-9_:]*)((?:\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)+\})?) (\S+)$/.exec(
        line,
      );
      if (sample === null) throw new Error(`not a sample: ${line}`);
      const value = Number(sample[3]);
      expect(Number.isFinite(value)).toBe(true);
      expect(sample[1]).toBe(current);
      families.get(current)?.samples.push({ name: current, labels: sample[2] ?? '', value });
    }
  }
  return families;
}

describe('/metrics', () => {
  test('is text that Prometheus reads; each family has help, type and one sample; counters end in _total', async () => {
    const { get, post, runtime } = await kit.serve();
    await post('/sessions/s/messages', { content: 'Hi' });
    await runtime.drain();
    const { body, headers } = await get('/metrics');
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const families = parse(body as string);
    for (const [name, { type, samples }] of families) {
      expect(name).toMatch(/^troupe_[a-z0-9_]+$/);
      expect(['counter', 'gauge']).toContain(type);
      expect(name.endsWith('_total')).toBe(type === 'counter');
      expect(samples).toHaveLength(1);
    }
    expect(families.get('troupe_half_steps_total')?.samples[0]?.value).toBe(1);
    expect(families.get('troupe_accepted_messages_total')?.samples[0]?.value).toBe(1);
    expect(families.get('troupe_store_degraded')?.samples[0]?.value).toBe(0);
    expect(families.get('troupe_process_memory_bytes')?.samples[0]?.value).toBeGreaterThan(1e6);
  });

  test('has a sample for each provider, with its name as label', async () => {
    const runtime = await kit.open({
      providers: { claude: echo, gpt: echo },
      agents: [agent({ name: 'a', model: 'gpt/m' })],
    });
    await runtime.session('s').ask('Hi');
    const host = { loopDelayMs: 1, loopDelayP99Ms: 2, memoryBytes: 4, eventStreams: 5 };
    const families = parse(prometheusText(runtime.metrics(), host, runtime.info()));
    expect(families.get('troupe_provider_model_calls_total')).toMatchObject({
      type: 'counter',
      samples: [
        { labels: '{provider="claude"}', value: 0 },
        { labels: '{provider="gpt"}', value: 1 },
      ],
    });
    expect(families.get('troupe_provider_circuits_open')?.samples).toHaveLength(2);
  });

  test('has every number that the runtime reports, and escapes label values', async () => {
    const runtime = await kit.open({ provider: echo });
    const { degraded: _degraded, providers: _providers, ...figures } = runtime.metrics();
    const distinct = Object.fromEntries(Object.keys(figures).map((name, index) => [name, 1_000 + index]));
    const host = { loopDelayMs: 1, loopDelayP99Ms: 2, memoryBytes: 4, eventStreams: 5 };
    const info = { ...runtime.info(), version: 'a"b\\c\nd' };
    const families = parse(prometheusText({ ...runtime.metrics(), ...distinct, degraded: 'full' }, host, info));
    const values = [...families.values()].flatMap(({ samples }) => samples.map(({ value }) => value));
    const { compactionSliceMs, ...others } = distinct;
    expect(values).toEqual(expect.arrayContaining([...Object.values(others), Number(compactionSliceMs) / 1_000]));
    expect(families.get('troupe_store_degraded')?.samples[0]?.value).toBe(1);
    expect(families.get('troupe_loop_delay_p99_seconds')?.samples[0]?.value).toBe(0.002);
    expect(families.get('troupe_info')?.samples[0]?.labels).toContain('version="a\\"b\\\\c\\nd"');
  });
});
