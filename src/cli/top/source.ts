/**
 * The sources of `troupe top`: a running server, or a data directory that no process has open. Each call of `look`
 * gives one sample.
 */
import { z } from 'zod';
import { TOP_ANSWER_BYTES_MAX, TOP_SESSIONS_MAX, TOP_TIMEOUT_MS } from '../../base/bounds.ts';
import { UsageError } from '../command.ts';
import { readStore } from '../stored-sessions.ts';

/** A session at one moment. */
export interface TopSession {
  readonly id: string;
  readonly agent: string;
  readonly parent?: string | undefined;
  readonly name?: string | undefined;
  readonly state: string;
  readonly mailbox: number;
  /** Epoch ms of the session's last change. */
  readonly updatedAt: number;
}

/** The sample of one moment. */
export interface TopSample {
  /** Epoch ms of the sample. */
  readonly at: number;
  readonly sessions: readonly TopSession[];
  /** True if there are more sessions than were requested. */
  readonly isCut: boolean;
  /** Counters of the runtime; missing without a running runtime. */
  readonly counters?: Readonly<Record<string, number>>;
  /** Figures of each provider by its name; missing without a running runtime. */
  readonly providers?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** See the head of the file. */
export interface TopSource {
  /** The name of the source, for people. */
  readonly title: string;
  readonly isLive: boolean;
  /** Takes a sample. Rejects when the source cannot be read. */
  look(): Promise<TopSample>;
  /** Number of durable events of a session, from which its rate is computed; undefined when it is unknown. */
  events(session: string): Promise<number | undefined>;
}

const sessionsSchema = z.looseObject({
  sessions: z.array(
    z.looseObject({
      id: z.string(),
      agent: z.string(),
      parent: z.string().optional(),
      name: z.string().optional(),
      state: z.string(),
      mailbox: z.number(),
      updatedAt: z.number(),
    }),
  ),
  next: z.unknown().optional(),
});
const countersSchema = z.record(z.string(), z.unknown());
// A server of an earlier version has no figures of providers.
const providersSchema = z.looseObject({
  providers: z.record(z.string(), z.record(z.string(), z.number())).optional(),
});
const snapshotSchema = z.looseObject({ seq: z.number().int() });
const problemSchema = z.looseObject({ title: z.string().optional(), detail: z.string().optional() });

/**
 * A server of the HTTP interface. Throws `UsageError` for an invalid address. `token`: the token that the server
 * requires.
 */
export function serverSource(address: string, token: string | undefined): TopSource {
  const base = URL.canParse(address) ? new URL(address) : undefined;
  if (base === undefined || (base.protocol !== 'http:' && base.protocol !== 'https:')) {
    throw new UsageError(`--url must be an http or https address, got ${JSON.stringify(address)}`);
  }
  const ask = (path: string): Promise<unknown> => answerOf(new URL(path, withSlash(base)), token);
  return {
    title: base.origin,
    isLive: true,
    look: async () => {
      const [list, metrics] = await Promise.all([ask(`sessions?limit=${TOP_SESSIONS_MAX}`), ask('metrics.json')]);
      const { sessions, next } = checked(sessionsSchema, list, base);
      const numbers = Object.entries(checked(countersSchema, metrics, base)).flatMap(([name, value]) =>
        typeof value === 'number' ? [[name, value] as const] : [],
      );
      const { providers = {} } = checked(providersSchema, metrics, base);
      return { at: Date.now(), sessions, isCut: next !== undefined, counters: Object.fromEntries(numbers), providers };
    },
    events: async (session) => checked(snapshotSchema, await ask(`sessions/${encodeURIComponent(session)}`), base).seq,
  };
}

/** A data directory. `look` rejects with `StoreLockedError` while a process has it open. */
export function directorySource(directory: string, title: string): TopSource {
  return {
    title,
    isLive: false,
    look: () =>
      readStore(directory, (stored) => {
        const sessions = stored.list();
        return { at: Date.now(), sessions, isCut: false };
      }),
    events: () => Promise.resolve(undefined),
  };
}

async function answerOf(url: URL, token: string | undefined): Promise<unknown> {
  const response = await fetch(url, {
    headers: { accept: 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    signal: AbortSignal.timeout(TOP_TIMEOUT_MS),
  }).catch((cause: unknown) => {
    throw new Error(`${url.origin} does not answer`, { cause });
  });
  const text = await textOf(response, url);
  if (!response.ok) throw new Error(`${url.origin} answered ${response.status}${reasonOf(text)}`);
  return parsed(text, url);
}

/** The body of a response, up to a bound. */
async function textOf(response: Response, url: URL): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const piece of response.body ?? []) {
    const part = piece as Uint8Array;
    bytes += part.byteLength;
    if (bytes > TOP_ANSWER_BYTES_MAX) throw new Error(`${url.origin} answered more than ${TOP_ANSWER_BYTES_MAX} bytes`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function parsed(text: string, url: URL): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new Error(`${url.origin} answered something that is not JSON; is it a troupe server?`, { cause });
  }
}

function checked<T>(schema: z.ZodType<T>, value: unknown, base: URL): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new Error(`${base.origin} answered something unexpected; is it a troupe server?`, { cause: result.error });
}

function reasonOf(text: string): string {
  try {
    const problem = problemSchema.safeParse(JSON.parse(text));
    const reason = problem.data?.detail ?? problem.data?.title;
    return reason === undefined ? '' : `: ${reason}`;
  } catch {
    // The body is not a problem document, so only the status says what failed.
    return '';
  }
}

function withSlash(base: URL): URL {
  const copy = new URL(base);
  if (!copy.pathname.endsWith('/')) copy.pathname += '/';
  copy.search = '';
  return copy;
}
