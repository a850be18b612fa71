/**
 * Goal: the spans and metrics of a run, as a back end receives them. Method: the SDKs of OpenTelemetry with exporters
 * in memory, a scripted model, and names written out as in the conventions.
 */
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { agent, type ModelProvider, type OpenOptions, type Runtime } from '../../src/index.ts';
import { type Instrumentation, type InstrumentOptions, instrument } from '../../src/otel/index.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { add } from '../support/pure-tools.ts';
import { eventually, gatedModel, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const open: Instrumentation[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const each of open.splice(0)) each.stop();
});

interface Watched {
  readonly runtime: Runtime;
  readonly instrumentation: Instrumentation;
  readonly spans: () => readonly ReadableSpan[];
  /** Data points by metric name. */
  readonly metrics: () => Promise<ReadonlyMap<string, Metric>>;
}

interface Metric {
  readonly unit: string;
  readonly points: readonly { readonly attributes: Readonly<Record<string, unknown>>; readonly value: unknown }[];
}

async function watched(options: OpenOptions, given: InstrumentOptions = {}): Promise<Watched> {
  const runtime = await kit.open(options);
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: metricExporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const instrumentation = instrument(runtime, { tracerProvider, meterProvider, ...given });
  open.push(instrumentation);
  return {
    runtime,
    instrumentation,
    spans: () => exporter.getFinishedSpans(),
    metrics: async () => {
      metricExporter.reset();
      await meterProvider.forceFlush();
      const found = new Map<string, Metric>();
      for (const { scopeMetrics } of metricExporter.getMetrics()) {
        for (const { metrics } of scopeMetrics) {
          for (const { descriptor, dataPoints } of metrics) {
            found.set(descriptor.name, {
              unit: descriptor.unit,
              points: dataPoints.map(({ attributes, value }) => ({ attributes, value })),
            });
          }
        }
      }
      return found;
    },
  };
}

function named(spans: readonly ReadableSpan[], name: string): ReadableSpan {
  const found = spans.find((span) => span.name === name);
  if (found === undefined) throw new Error(`no span ${name} among ${spans.map((span) => span.name).join(', ')}`);
  return found;
}

function boundariesOf(value: unknown): unknown {
  return (value as { readonly buckets: { readonly boundaries: unknown } }).buckets.boundaries;
}

const calculator = agent({ name: 'calculator', model: 'claude-haiku-4-5', tools: [add] });
const sum = [{ toolUse: { name: 'add', input: { a: 1, b: 2 } } }, 'the secret is three'];

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('a turn is an invoke_agent span with chat and execute_tool spans below it, without content', async () => {
    const { runtime, spans } = await watched({ threads, provider: scripted(sum), agents: [calculator] });
    await runtime.session('sum').ask('What is the secret?');
    await eventually(() => spans().length === 4);
    const turn = named(spans(), 'invoke_agent calculator');
    expect(turn.kind).toBe(SpanKind.INTERNAL);
    expect(turn.attributes).toMatchObject({
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.provider.name': 'scripted',
      'gen_ai.system': 'scripted',
      'gen_ai.agent.name': 'calculator',
      'gen_ai.conversation.id': 'sum',
      'gen_ai.request.model': 'claude-haiku-4-5',
    });
    const below = spans().filter((span) => span !== turn);
    for (const span of below) {
      expect(span.parentSpanContext?.spanId).toBe(turn.spanContext().spanId);
      expect(span.spanContext().traceId).toBe(turn.spanContext().traceId);
    }
    const chats = below.filter((span) => span.name === 'chat claude-haiku-4-5');
    expect(chats.map((span) => [span.kind, span.attributes['gen_ai.response.finish_reasons']])).toEqual([
      [SpanKind.CLIENT, ['tool_use']],
      [SpanKind.CLIENT, ['end_turn']],
    ]);
    for (const chat of chats) expect(chat.attributes['gen_ai.usage.output_tokens']).toBeGreaterThan(0);
    expect(named(spans(), 'execute_tool add').attributes).toMatchObject({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'add',
      'gen_ai.tool.type': 'function',
    });
    expect(JSON.stringify(spans().map(({ attributes, status }) => [attributes, status]))).not.toContain('secret');
  });

  test('the turn of a child is below the parent turn that spawned it', async () => {
    const script = {
      rules: [
        {
          when: { text: 'ask around', call: 0 },
          reply: { toolUse: { name: 'spawn_subagent', input: { task: 'look', name: 'scout' } } },
        },
      ],
      otherwise: 'ok',
    };
    const { runtime, spans } = await watched({
      threads,
      provider: scripted(script),
      agents: [agent({ name: 'lead', subagents: { spawn: true } })],
    });
    await runtime.session('root').ask('ask around');
    await runtime.drain();
    await eventually(() =>
      spans().some(
        (span) => span.attributes['gen_ai.conversation.id'] === 'root:1' && span.name.startsWith('invoke_agent'),
      ),
    );
    const first = spans()
      .filter((span) => span.attributes['gen_ai.conversation.id'] === 'root' && span.name === 'invoke_agent lead')
      .at(0);
    const child = spans().find(
      (span) => span.attributes['gen_ai.conversation.id'] === 'root:1' && span.name === 'invoke_agent lead',
    );
    expect(child?.parentSpanContext?.spanId).toBe(first?.spanContext().spanId);
    expect(child?.spanContext().traceId).toBe(first?.spanContext().traceId);
  });

  test('metrics have the names, units and buckets of the conventions, and no session attribute', async () => {
    const { runtime, spans, metrics } = await watched({ threads, provider: scripted(sum), agents: [calculator] });
    await runtime.session('sum').ask('What is the secret?');
    await eventually(() => spans().length === 4);
    const found = await metrics();
    const tokens = found.get('gen_ai.client.token.usage');
    expect(tokens?.unit).toBe('{token}');
    expect(tokens?.points.map(({ attributes }) => attributes['gen_ai.token.type']).sort()).toEqual(['input', 'output']);
    expect(boundariesOf(tokens?.points[0]?.value)).toEqual([
      1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
    ]);
    const duration = found.get('gen_ai.client.operation.duration');
    expect(duration?.unit).toBe('s');
    expect(duration?.points[0]?.attributes).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'scripted',
      'gen_ai.request.model': 'claude-haiku-4-5',
    });
    expect(boundariesOf(duration?.points[0]?.value)).toEqual([
      0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    ]);
    expect(found.get('gen_ai.invoke_agent.inference_calls')?.points[0]?.value).toMatchObject({ count: 1, sum: 2 });
    expect(found.get('gen_ai.invoke_agent.tool_calls')?.points[0]?.value).toMatchObject({ count: 1, sum: 1 });
    expect(found.get('gen_ai.execute_tool.duration')?.points[0]?.attributes).toMatchObject({
      'gen_ai.tool.name': 'add',
    });
    expect(found.get('actor.mailbox.wait')?.points).toHaveLength(2);
    for (const { value } of found.get('actor.mailbox.depth')?.points ?? []) expect(value).toBe(0);
    for (const name of [
      'gen_ai.invoke_agent.duration',
      'actor.turn.duration',
      'actor.restarts',
      'actor.sessions',
      'pool.queue.depth',
    ]) {
      expect(found.get(name)?.points.length, name).toBeGreaterThan(0);
    }
    for (const { points } of found.values()) {
      for (const { attributes } of points) expect(Object.values(attributes)).not.toContain('sum');
    }
  });
});

test('agents of several providers: each call has its provider and model, and each queue its name', async () => {
  const own: ModelProvider = {
    name: 'own',
    generate: async () => ({
      content: [{ type: 'text', text: 'two' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    }),
  };
  const { runtime, spans, metrics } = await watched({
    provider: scripted(['one']),
    providers: { other: own },
    agents: [agent({ name: 'a', model: 'm-1' }), agent({ name: 'b', model: 'other/m-2' })],
  });
  await runtime.session('a', 'a').ask('Hi');
  await runtime.session('b', 'b').ask('Hi');
  await eventually(() => spans().length === 4);
  expect(named(spans(), 'chat m-1').attributes['gen_ai.provider.name']).toBe('scripted');
  expect(named(spans(), 'chat m-2').attributes['gen_ai.provider.name']).toBe('own');
  expect((await metrics()).get('pool.queue.depth')?.points).toEqual([
    { attributes: { 'pool.name': 'models' }, value: 0 },
    { attributes: { 'pool.name': 'models', 'pool.provider': 'other' }, value: 0 },
    { attributes: { 'pool.name': 'tools' }, value: 0 },
  ]);
});

test('content is exported on request', async () => {
  const { runtime, spans } = await watched({ provider: scripted(sum), agents: [calculator] }, { captureContent: true });
  await runtime.session('sum').ask('What is the secret?');
  await eventually(() => spans().length === 4);
  const all = spans();
  expect(JSON.parse(String(named(all, 'invoke_agent calculator').attributes['gen_ai.input.messages']))).toEqual([
    { role: 'user', parts: [{ type: 'text', content: 'What is the secret?' }] },
  ]);
  const outputs = all
    .filter(({ name }) => name.startsWith('chat'))
    .map(({ attributes }) => JSON.parse(String(attributes['gen_ai.output.messages'])) as unknown);
  expect(outputs[0]).toMatchObject([{ role: 'assistant', parts: [{ type: 'tool_call', name: 'add' }] }]);
  expect(outputs[1]).toEqual([
    { role: 'assistant', parts: [{ type: 'text', content: 'the secret is three' }], finish_reason: 'end_turn' },
  ]);
  const called = named(all, 'execute_tool add').attributes;
  expect(JSON.parse(String(called['gen_ai.tool.call.arguments']))).toEqual({ a: 1, b: 2 });
  expect(called['gen_ai.tool.call.result']).toBe('3');
});

test('each attempt is a span; a failed attempt has its status as error.type', async () => {
  const clock = manualClock();
  const provider = scripted([{ error: { status: 529 } }, 'ok'], { clock });
  const { runtime, spans, metrics } = await watched({ clock, random: () => 0.5, provider });
  const answer = (await runtime.session('s').send('hi')).answer();
  await eventually(() => spans().length === 1);
  await clock.advance(120_000);
  await answer;
  await eventually(() => spans().length === 3);
  const [failed, good] = spans().filter(({ name }) => name.startsWith('chat'));
  expect(failed?.status.code).toBe(SpanStatusCode.ERROR);
  expect(failed?.attributes).toMatchObject({ 'error.type': '529', 'actor.attempt': 1 });
  expect(good?.status.code).toBe(SpanStatusCode.UNSET);
  expect(good?.attributes).toMatchObject({ 'actor.attempt': 2 });
  const points = (await metrics()).get('gen_ai.client.operation.duration')?.points ?? [];
  expect(points.map(({ attributes }) => attributes['error.type']).sort()).toEqual(['529', undefined]);
});

test('gen_ai_latest_experimental leaves out the older names', async () => {
  vi.stubEnv('OTEL_SEMCONV_STABILITY_OPT_IN', 'http, gen_ai_latest_experimental');
  const { runtime, spans } = await watched({ provider: scripted(['ok']) });
  await runtime.session('s').ask('hi');
  await eventually(() => spans().length === 2);
  for (const { attributes } of spans()) {
    expect(attributes['gen_ai.provider.name']).toBe('scripted');
    expect(attributes).not.toHaveProperty('gen_ai.system');
  }
});

test('stop ends open spans and exports no more; another runtime is not exported', async () => {
  const model = gatedModel();
  const { runtime, spans, metrics, instrumentation } = await watched({ provider: model.provider });
  const other = await kit.open({ provider: scripted(() => 'ok') as never });
  await other.session('other').ask('hi');
  const receipt = await runtime.session('s').send('hi');
  const call = await model.next();
  // The entry left the mailbox, so the turn and its call have begun.
  await eventually(async () => (await metrics()).get('actor.mailbox.wait')?.points.length === 1);
  expect(spans()).toEqual([]);
  instrumentation.stop();
  instrumentation.stop();
  expect(spans().map(({ attributes }) => attributes['gen_ai.conversation.id'])).toEqual(['s', 's']);
  call.answer('late');
  await receipt.answer();
  await other.session('other').ask('again');
  expect(spans()).toHaveLength(2);
});
