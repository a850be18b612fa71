/** Forking a session, as its embedder asks for it. */
import { z } from 'zod';
import { InvalidArgumentError } from '../../base/errors.ts';
import { checkSessionId } from '../../base/ids.ts';
import { parseOption } from '../../base/settings.ts';
import type { SessionParts } from './session.ts';

/** How to fork. */
export interface ForkOptions {
  /** Seq of the last message the fork has; inside a round the cut moves behind its last result. Default: all there is. */
  readonly at?: number;
  /** The fork's id; default `<parent>:fork-<n>`. One that lives on another thread gets a copy of the messages. */
  readonly id?: string;
}

const schema = z.strictObject({ at: z.number().optional(), id: z.string().optional() });

/** Makes the fork and resolves with what its handle is made of, once it is durable. Throws as `Session.fork`. */
export async function makeFork(parts: SessionParts, options: ForkOptions): Promise<SessionParts> {
  const { at, id } = parseOption(schema, 'fork', options);
  if (at !== undefined && !(Number.isSafeInteger(at) && at > 0)) {
    throw new InvalidArgumentError('invalid_argument', `\`at\` must be the seq of a message, got ${at}`);
  }
  const cut = at === undefined ? {} : { at };
  const session = parts.id;
  if (id === undefined) {
    const made = await parts.link.call('session.fork', { session, ...cut }, false);
    return parts.sibling(made.id);
  }
  const sibling = parts.sibling(checkSessionId(id));
  if (sibling.link === parts.link) {
    await parts.link.call('session.fork', { session, id, ...cut }, false);
    return sibling;
  }
  const record = await parts.link.call('session.copy', { session, ...cut }, true);
  await sibling.link.call('session.plant', { session: id, record }, false);
  return sibling;
}
