/**
 * The plan of a review: the files, and the reader of each file. The plan is the reviewer's first message, so it is in
 * the log before any reader exists. A review that starts again continues with its plan, even if the directory has
 * changed.
 */

import { createHash } from 'node:crypto';
import { basename, extname } from 'node:path';
import { z } from 'zod';
import { checkNickname } from '../../base/ids.ts';
import type { ContentBlock, TextBlock } from '../../base/messages.ts';
import type { SourceFile, SourceWalk } from './source-files.ts';

/** The source of the answers: rules, or Claude. */
export type ReviewModel = 'scripted' | 'claude';

/** The parameters of a review. Two reviews with equal parameters are the same review. */
export interface ReviewOrder {
  /** The reviewed directory: an absolute path, with links resolved. */
  readonly directory: string;
  readonly model: ReviewModel;
  /** Maximum number of files. */
  readonly limit: number;
  /**
   * True for a review that a person watches (`troupe run --stage`). It is another review than the plain one of the same
   * directory.
   */
  readonly isStaged?: boolean;
}

/** A file of a plan. `reader`: the nickname of the sub-agent that reads it. */
export interface PlannedFile extends SourceFile {
  readonly reader: string;
}

/** See the head of the file. */
export interface ReviewPlan {
  readonly directory: string;
  readonly model: ReviewModel;
  /** The files to read, ascending by path. */
  readonly files: readonly PlannedFile[];
  /** Number of source files that are not read: beyond the limit, too large, binary. */
  readonly leftOut: number;
}

/** Maximum characters of a nickname without its number. The bound of nicknames leaves room for the number. */
const NICKNAME_CHARACTERS = 25;
const REVIEW_ID = /^review-([0-9a-f]{8})$/;
const TASK_START = 'Review this file: ';

const schema = z.object({
  plan: z.literal(1),
  directory: z.string(),
  model: z.enum(['scripted', 'claude']),
  files: z.array(z.tuple([z.string(), z.string(), z.number()])),
  leftOut: z.number(),
});

/** The reviewer's session id. */
export function reviewId({ directory, model, limit, isStaged }: ReviewOrder): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([directory, model, limit, ...(isStaged === true ? ['stage'] : [])]))
    .digest('hex');
  return `review-${digest.slice(0, 8)}`;
}

/** True for the id of a reviewer's session. */
export function isReviewId(id: string): boolean {
  return REVIEW_ID.test(id);
}

/**
 * The agents of a review. Their names contain the review's number. Otherwise the sessions of one review could continue
 * with the model or directory of another in the same store.
 */
export function reviewAgents(id: string): { readonly reviewer: string; readonly reader: string } {
  const suffix = REVIEW_ID.exec(id)?.[1] ?? '';
  return { reviewer: `reviewer-${suffix}`, reader: `reader-${suffix}` };
}

/** Makes the plan: the files in order, each with its own reader. */
export function planReview(order: ReviewOrder, walk: SourceWalk): ReviewPlan {
  const taken = new Set<string>();
  const files = walk.files.slice(0, order.limit).map((file): PlannedFile => {
    const reader = nicknameOf(file.path, taken);
    taken.add(reader);
    return { ...file, reader };
  });
  return {
    directory: order.directory,
    model: order.model,
    files,
    leftOut: walk.files.length - files.length + walk.passedOver.length,
  };
}

/** A nickname made of as many words from the end of a path as fit, with a number if another file has the same words. */
function nicknameOf(path: string, taken: ReadonlySet<string>): string {
  const stem = path.slice(0, path.length - extname(path).length);
  const words = stem.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  let name = '';
  for (const word of words.toReversed()) {
    const longer = name === '' ? word.slice(0, NICKNAME_CHARACTERS) : `${word}-${name}`;
    if (longer.length > NICKNAME_CHARACTERS) break;
    name = longer;
  }
  if ('error' in checkNickname(name, new Set())) name = `file-${name}`.slice(0, NICKNAME_CHARACTERS).replace(/-$/, '');
  let numbered = name;
  for (let number = 2; taken.has(numbered); number += 1) numbered = `${name}-${number}`;
  return numbered;
}

/** The message that stores a plan: a sentence for the model, then the plan. */
export function planMessage(plan: ReviewPlan): readonly ContentBlock[] {
  const { directory, model, files, leftOut } = plan;
  const rows = files.map(({ path, reader, bytes }) => [path, reader, bytes] as const);
  const data = JSON.stringify({ plan: 1, directory, model, leftOut, files: rows });
  return [
    {
      type: 'text',
      text: `A review of the ${files.length} source files of ${basename(directory)}. The plan names each file, the sub-agent that reads it, and its size in bytes.`,
    },
    { type: 'text', text: data },
  ];
}

/** The plan in a message; undefined for any other message. */
export function planOf(content: string | readonly ContentBlock[]): ReviewPlan | undefined {
  if (typeof content === 'string') return undefined;
  for (const block of content) {
    const plan = block.type === 'text' ? planIn(block) : undefined;
    if (plan !== undefined) return plan;
  }
  return undefined;
}

function planIn({ text }: TextBlock): ReviewPlan | undefined {
  if (!text.startsWith('{"plan":')) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) return undefined;
  const { directory, model, files, leftOut } = parsed.data;
  return { directory, model, leftOut, files: files.map(([path, reader, bytes]) => ({ path, reader, bytes })) };
}

/** A reader's task. Its first line names the file. */
export function taskOf(file: PlannedFile): string {
  return `${TASK_START}${file.path}`;
}

/** The file that a task names. */
export function pathOfTask(task: string): string | undefined {
  const [first = ''] = task.split('\n', 1);
  return first.startsWith(TASK_START) ? first.slice(TASK_START.length) : undefined;
}

/** The request to the reviewer once every reader has ended. */
export const INDEX_REQUEST =
  'Every sub-agent has ended; the report of each is in this conversation as from_<name>. Write the review index now.';

/** The request to a reader that is steered while it reads. */
export const STEER_REQUEST = 'Also name the longest line.';
