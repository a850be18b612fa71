/**
 * The sessions that a person should look at first. Sessions that wait for a person are left out, because the waiting
 * list beside the overview has them. Pure.
 */
import type { SessionNode } from './session-tree.ts';
import { markOf } from './wording.ts';

/** Maximum number of sessions named in one list of the overview. */
export const OVERVIEW_MAX = 6;

/** The first sessions of a kind, and the number of all sessions of that kind. */
export interface OverviewList {
  readonly first: readonly SessionNode[];
  readonly count: number;
}

/** See the head of the file. */
export interface Overview {
  /** Sessions whose last turn or task failed, that an error blocks, or that are paused; last updated first. */
  readonly troubled: OverviewList;
  /** Sessions with entries in the mailbox, longest mailbox first. */
  readonly waiting: OverviewList;
}

/** The overview of all nodes. */
export function overviewOf(nodes: Iterable<SessionNode>): Overview {
  const troubled: SessionNode[] = [];
  const waiting: SessionNode[] = [];
  for (const node of nodes) {
    const mark = markOf(node);
    if (mark === 'stopped' || mark === 'failed' || mark === 'paused') troubled.push(node);
    if (node.mailbox > 0) waiting.push(node);
  }
  return {
    troubled: listOf(troubled, (a, b) => b.updatedAt - a.updatedAt),
    waiting: listOf(waiting, (a, b) => b.mailbox - a.mailbox),
  };
}

function listOf(nodes: SessionNode[], compare: (a: SessionNode, b: SessionNode) => number): OverviewList {
  return { first: nodes.sort(compare).slice(0, OVERVIEW_MAX), count: nodes.length };
}
