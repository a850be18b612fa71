/** The sessions that a person should look at first. Pure. */
import type { SessionNode } from './session-tree.ts';
import { markOf } from './wording.ts';

/** Sessions named in one list of the overview. */
export const OVERVIEW_MAX = 6;

/** Some sessions of a kind, and their total number. */
export interface OverviewList {
  readonly first: readonly SessionNode[];
  readonly count: number;
}

/** See the head of the file. */
export interface Overview {
  /** Sessions that failed, are blocked by an error or are paused, newest first. */
  readonly stopped: OverviewList;
  /** Sessions with waiting entries, longest mailbox first. */
  readonly waiting: OverviewList;
}

/** The overview of all nodes. */
export function overviewOf(nodes: Iterable<SessionNode>): Overview {
  const stopped: SessionNode[] = [];
  const waiting: SessionNode[] = [];
  for (const node of nodes) {
    const mark = markOf(node);
    if (mark === 'stopped' || mark === 'failed' || mark === 'paused') stopped.push(node);
    if (node.mailbox > 0) waiting.push(node);
  }
  return {
    stopped: listOf(stopped, (a, b) => b.updatedAt - a.updatedAt),
    waiting: listOf(waiting, (a, b) => b.mailbox - a.mailbox),
  };
}

function listOf(nodes: SessionNode[], compare: (a: SessionNode, b: SessionNode) => number): OverviewList {
  return { first: nodes.sort(compare).slice(0, OVERVIEW_MAX), count: nodes.length };
}
