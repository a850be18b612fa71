/**
 * W10: 1,000 streams at once from a server in another process, each 40 events a second, one event a write, 200 events
 * an answer. Measures the processor time of an event: troupe without a reader and with a reader of everything, the
 * official SDK, and `node:http` with troupe's parsing. With a reader it also measures the time from the socket to the
 * reader. The SDK runs fewer streams, since it cannot hold the pace of all.
 */
import { Agent, request } from 'node:http';
import { setImmediate as nextRound } from 'node:timers/promises';
import { Anthropic } from '@anthropic-ai/sdk';
import { anthropic } from '../../src/index.ts';
import { EventStreamParser } from '../../src/models/anthropic/event-stream.ts';
import { ResponseAssembly } from '../../src/models/anthropic/response-assembly.ts';
import { costOf } from '../cost.ts';
import { NO_READER, READER_OF_ALL, type RunContext } from '../names.ts';
import { type Figures, latencies, numbers, type Row } from '../report/figures.ts';
import { startStage } from '../stage.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import { expectWholeAnswer, STREAM_EVENTS, textAgeMs } from '../systems/streamed-text.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';

const STREAMS = 1_000;
const SDK_STREAMS = 300;
const QUICK_STREAMS = 100;
/** The plot shows the cost by the number of streams. */
const FEWER_STREAMS = [100, 300];
const REPETITIONS = 3;
const US_A_MS = 1_000;
const BODY = { model: 'claude-opus-4-6', max_tokens: 8_192, messages: [{ role: 'user' as const, content: 'go' }] };

/** One answer, read to its end. `name` is new for each answer. */
type Stream = (name: string) => Promise<string>;

/** W10. */
export async function measureStreaming(context: RunContext): Promise<readonly Row[]> {
  const full = context.system === 'sdk' ? SDK_STREAMS : STREAMS;
  const counts = context.scale === 'quick' ? [QUICK_STREAMS] : [...FEWER_STREAMS.filter((each) => each < full), full];
  const rows: Row[] = [];
  for (const streams of counts)
    rows.push(...(await withServer(streams, (baseURL) => measure(context, streams, baseURL))));
  return rows;
}

async function withServer<T>(streams: number, use: (baseURL: string) => Promise<T>): Promise<T> {
  const server = startStage('./systems/stream-server', [String(streams)]);
  try {
    return await use(`http://127.0.0.1:${Number(await server.line())}`);
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

async function measure(context: RunContext, streams: number, baseURL: string): Promise<readonly Row[]> {
  const count = `${streams.toLocaleString('en-US')} streams`;
  if (context.system === 'sdk') {
    return [{ variant: `${count}, ${NO_READER}`, repetitions: await repeat(streams, sdkStream(baseURL)) }];
  }
  if (context.system === 'http') {
    return [{ variant: `${count}, ${NO_READER}`, repetitions: await repeat(streams, httpStream(baseURL)) }];
  }
  const provider = anthropic({ apiKey: 'bench', baseURL, listModels: false });
  return withTroupe({ isolation: isolationOf(context), provider }, async (system) => {
    const unread = await repeat(streams, (name) => system.runtime.session(`unread-${name}`).ask('go'));
    return [
      { variant: `${count}, ${NO_READER}`, repetitions: unread },
      { variant: `${count}, ${READER_OF_ALL}`, repetitions: await repeatRead(system, streams) },
    ];
  });
}

async function repeatRead(system: TroupeSystem, streams: number): Promise<readonly Figures[]> {
  const events = system.runtime.events({ mode: 'debug' });
  let ages: number[] = [];
  let gaps = 0;
  const reading = (async () => {
    for await (const event of events) {
      if (event.type === 'text.delta' && typeof event.text === 'string') ages.push(textAgeMs(event.text));
      if (event.type === 'gap') gaps += 1;
    }
  })();
  const figures = await repeat(
    streams,
    (name) => system.runtime.session(`read-${name}`).ask('go'),
    async () => {
      // Events that are on their way to the reader belong to this repetition.
      await nextRound();
      const { p50, p99 } = latencies(ages);
      const read = { readerP50: p50, readerP99: p99, readEvents: ages.length, gaps };
      [ages, gaps] = [[], 0];
      return read;
    },
  );
  await events.return?.();
  await reading;
  return figures;
}

/** Repeats the streams after an unmeasured repetition. `after` adds figures of the repetition. */
async function repeat(
  streams: number,
  stream: Stream,
  after: () => Promise<Figures> = async () => ({}),
): Promise<readonly Figures[]> {
  const repetitions: Figures[] = [];
  for (const index of numbers(REPETITIONS + 1)) {
    const { figures, cpuMs } = await costOf(async () => {
      const answers = await Promise.all(numbers(streams).map((each) => stream(`${streams}-${index}-${each}`)));
      for (const answer of answers) expectWholeAnswer(answer);
    });
    const more = await after();
    if (index > 0) repetitions.push({ ...figures, ...more, cpuUs: (cpuMs * US_A_MS) / (streams * STREAM_EVENTS) });
  }
  return repetitions;
}

function sdkStream(baseURL: string): Stream {
  const client = new Anthropic({ apiKey: 'bench', baseURL, maxRetries: 0, logLevel: 'off' });
  return async () => {
    const { content } = await client.messages.stream(BODY).finalMessage();
    return content[0]?.type === 'text' ? content[0].text : '';
  };
}

function httpStream(baseURL: string): Stream {
  const agent = new Agent({ keepAlive: true });
  const body = JSON.stringify({ ...BODY, stream: true });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return () =>
    new Promise((resolve, reject) => {
      const sent = request(`${baseURL}/v1/messages`, { method: 'POST', agent, headers }, (response) => {
        const assembly = new ResponseAssembly(() => undefined);
        const parser = new EventStreamParser((name, data) => assembly.accept(name, data));
        response.on('data', (chunk: Uint8Array) => parser.push(chunk));
        response.on('end', () => {
          const [block] = assembly.response().content;
          resolve(block?.type === 'text' ? block.text : '');
        });
        response.on('error', reject);
      });
      sent.on('error', reject).end(body);
    });
}
