/** What the files that answer methods of the protocol have in common. */
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { ShardMethods } from '../protocol/protocol.ts';
import type { Reply } from '../shard/shard-parts.ts';

/** Binds a method of the protocol to what answers it. */
export type Handle = <M extends keyof ShardMethods>(
  method: M,
  handler: (request: ShardMethods[M]['request']) => ShardMethods[M]['answer'] | Promise<ShardMethods[M]['answer']>,
) => void;

/** Reads of sessions as they stand, told once that is durable. */
export interface SessionReads {
  read<T>(session: string, look: (actor: SessionActor) => T, absent: () => T): Promise<T>;
}

/** The outcome of what is asked of the shard with a reply. */
export function settle<T>(start: (reply: Reply) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    start({ resolve: (value) => resolve(value as T), reject });
  });
}
