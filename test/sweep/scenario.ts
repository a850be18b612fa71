/**
 * A scenario of a sweep: a short sequence of actions (the story), with everything that must be true at its end. After
 * every crash the story begins its current part again, like an embedder that received no answer. Its messages have
 * keys.
 */
import type { Limits, ShardBounds } from '../../src/base/bounds.ts';
import type { SettingsInput } from '../../src/base/settings.ts';
import type { Durability } from '../../src/journal/journal.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import type { Agent } from '../../src/runtime/protocol/agent.ts';
import type { Retention } from '../../src/runtime/protocol/retention.ts';
import type { AnyTool } from '../../src/tools/tool.ts';
import type { Stage } from './stage.ts';

/** The parts of a model call that a story's model reads. */
export interface Ask {
  readonly session: string;
  /** The conversation as text. */
  readonly said: string;
  /** Names of the messages (`m1`, `t1`) in the last message that has any, joined by `+`. */
  readonly uids: string;
  /** Calls with the same conversation before this one, over all lives. */
  readonly before: number;
  readonly request: ModelRequest;
  /** The state of the world outside the runtime. */
  readonly outside: Set<string>;
}

/** A line of a log that may be present or missing, depending on the fault. */
export interface Maybe {
  readonly maybe: string | RegExp;
}

/** The expected form of a line. */
export type Line = string | RegExp | Maybe;

/** Lines in a fixed order, or in any. */
export type Lines = readonly Line[] | { readonly anyOrder: readonly Line[] };

/** Everything that must be true at the end, in addition to the invariants. */
export interface Ending {
  /**
   * Messages by session, as `user <text>`, `agent <text>`, `call <tool>`, `result <text>`, `failed <text>`, `system
   * <text>`.
   */
  readonly logs: Readonly<Record<string, Lines>>;
  /** How each message ended, by its name: `text <answer>`, `cancelled`, `dropped`, `failed`. */
  readonly answers?: Readonly<Record<string, string | RegExp>>;
  /** How each child ended, by the name of its task. */
  readonly replies?: Readonly<Record<string, string | RegExp>>;
}

/** A part of a story; it ends with an orderly close. */
export interface Part {
  readonly act: (stage: Stage) => Promise<void>;
  /** Virtual ms the close waits for half-steps. Default 5,000. */
  readonly closeMs?: number;
  /** If false, the runtime is closed while work runs. Default true. */
  readonly drains?: boolean;
  /** Another process takes the store over at the end of the part, within `closeMs`. Default: the runtime is closed. */
  readonly isTakenOver?: boolean;
  /** Virtual ms that pass before the part. Default 0. */
  readonly afterMs?: number;
}

/** See the head of the file. */
export interface Scenario {
  readonly name: string;
  /** Receives the tools that run on the host. The first agent is the default. */
  readonly agents: (tools: readonly AnyTool[]) => readonly Agent[];
  /** The reply depends only on the session, the conversation and the world outside. */
  readonly model: (ask: Ask) => Reply;
  readonly parts: readonly Part[];
  readonly ending: Ending;
  readonly shards?: number;
  /** Sessions run on threads: a crash ends the thread of the disk, not the process. */
  readonly sessionThreads?: boolean;
  readonly modelThreads?: number;
  readonly durability?: Durability;
  readonly limits?: Partial<Limits>;
  readonly settings?: SettingsInput;
  readonly bounds?: Partial<ShardBounds>;
  /** How long old data is kept. */
  readonly retention?: Retention;
  /** Everything that was deleted or removed is erased before the last part ends. */
  readonly erases?: boolean;
  /** Sweep every pair of crashes as well. */
  readonly pairs?: boolean;
}

/** A description of how lines differ, or undefined. */
export function compareLines(found: readonly string[], expected: Lines): string | undefined {
  const fits = 'anyOrder' in expected ? fitsInAnyOrder(found, expected.anyOrder) : fitsInOrder(found, expected);
  if (fits) return undefined;
  const wanted = ('anyOrder' in expected ? expected.anyOrder : expected).map(show).join('\n    ');
  return `is\n    ${found.join('\n    ')}\n  must be${'anyOrder' in expected ? ', in any order,' : ''}\n    ${wanted}`;
}

/** True when a text matches what is expected. */
export function isLine(found: string, expected: string | RegExp): boolean {
  return typeof expected === 'string' ? found === expected : expected.test(found);
}

function show(line: Line): string {
  if (typeof line === 'string') return line;
  return line instanceof RegExp ? String(line) : `maybe ${String(line.maybe)}`;
}

function isMaybe(line: Line): line is Maybe {
  return typeof line === 'object' && 'maybe' in line;
}

function fitsInOrder(found: readonly string[], expected: readonly Line[]): boolean {
  let at = 0;
  for (const line of expected) {
    const text = found[at];
    const fits = text !== undefined && isLine(text, isMaybe(line) ? line.maybe : line);
    if (fits) at += 1;
    else if (!isMaybe(line)) return false;
  }
  return at === found.length;
}

/** Each line of the log matches a different expected line. Required lines choose first. */
function fitsInAnyOrder(found: readonly string[], expected: readonly Line[]): boolean {
  const left = [...found];
  const take = (line: string | RegExp): boolean => {
    const at = left.findIndex((text) => isLine(text, line));
    if (at !== -1) left.splice(at, 1);
    return at !== -1;
  };
  for (const line of expected) if (typeof line === 'string' && !take(line)) return false;
  for (const line of expected) if (line instanceof RegExp && !take(line)) return false;
  for (const line of expected) if (isMaybe(line)) take(line.maybe);
  return left.length === 0;
}
