/**
 * Every bound of the runtime, with its unit, and the reason where there is one for the number (rule A9). A *shard* is a
 * session thread with its sessions and its journal. The option `limits` of `open` changes `LIMIT_DEFAULTS`; the other
 * bounds are constants. All bounds are imported from this file. Each is defined in the file of its topic:
 *
 *  - `bounds/session.ts`: mailbox, half-step, approvals, history, tasks, compression, memory, goals, enrichers,
 *    supervision;
 *  - `bounds/runtime.ts`: sessions in memory, checkpoints, session threads, endpoints, pages, readers of events,
 *    diagnostics, errors;
 *  - `bounds/store.ts`: journal, files of the store, search;
 *  - `bounds/models.ts`: model calls, the governor;
 *  - `bounds/tools.ts`: tools and their threads, definitions, the built-in tools;
 *  - `bounds/doors.ts`: HTTP, telemetry, other protocols, commands;
 *  - `bounds/cluster.ts`: leases, and the log of a shard outside this machine.
 */
export * from './bounds/cluster.ts';
export * from './bounds/doors.ts';
export * from './bounds/models.ts';
export * from './bounds/runtime.ts';
export * from './bounds/session.ts';
export * from './bounds/store.ts';
export * from './bounds/tools.ts';

/** The limits that an embedder may set with `open({ limits })`. */
export interface Limits {
  /** Entries waiting in one mailbox. */
  readonly mailbox: number;
  /** UTF-8 bytes of the contents waiting in one mailbox. */
  readonly mailboxBytes: number;
  /** UTF-8 bytes waiting in the mailboxes of all resident sessions of one session thread. */
  readonly waitingBytes: number;
  /** UTF-8 bytes of one message. */
  readonly messageBytes: number;
  /** UTF-8 bytes of one tool result in the log. A larger result is cut, and the result store keeps it whole. */
  readonly toolResultBytes: number;
  /** Children of one parent over its whole life. */
  readonly children: number;
  /** Queued children of one parent. A child is queued while its parent has `subagents.maxActive` working children. */
  readonly spawnsWaiting: number;
  /** Sessions of one session thread that may be in a turn at once. Further sessions wait, spawned children included. */
  readonly liveSessions: number;
  /**
   * UTF-8 bytes of the conversations of all sessions in a turn on one session thread. A session that exceeds this limit
   * by itself works alone.
   */
  readonly liveBytes: number;
  /** Levels to which sub-agents may nest. 1: children do not spawn. */
  readonly depth: number;
  /** Model calls of one turn. */
  readonly toolRounds: number;
  /** Times in one turn that a model is asked to correct a structured answer which does not fit its schema. */
  readonly answerCorrections: number;
}

/** The defaults of `Limits`. */
export const LIMIT_DEFAULTS: Limits = Object.freeze({
  mailbox: 10_000, // entries: about 10 MB of the usual size, so a flood is refused before it fills memory
  mailboxBytes: 16 * 1024 * 1024, // bytes: four of the largest messages, or ten thousand of 1.6 kB
  waitingBytes: 512 * 1024 * 1024, // bytes: thirty-two full mailboxes; memory holds only a small part of these bytes
  messageBytes: 4 * 1024 * 1024, // bytes: below the API's 32 MB body, with room for a history
  toolResultBytes: 256 * 1024, // bytes: about 65,000 tokens, more than half of the default window
  children: 100_000, // sessions: ten times the largest measured fan-out
  spawnsWaiting: 10_000, // sessions: the largest measured fan-out; each is a log on disk and an id in memory
  liveSessions: 10_000, // sessions: the largest measured fan-out; each costs memory for its context
  liveBytes: 64 * 1024 * 1024, // bytes: state, model thread and request body each hold them, about 300 MB of memory
  depth: 1, // levels: children that spawn children can multiply without end, so the embedder must ask for it
  toolRounds: 250, // model calls a turn: contract, `llm.main_max_tool_rounds`
  answerCorrections: 2, // model calls a turn: a model that fails three times, knowing the reasons, rarely succeeds
});
