/**
 * Results that are blocks: a tool returns `content([...])` in place of a value that becomes text. The returned value is
 * marked, so that a plain list that a tool returns still becomes JSON.
 */
import type { ResultBlock } from '../base/messages.ts';

/** All copies of this library in a process share this symbol: a tool's module may load another copy than its thread. */
const MARK: unique symbol = Symbol.for('troupe.tool.content');

/** A result of blocks, as `content()` makes it. */
export interface ToolContent {
  readonly [MARK]: true;
  readonly blocks: readonly ResultBlock[];
  readonly isError: boolean;
}

/**
 * A tool's result as blocks for the model, in the given order: texts, images, documents and search results. `isError`
 * marks the call as failed. The blocks are checked when the tool returns them. If the Messages API would refuse a
 * block, the call fails with a text that names the block. All blocks together may have `limits.messageBytes` bytes. The
 * texts of the blocks are shortened like any result. Callable on every thread; throws nothing.
 */
export function content(
  blocks: readonly ResultBlock[],
  { isError = false }: { readonly isError?: boolean } = {},
): ToolContent {
  return { [MARK]: true, blocks, isError };
}

/** True for a value that `content()` made. */
export function isToolContent(value: unknown): value is ToolContent {
  return typeof value === 'object' && value !== null && MARK in value;
}
