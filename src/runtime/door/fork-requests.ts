/** The shard's door for forks: one that shares its parent's log, and the two halves of one that is copied to another shard. */
import { TroupeError } from '../../base/errors.ts';
import { copiedFork } from '../../session/decide/fork.ts';
import type { ForkedRecord } from '../protocol/protocol.ts';
import type { Shard } from '../shard/shard.ts';
import { type Handle, type SessionReads, settle } from './shard-door.ts';

/** Answers `session.fork`, `session.copy` and `session.plant`. */
export function serveForks(shard: Shard, reads: SessionReads, handle: Handle): void {
  handle('session.fork', ({ session, id, at }) =>
    settle<{ readonly id: string }>((reply) =>
      shard.transitions.submit(
        session,
        [{ type: 'fork', ...(id === undefined ? {} : { id }), ...(at === undefined ? {} : { at }) }],
        reply,
      ),
    ),
  );
  handle('session.copy', ({ session, at }) =>
    reads.read<ForkedRecord>(
      session,
      ({ state }) => copiedFork(state, at),
      () => {
        throw new TroupeError('unknown_session', `there is no session ${JSON.stringify(session)}`);
      },
    ),
  );
  handle('session.plant', ({ session, record }) =>
    settle<{ readonly id: string }>((reply) => shard.transitions.beget(session, [{ type: 'forked', record }], reply)),
  );
}
