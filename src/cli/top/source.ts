/**
 * The sources of `troupe top`: a running server, or a data directory that no process has open. Each call of `look`
 * gives one sample.
 */
import { z } from 'zod';
import { TOP_SESSIONS_MAX } from '../../base/bounds.ts';
import { answerOf, checked, serverAddress } from '../served-answers.ts';
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

/**
 * A server of the HTTP interface. Throws `UsageError` for an invalid address. `token`: the token that the server
 * requires.
 */
export function serverSource(address: string, token: string | undefined): TopSource {
  const base = serverAddress(address);
  const ask = (path: string): Promise<unknown> => answerOf(base, path, { token });
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
