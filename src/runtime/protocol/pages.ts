/** Pages of a session's contents, as a shard returns them. */
import type { Message, Pending } from '../../base/messages.ts';
import type { Violation } from '../../context/legality/legality.ts';
import type { ModelRequest, RequestMessage } from '../../models/provider.ts';

/** The contents that are read in pages. */
export type PageKind = 'messages' | 'pending' | 'viewport' | 'request';

/**
 * The start and the bounds of a page. `after`: the `next` of the previous page. `limit`: maximum number of items.
 * `bytesMax`: approximate maximum of bytes, not counting the first item.
 */
export interface PageBounds {
  readonly after?: string;
  readonly limit: number;
  readonly bytesMax: number;
}

/** One page. `next`: missing on the last page. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next?: string;
}

/**
 * A page of the messages of a request. The first page also has the rest of the request and the rules that the whole
 * request breaks.
 */
export interface RequestPage extends Page<RequestMessage> {
  readonly head?: Omit<ModelRequest, 'messages'>;
  readonly violations?: readonly Violation[];
}

/** Each kind of page. */
export interface PageOf {
  readonly messages: Page<Message>;
  readonly pending: Page<Pending>;
  readonly viewport: Page<Message>;
  readonly request: RequestPage;
}
