/**
 * The tools of all MCP servers now and before. An epoch shows a model the tools with which it was opened, so earlier
 * lists are kept for the epochs in use.
 */
import { isDeepStrictEqual } from 'node:util';
import { MCP_LISTS_KEPT_MAX } from '../../base/bounds.ts';
import type { McpToolList } from './protocol.ts';

/** The tools of all servers at one time. */
export interface McpLists {
  /** Larger than that of any earlier lists. */
  readonly version: number;
  readonly lists: readonly McpToolList[];
}

/** See the head of the file. An epoch older than `MCP_LISTS_KEPT_MAX` lists is replaced by a new one. */
export class McpListVersions {
  #versions: readonly [McpLists, ...McpLists[]];

  constructor(lists: readonly McpToolList[]) {
    this.#versions = [{ version: 0, lists }];
  }

  /** All that are kept, newest first. */
  get all(): readonly [McpLists, ...McpLists[]] {
    return this.#versions;
  }

  get newest(): McpLists {
    return this.#versions[0];
  }

  /** Takes the present lists; returns false if they are the newest ones already. */
  take(lists: readonly McpToolList[]): boolean {
    const { newest } = this;
    if (isDeepStrictEqual(newest.lists, lists)) return false;
    const earlier = this.#versions.slice(0, MCP_LISTS_KEPT_MAX - 1);
    this.#versions = [{ version: newest.version + 1, lists }, ...earlier];
    return true;
  }
}
