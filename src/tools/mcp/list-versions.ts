/**
 * The present and earlier tool lists of all MCP servers. During an epoch a model sees the tools that existed when the
 * epoch was opened. So earlier lists are kept for the epochs in use.
 */
import { isDeepStrictEqual } from 'node:util';
import { MCP_LISTS_KEPT_MAX } from '../../base/bounds.ts';
import type { McpToolList } from './protocol.ts';

/** The tools of all servers at one time. */
export interface McpLists {
  /** Larger than the version of any earlier lists. */
  readonly version: number;
  readonly lists: readonly McpToolList[];
}

/**
 * See the head of the file. Only the last `MCP_LISTS_KEPT_MAX` lists are kept. A session whose epoch has older lists
 * opens a new epoch.
 */
export class McpListVersions {
  #versions: readonly [McpLists, ...McpLists[]];

  constructor(lists: readonly McpToolList[]) {
    this.#versions = [{ version: 0, lists }];
  }

  /** All kept lists, newest first. */
  get all(): readonly [McpLists, ...McpLists[]] {
    return this.#versions;
  }

  get newest(): McpLists {
    return this.#versions[0];
  }

  /** Takes the present lists. Returns false if they equal the newest lists. */
  take(lists: readonly McpToolList[]): boolean {
    const { newest } = this;
    if (isDeepStrictEqual(newest.lists, lists)) return false;
    const earlier = this.#versions.slice(0, MCP_LISTS_KEPT_MAX - 1);
    this.#versions = [{ version: newest.version + 1, lists }, ...earlier];
    return true;
  }
}
