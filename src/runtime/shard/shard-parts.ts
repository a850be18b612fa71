/** The parts of a shard, and its interfaces to its host and to requesters. */
import type { AgentCatalog } from '../../../actors/agent-catalog.ts';
import type { EnricherQuestion, EnricherReply } from '../../../actors/enrichers/enricher-sources.ts';
import type { ResultShortener } from '../../../actors/result-store.ts';
import type { Limits, ShardBounds } from '../../base/bounds.ts';
import type { Clock, Random, Soon } from '../../base/clock.ts';
import { errorShape, type TroupeError } from '../../base/errors.ts';
import type { Settings } from '../../base/settings.ts';
import type { PublishedEvent } from '../../events/event.ts';
import type { Journal } from '../../journal/journal.ts';
import type { ModelPool, ModelPoolListener } from '../../models/pool.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { ToolPool, ToolPoolListener } from '../../tools/pool.ts';
import type { HostVerdict } from '../protocol/host-decisions.ts';
import type { HostQuestion } from '../protocol/host-question.ts';
import type { Counters } from '../protocol/metrics.ts';
import type { NoticeNote } from '../protocol/notices.ts';
import type { LogLine, SaidNote, SessionIntroduction } from '../protocol/protocol.ts';
import type { Retention } from '../protocol/retention.ts';
import type { UpgradeQuestion } from '../protocol/upgrade.ts';
import type { IsolatedSessions } from './isolated-sessions.ts';
import type { SessionAtWork } from './session-at-work.ts';

/** The reply to the requester of an input. It is settled once, after the flush. */
export interface Reply {
  /**
   * True if the requester waits for something later than this reply, so that the reply is deferrable (Q5 of
   * `commit-queue.ts`).
   */
  readonly isDeferrable?: boolean;
  /**
   * Runs within the transition that accepts a message, before anything is durable. Not called for a message that was
   * accepted earlier.
   */
  readonly onAccepted?: (pendingId: number) => void;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Calls from the shard to its host. */
export interface ShardHost {
  events(events: readonly PublishedEvent[]): void;
  /** Sessions that publish for the first time since they became resident, or since introductions were requested. */
  introduced?(sessions: readonly SessionIntroduction[]): void;
  /** The durable end of a receipt that is followed. Undefined: the follower must ask for it. */
  settled(follow: number, state: ReceiptState | undefined): void;
  /** New messages of a session that has listeners. */
  said?(note: SaidNote): void;
  /** Notices of a durable transition. Called only with `publishesNotices`. */
  noticed?(note: NoticeNote): void;
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  /** `agent`: the key of the agent's definition, here and in each question. */
  evaluateSystem(agent: string, sessionId: string): Promise<string>;
  consult(question: HostQuestion): Promise<HostVerdict>;
  upgrade(question: UpgradeQuestion): Promise<readonly EditRequest[]>;
  lookUp(question: EnricherQuestion): Promise<EnricherReply>;
  /** Resolves when no file of the search index has messages of these deleted sessions. */
  eraseIndex(sessions: readonly string[]): Promise<void>;
  /** Resolves when no other shard is being compacted. `endCompaction` lets the next shard begin. */
  beginCompaction(): Promise<void>;
  endCompaction(): Promise<void>;
}

/** Reports a thrown value to the logger on the host. */
export function logThrown(host: ShardHost, message: string, thrown: unknown, session?: string, agent?: string): void {
  const of = { ...(session === undefined ? {} : { session }), ...(agent === undefined ? {} : { agent }) };
  host.log({ level: 'error', message, error: errorShape(thrown), ...of });
}

/** The parts of a shard. */
export interface ShardParts {
  /**
   * Returns the input of a request as the option `redact` leaves it; missing if that option is not set. `agent`: the
   * agent with which the session is created. Throws `RedactionError`. The pools and the host redact the values that do
   * not come with a request.
   */
  readonly redactInput?: ((session: string, input: Input, agent: string | undefined) => Input) | undefined;
  /** The number of the shard. */
  readonly index: number;
  readonly journal: Journal;
  readonly catalog: AgentCatalog;
  readonly settings: Settings;
  readonly limits: Limits;
  /** How long data is kept; missing: as long as its session exists. */
  readonly retention?: Retention | undefined;
  /** See `StoreOptions`. */
  readonly eraseWithinMs: number;
  /** The names of the providers. */
  readonly providers: readonly string[];
  /** True if calls that change nothing outside may begin before their transition is durable. */
  readonly runsAhead: () => boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly soon: Soon;
  readonly bounds: ShardBounds;
  readonly resultStore: ResultShortener;
  readonly sessionAtWork: SessionAtWork;
  readonly isolated: IsolatedSessions;
  readonly counters: Counters;
  /** True if the host follows the notices of the sessions. */
  readonly publishesNotices?: boolean | undefined;
  readonly host: ShardHost;
  readonly makeModelPool: (listener: ModelPoolListener) => ModelPool;
  readonly makeToolPool: (listener: ToolPoolListener) => ToolPool;
}
