/** The protocol between the loop of faults and its nodes, and the lines that tools and model write outside the nodes. */
import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';

/** The orders of one node. */
export interface NodePlan {
  /** The directory of its copy. */
  readonly directory: string;
  /** The address of the database, through the node's own line. */
  readonly url: string;
  readonly schema: string;
  /** Names this node, in the cluster and in the lines of its tools. */
  readonly name: string;
  readonly leaseMs: number;
  readonly holdMs: number;
  /** Session threads of the cluster; 0: the sessions work on the host thread, with tools and model given as values. */
  readonly threads: number;
  /** The file to which tools and model append a line for each beginning. */
  readonly effects: string;
}

/** A request of the loop to a node. */
export type Order =
  | {
      readonly type: 'send';
      readonly id: number;
      readonly session: string;
      readonly key: string;
      readonly text: string;
    }
  /** Wait until nothing runs. */
  | { readonly type: 'drain' }
  /** Report every session. */
  | { readonly type: 'read' }
  /** Say why each session that is not idle is not. */
  | { readonly type: 'explain' }
  | { readonly type: 'close' };

/** A message of a node to the loop. */
export type Note =
  | { readonly type: 'opened'; readonly epochs: readonly number[] }
  | { readonly type: 'acknowledged'; readonly id: number }
  | { readonly type: 'answered'; readonly id: number; readonly text: string }
  | { readonly type: 'refused'; readonly id: number; readonly code: string }
  | { readonly type: 'drained' }
  | { readonly type: 'explained'; readonly text: string }
  | { readonly type: 'session'; readonly session: SessionFacts }
  | { readonly type: 'read' }
  | { readonly type: 'ended'; readonly reason: string };

/** One message of a session's log. */
export interface MessageFact {
  readonly type: string;
  readonly text: string;
  readonly key?: string;
  readonly tool?: string;
  readonly failed?: true;
}

/** One session, as a node shows it. */
export interface SessionFacts {
  readonly id: string;
  readonly parent?: string;
  readonly state: string;
  readonly messages: readonly MessageFact[];
}

/** The beginning of a call of a tool or of the model, written by the tool or by the model. */
export interface EffectLine {
  readonly kind: 'tool' | 'model';
  /** The name of the tool; for the model the session. */
  readonly name: string;
  /** The key of the tool's call, which no other call has. */
  readonly key?: string;
  readonly node: string;
  /** Milliseconds on the machine's clock, which is the database's too. */
  readonly atMs: number;
}

/** The variable with the file of such lines, and the one with the name of the node. */
export const EFFECTS_VARIABLE = 'TROUPE_FAULTS_EFFECTS';
export const NODE_VARIABLE = 'TROUPE_FAULTS_NODE';

/** Notes the beginning of a call. The kernel has the line when this returns. */
export function noteEffect(kind: EffectLine['kind'], name: string, key?: string): void {
  const atMs = Date.now();
  const line: EffectLine = {
    kind,
    name,
    ...(key === undefined ? {} : { key }),
    node: process.env[NODE_VARIABLE] ?? '',
    atMs,
  };
  // A kill may cut a line off; the next one begins on its own line.
  appendFileSync(process.env[EFFECTS_VARIABLE] ?? '', `\n${JSON.stringify(line)}\n`);
}

/** A number below `below` that depends on the text alone. */
export function numberOf(text: string, below: number, salt = ''): number {
  return createHash('sha256').update(text).update(salt).digest().readUInt32BE(0) % below;
}

/** The tools that a message asks for. Most ask for none: calls of a `once` tool wait for each other. */
const WISHES: readonly string[] = [
  ...['', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''],
  ...['pure', 'keyed', 'once', 'once', 'once', 'pure once', 'once once once slow', 'pure pure slow', 'spawn'],
];

/** The text of a message. It follows from the key, so that a repeated request has the same text. */
export function textOf(key: string): string {
  return `${key} ${WISHES[numberOf(key, WISHES.length)] ?? ''}`.trim();
}
