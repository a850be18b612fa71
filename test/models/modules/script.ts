import type { ModelRequest } from '../../../src/models/provider.ts';
import type { Reply, ReplyContext } from '../../../src/models/script/script.ts';

/** A script function in a separate module, as a model thread imports it. */
export function answer(request: ModelRequest, { session, call }: ReplyContext): Reply {
  return `${session} ${call} ${request.messages.length}`;
}

export const list: readonly Reply[] = ['from a list'];

export const nothing = 7;
