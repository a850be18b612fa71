/**
 * The messages that the runtime publishes through `node:diagnostics_channel`, on the host thread: the names of the
 * channels and the shape of each message. Without a subscriber nothing is watched and nothing is built.
 *
 * An operation has two messages, `start` and `end`, that name the same operation. If the start of an operation was not
 * seen, neither message is published. A message is plain data except for `runtime`. It must not be changed: its parts
 * belong to the runtime's own events.
 */
import { type Channel, channel } from 'node:diagnostics_channel';
import type { ErrorShape } from './errors.ts';
import type { ContentBlock, Message, PendingType, Usage } from './messages.ts';

/** Names of the channels, for `diagnostics_channel.subscribe(name, listener)`. */
export const DIAGNOSTICS_CHANNELS = {
  turn: 'troupe:turn',
  modelCall: 'troupe:model-call',
  tool: 'troupe:tool',
  spawn: 'troupe:spawn',
  mailbox: 'troupe:mailbox',
  commit: 'troupe:commit',
} as const;

/** The members that every message has. */
interface OfRuntime {
  /** The `Runtime` of the message, for a process that has more than one. */
  readonly runtime: object;
  /** Time of the event, epoch ms, by the clock of the runtime. */
  readonly at: number;
}

/** Facts about a session. */
export interface SessionFacts {
  readonly session: string;
  readonly agent: string;
  /** Missing for a session without a parent. */
  readonly parent?: string;
  /** The model that the agent's requests name; missing for an agent that is not defined. */
  readonly model?: string;
  /**
   * Name of the provider's kind, not the name that `open` gives it: `anthropic`, `scripted`, `module`, or the name that
   * a provider value gives itself.
   */
  readonly provider: string;
}

interface OfSession extends OfRuntime, SessionFacts {}

/** A turn: from idle to idle. */
export type TurnDiagnostics = OfSession &
  (
    | { readonly phase: 'start' }
    | {
        readonly phase: 'end';
        readonly ms: number;
        /** Name of the turn in events; missing when the end of the turn was not seen. */
        readonly turn?: string;
        /**
         * The stop reason of the turn's last answer, or `cancelled`, or `failed`, or `unseen` when events were lost.
         */
        readonly reason: string;
        readonly usage?: Usage;
        readonly error?: ErrorShape;
        readonly modelCalls: number;
        readonly toolCalls: number;
        /** The users' messages that the turn consumed, oldest first. */
        readonly messages: readonly Message[];
      }
  );

/** One attempt of a model call. */
export type ModelCallDiagnostics = OfSession &
  (
    | { readonly phase: 'start'; readonly attempt: number }
    | {
        readonly phase: 'end';
        readonly attempt: number;
        readonly ms: number;
        /** Milliseconds until the first text or reasoning; missing when the answer was not streamed. */
        readonly firstChunkMs?: number;
        readonly usage?: Usage;
        /** The model's stop reason, or `cancelled`; missing when the attempt failed. */
        readonly stop?: string;
        /** HTTP status of a failed attempt. */
        readonly status?: number;
        /** The error, if the attempt failed and is not retried. */
        readonly error?: ErrorShape;
        /** Milliseconds until the failed attempt is retried. Missing when it is not retried. */
        readonly retryAfterMs?: number;
        /** The messages of the answer. */
        readonly answer: readonly Message[];
      }
  );

/** One tool call, from its start to its durable result. */
export type ToolDiagnostics = OfSession & { readonly toolUseId: string; readonly toolName: string } & (
    | { readonly phase: 'start'; readonly input?: unknown }
    | {
        readonly phase: 'end';
        /** The tool's own time where it was measured; otherwise the time from its start to its result. */
        readonly ms: number;
        readonly success: boolean;
        readonly result?: string | readonly ContentBlock[];
      }
  );

/** A child, from its birth to its exit. `session` is the parent. */
export type SpawnDiagnostics = OfSession & { readonly child: string; readonly name?: string } & (
    | { readonly phase: 'start' }
    | { readonly phase: 'end'; readonly reason: string }
  );

/** An entry of a mailbox, from its acceptance until it leaves. */
export type MailboxDiagnostics = OfSession & { readonly pendingId: number; readonly type: PendingType } & (
    | { readonly phase: 'start' }
    | {
        readonly phase: 'end';
        readonly waitMs: number;
        readonly reason: 'promoted' | 'recalled' | 'dropped' | 'unseen';
      }
  );

/**
 * Flushes since the last message of this channel. A message is published at the end of a turn and covers many flushes.
 */
export interface CommitDiagnostics extends OfRuntime {
  readonly flushes: number;
  /** Transitions that those flushes made durable. */
  readonly turns: number;
}

/** The message of each channel. */
export interface DiagnosticsMessages {
  readonly turn: TurnDiagnostics;
  readonly modelCall: ModelCallDiagnostics;
  readonly tool: ToolDiagnostics;
  readonly spawn: SpawnDiagnostics;
  readonly mailbox: MailboxDiagnostics;
  readonly commit: CommitDiagnostics;
}

/** A channel's short name. */
export type DiagnosticsName = keyof DiagnosticsMessages;

const CHANNELS: Readonly<Record<DiagnosticsName, Channel>> = Object.freeze({
  turn: channel(DIAGNOSTICS_CHANNELS.turn),
  modelCall: channel(DIAGNOSTICS_CHANNELS.modelCall),
  tool: channel(DIAGNOSTICS_CHANNELS.tool),
  spawn: channel(DIAGNOSTICS_CHANNELS.spawn),
  mailbox: channel(DIAGNOSTICS_CHANNELS.mailbox),
  commit: channel(DIAGNOSTICS_CHANNELS.commit),
});

/** True when this channel has a subscriber in this thread. */
export function isSubscribed(name: DiagnosticsName): boolean {
  return CHANNELS[name].hasSubscribers;
}

/** True when any channel has a subscriber in this thread. Costs six property reads. */
export function isDiagnosed(): boolean {
  return (
    CHANNELS.turn.hasSubscribers ||
    CHANNELS.modelCall.hasSubscribers ||
    CHANNELS.tool.hasSubscribers ||
    CHANNELS.spawn.hasSubscribers ||
    CHANNELS.mailbox.hasSubscribers ||
    CHANNELS.commit.hasSubscribers
  );
}

/**
 * Publishes a message. If a subscriber throws, Node raises its error as an uncaught exception, and `publish` does not
 * fail.
 */
export function publishDiagnostics<N extends DiagnosticsName>(name: N, message: DiagnosticsMessages[N]): void {
  CHANNELS[name].publish(message);
}
