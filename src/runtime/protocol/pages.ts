/** Pages of what a session holds, as a shard answers them. */
import type { Message, Pending } from '../../base/messages.ts';
import type { Violation } from '../../context/legality.ts';
import type { ModelRequest, RequestMessage } from '../../models/provider.ts';

/** What there are pages of. */
export type PageKind = 'messages' | 'pending' | 'viewport' | 'request';

/** How much of it, and from where on. `after`: the `next` of the page before. `bytesMax`: approximate, beside the first item. */
export interface PageBounds {
  readonly after?: string;
  readonly limit: number;
  readonly bytesMax: number;
}

/** One page. `next`: missing on the last one. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next?: string;
}

/** A page of the messages of a request. The first one has the rest of the request with it, and the rules all of it breaks. */
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
