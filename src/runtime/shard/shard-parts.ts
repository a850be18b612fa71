/** What a shard is made of, and how it answers. */
import type { AgentCatalog } from '../../../actors/agent-catalog.ts';
import type { MuseQuestion, MuseWord } from '../../../actors/enrichers/muse-sources.ts';
import type { Shelf } from '../../../actors/result-shelf.ts';
import type { Limits, ShardBounds } from '../../base/bounds.ts';
import type { Clock, Random, Soon } from '../../base/clock.ts';
import { errorShape, type TroupeError } from '../../base/errors.ts';
import type { Settings } from '../../base/settings.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { Durability, Journal } from '../../journal/journal.ts';
import type { ModelPool, ModelPoolListener } from '../../models/pool.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { ToolPool, ToolPoolListener } from '../../tools/pool.ts';
import type { HostQuestion, HostWord } from '../protocol/host-decisions.ts';
import type { Counters } from '../protocol/metrics.ts';
import type { LogLine, SaidNote, SessionIntroduction } from '../protocol/protocol.ts';
import type { IsolatedSessions } from './isolated-sessions.ts';
import type { SessionInHand } from './session-in-hand.ts';

/** The requester of an input. Settled once, after the flush. */
export interface Reply {
  /** What is awaited comes later: the flush need not be hurried for this (Q5 of the commit queue). */
  readonly isPatient?: boolean;
  /** Runs within the turn that accepted a message, before anything is durable; not for one that was accepted before. */
  readonly onAccepted?: (pendingId: number) => void;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** What the shard tells its host. */
export interface ShardHost {
  events(events: readonly SessionEvent[]): void;
  /** Sessions that tell something for the first time since they are in memory, or since it was asked for. */
  introduced?(sessions: readonly SessionIntroduction[]): void;
  /** The durable end of a receipt that is followed; undefined: it must be asked for. */
  settled(follow: number, state: ReceiptState | undefined): void;
  /** What was said in a session that is listened to. */
  said?(note: SaidNote): void;
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  evaluateSystem(agent: string, sessionId: string): Promise<string>;
  consult(question: HostQuestion): Promise<HostWord>;
  lookUp(question: MuseQuestion): Promise<MuseWord>;
}

/** Reports what was thrown to the logger on the host. */
export function logThrown(host: ShardHost, message: string, thrown: unknown, session?: string, agent?: string): void {
  const of = { ...(session === undefined ? {} : { session }), ...(agent === undefined ? {} : { agent }) };
  host.log({ level: 'error', message, error: errorShape(thrown), ...of });
}

/** What a shard is made of. */
export interface ShardParts {
  readonly journal: Journal;
  readonly catalog: AgentCatalog;
  readonly settings: Settings;
  readonly limits: Limits;
  readonly durability: Durability;
  readonly clock: Clock;
  readonly random: Random;
  readonly soon: Soon;
  readonly bounds: ShardBounds;
  readonly shelf: Shelf;
  readonly inHand: SessionInHand;
  readonly isolated: IsolatedSessions;
  readonly counters: Counters;
  readonly host: ShardHost;
  readonly makeModelPool: (listener: ModelPoolListener) => ModelPool;
  readonly makeToolPool: (listener: ToolPoolListener) => ToolPool;
}
