/**
 * The sources of `troupe top`: a running server, or a data directory that no process has open. Each call of `look`
 * gives one sample.
 */
import { z } from 'zod';
import { TOP_SESSIONS_MAX } from '../../base/bounds.ts';
import type { Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { pathOf } from '../places/served-reader.ts';
import type { Server } from '../places/server.ts';

/** A session at one moment. */
export interface TopSession {
  readonly id: string;
  readonly agent: string;
  readonly version?: string | undefined;
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
  /** The number of durable events of a session, from which its rate is computed; undefined if the number is unknown. */
  events(session: string): Promise<number | undefined>;
}

const sessionsSchema = z.looseObject({
  sessions: z.array(
    z.looseObject({
      id: z.string(),
      agent: z.string(),
      version: z.string().optional(),
      parent: z.string().optional(),
      name: z.string().optional(),
      state: z.string(),
      mailbox: z.number(),
      updatedAt: z.number(),
    }),
  ),
  next: z.unknown().optional(),
});
// A server of an earlier version has no figures of providers.
const metricsSchema = z.looseObject({
  providers: z.record(z.string(), z.record(z.string(), z.number())).optional(),
});
const snapshotSchema = z.looseObject({ seq: z.number().int() });

/** The source of a place. `look` rejects with `StoreLockedError` while a process has the directory open. */
export function sourceOf(place: Place): TopSource {
  if (place.kind === 'server') return serverSource(place.server);
  return {
    title: place.shown,
    isLive: false,
    look: () =>
      readPlace(place, async (reader) => {
        const { sessions, isCut } = await reader.list({}, TOP_SESSIONS_MAX);
        return { at: Date.now(), sessions, isCut };
      }),
    events: () => Promise.resolve(undefined),
  };
}

function serverSource(server: Server): TopSource {
  return {
    title: server.origin,
    isLive: true,
    look: async () => {
      const [list, metrics] = await Promise.all([
        server.ask(`sessions?limit=${TOP_SESSIONS_MAX}`, sessionsSchema),
        server.ask('metrics.json', metricsSchema),
      ]);
      const numbers = Object.entries(metrics).flatMap(([name, value]) =>
        typeof value === 'number' ? [[name, value] as const] : [],
      );
      const { sessions, next } = list;
      const { providers = {} } = metrics;
      return { at: Date.now(), sessions, isCut: next !== undefined, counters: Object.fromEntries(numbers), providers };
    },
    events: async (session) => (await server.ask(pathOf(session), snapshotSchema)).seq,
  };
}
