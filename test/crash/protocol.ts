/**
 * The protocol between the crash loop and its victims: one plan in, JSON lines out. Each line is one synchronous write
 * as soon as its fact is known. A whole line counts as reported; one that the kill cut off does not.
 */
import { createHash } from 'node:crypto';
import type { ContentBlock } from '../../src/base/messages.ts';
import type { Durability } from '../../src/journal/journal.ts';

/** A message of the workload. Its content follows from `uid`, so that another process can send it again. */
export interface SentMessage {
  readonly uid: string;
  readonly session: string;
  readonly key?: string;
  readonly deliver?: Delivery;
  /** Bytes of an image in the message. Missing: it has none. */
  readonly mediaBytes?: number;
}

/** A child of the workload, spawned by the embedder. Its task follows from `uid`. */
export interface SpawnWish {
  readonly uid: string;
  readonly session: string;
  readonly key?: string;
  readonly replies: 'mailbox' | 'handle';
}

/** Delivery policies in the workload; undefined is `ride`. */
export type Delivery = 'steer' | 'turn' | 'interrupt' | 'merge' | 'latest' | 'reject';

/** The plan of one life of the victim. */
export interface Plan {
  readonly directory: string;
  readonly life: number;
  readonly seed: number;
  readonly durability: Durability;
  readonly threads: { readonly sessions: number; readonly models: number };
  /** Tools and provider are values on the host thread; otherwise modules with their own threads, given by URL. */
  readonly isInline: boolean;
  /**
   * `finish`: the life sends nothing new, waits until nothing runs and nothing is left to erase, reports every state and
   * closes. `compact`: the life only compacts the files of the store.
   */
  readonly mode: 'work' | 'finish' | 'compact';
  /** How long messages are kept after they left the window, ms. Missing: for ever. */
  readonly retentionMs?: number;
  /** Sessions with a large image each, made and deleted at once. Their bytes become free pages of the files. */
  readonly ballast: number;
  /** Closes the runtime this long after it is open, ms. */
  readonly closeAfterMs?: number;
  /** Short timeouts, for a life that is stopped for a multiple of them; otherwise the defaults. */
  readonly timeouts?: { readonly toolMs: number; readonly modelMs: number };
  /** Enrichers run for the sessions, and no agent compresses automatically. */
  readonly isEnriched: boolean;
  /** Sends one message to each of this many sessions: more than a session thread holds in memory. */
  readonly flood: number;
  /** Sessions to delete: deletions that were never acknowledged, and sessions of earlier lives that are due. */
  readonly remove: readonly string[];
  /** Sessions to resume in a finishing life: they may be paused. */
  readonly resume: readonly string[];
  /** Keyed messages to send again: all that were never acknowledged, and some that were. */
  readonly resend: readonly SentMessage[];
  readonly respawn: readonly SpawnWish[];
  /** Receipts whose answer was reported before. The life asks for the answer again. */
  readonly ask: readonly { readonly session: string; readonly pendingId: number }[];
  /** Sessions to watch, each from a number that overlaps earlier reports. */
  readonly watch: readonly { readonly session: string; readonly after: number }[];
}

/** How a message or a child ended, as reported to its sender. */
export interface Outcome {
  readonly kind: 'text' | 'cancelled' | 'dropped' | 'failed';
  readonly text: string;
}

/** One line of a victim. */
export type Line =
  | { readonly type: 'ready' | 'opening' | 'opened' | 'recovered' | 'closing' | 'closed' | 'drained' }
  /** `compacting` before the files are compacted, `compacted` after; `erased`: the ballast of this life is. */
  | { readonly type: 'compacting' | 'compacted' | 'erased' }
  | { readonly type: 'intent'; readonly message: SentMessage }
  | {
      readonly type: 'acknowledged';
      readonly uid: string;
      readonly pendingId: number;
      readonly duplicate: boolean;
    }
  | { readonly type: 'refused'; readonly uid: string; readonly code: string }
  | { readonly type: 'answer'; readonly session: string; readonly pendingId: number; readonly outcome: Outcome }
  | { readonly type: 'spawning'; readonly wish: SpawnWish }
  | { readonly type: 'spawned'; readonly uid: string; readonly child: string }
  | { readonly type: 'reply'; readonly child: string; readonly outcome: Outcome }
  | { readonly type: 'interrupted'; readonly session: string }
  | { readonly type: 'recalled'; readonly session: string; readonly pendingId: number; readonly won: boolean }
  /** Reported before the request, and after its acknowledgement. */
  | { readonly type: 'pausing' | 'paused' | 'resuming' | 'resumed'; readonly session: string }
  | { readonly type: 'deleting'; readonly session: string }
  /** `wasThere`: false if the runtime says that there was no such session. */
  | { readonly type: 'deleted'; readonly session: string; readonly wasThere: boolean }
  /** A note of the history, reported before the request and after its acknowledgement; null: it is removed. */
  | {
      readonly type: 'noting' | 'noted';
      readonly uid: string;
      readonly session: string;
      readonly text: string | null;
    }
  /** An acknowledged fork with a digest of its initial history. */
  | { readonly type: 'forked'; readonly session: string; readonly fork: string; readonly digest: string }
  | { readonly type: 'tasked'; readonly session: string; readonly task: number }
  | { readonly type: 'event'; readonly session: string; readonly seq: number; readonly digest: string }
  /** Events that a gap reported to a reader as missing, because the history that they belong to was removed. */
  | { readonly type: 'gap'; readonly session: string; readonly from: number; readonly to: number }
  | { readonly type: 'state'; readonly session: string; readonly state: string; readonly why: string }
  | { readonly type: 'trouble'; readonly what: string };

/** One run of a tool, written by the tool: `ended` after its outside effect has happened, `asked` by its probe. */
export interface ToolLine {
  readonly type: 'started' | 'ended' | 'asked';
  readonly tool: string;
  readonly key: string;
  readonly life: number;
}

/** One model call, written by the provider before it answers. */
export interface CallLine {
  readonly life: number;
  readonly session: string;
  /** Digest of the request's messages. */
  readonly digest: string;
  /** Digest of the whole request. */
  readonly whole: string;
  /** Fatal violations of the Messages API's rules. */
  readonly illegal: readonly string[];
  /** The call is for an enricher, not for a half-step. */
  readonly isEnricher?: true;
}

/** Names of the enrichers' models, which identify their calls. */
export const MELETE = 'melete';
export const MNEME = 'mneme';

/** Environment variables with the directory to write to and the life, for tools and provider on any thread. */
export const SIDE_VARIABLE = 'TROUPE_CRASH_SIDE';
export const LIFE_VARIABLE = 'TROUPE_CRASH_LIFE';
/** Exit code of a victim that is ordered to stop a second time while it closes. */
export const CUT_SHORT_CODE = 143;
/** Files beside the store. */
export const TOOL_FILE = 'tools.jsonl';
export const CALL_FILE = 'calls.jsonl';

/** A short digest of a text. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/** A number below `below` that depends on a digest; different salts give independent numbers. */
export function numberOf(digest: string, below: number, salt = ''): number {
  return createHash('sha256').update(digest).update(salt).digest().readUInt32BE(0) % below;
}

/** Prefix of the ids of sessions that are created to be deleted. An `x` ends such an id, also among other bytes. */
export const MORTAL = 'mortal-';

/** True if this session, or one of its ancestors, may be deleted at any time. */
export function isMortal(session: string): boolean {
  return session.startsWith(MORTAL);
}

/**
 * The id of the mortal session that a session is, descends from or was forked from; undefined for any other session.
 * Everything that these sessions store has this id in it, so that a byte that is left of them can be found.
 */
export function familyOf(session: string): string | undefined {
  return /^mortal-\d+-\d+x/.exec(session)?.[0];
}

/** The name of a family in a text. */
export const FAMILY: RegExp = /\bmortal-\d+-\d+x/g;

/** The families that are named in a text. */
export function familiesIn(text: string): readonly string[] {
  return text.match(FAMILY) ?? [];
}

/** Prefix of the ids of sessions whose histories are edited. */
export const EDITED = 'edited-';

/** The uid of a note in a text of the history; undefined if the text is no note. */
export function noteIn(text: string): string | undefined {
  return /^note (n\d+-\d+)\b/.exec(text)?.[1];
}

/** Calls in messages of sessions that are deleted: a long result is kept in a file, a slow answer has a draft. */
const MORTAL_OPERATIONS: readonly string[] = ['', 'long', 'long', 'slowly'];

const OPERATIONS: readonly string[] = [
  '',
  '',
  'pure',
  'keyed',
  'once',
  'probe',
  'pure once',
  'keyed probe once',
  'spawn',
  'pure spawn',
];

/** The text of a message or a task: its uid, the calls that the model shall make, and the session's family. */
export function contentOf(uid: string, session = ''): string {
  const operations = OPERATIONS[numberOf(uid, OPERATIONS.length)] ?? '';
  const family = familyOf(session);
  const more = family === undefined ? '' : `${MORTAL_OPERATIONS[numberOf(uid, 4, 'more')] ?? ''} in ${family}`;
  return `${uid} ${operations} ${more}`.trim();
}

/** The content of a message. */
export function messageContent({ uid, session, mediaBytes }: SentMessage): string | readonly ContentBlock[] {
  const text = contentOf(uid, session);
  if (mediaBytes === undefined) return text;
  const source = { type: 'base64', media_type: 'image/png', data: imageOf(session, mediaBytes) } as const;
  return [
    { type: 'text', text },
    { type: 'image', source },
  ];
}

/** Base64 of the head of a PNG, the session's family, and bytes that hardly compress. */
function imageOf(session: string, bytes: number): string {
  // The head of an image of 640 by 480.
  const head = Buffer.from('89504e470d0a1a0a0000000d4948445200000280000001e00802000000000000', 'hex');
  const name = Buffer.from(` ${familyOf(session) ?? ''} `);
  const pixels = createHash('shake256', { outputLength: bytes }).update(session).digest();
  return Buffer.concat([head, name, pixels]).toString('base64');
}

/** The uids in a text. */
export function uidsIn(text: string): readonly string[] {
  return text.match(/\bm\d+-\d+\b/g) ?? [];
}

/** The single result that a tool returns for a key. */
export function resultOf(tool: string, key: string): string {
  return `result of ${tool} for ${key}`;
}

/** Mulberry32: numbers in [0, 1) that depend on a seed. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
