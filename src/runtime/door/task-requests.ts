/** The shard's door for tasks: starting, undoing and switching them, and what there is of them. */
import { TroupeError } from '../../base/errors.ts';
import { renderSession } from '../../context/render.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import { taskHistory } from '../../session/history/task-view.ts';
import { childrenOf } from '../../session/history/tasks.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { Shard } from '../shard/shard.ts';
import { type Handle, type SessionReads, settle } from './shard-door.ts';

/** Answers the `tasks.…` methods. */
export function serveHistoryTasks(shard: Shard, reads: SessionReads, handle: Handle): void {
  /** A session that was never made has its root alone: asking to leave it must not make the session. */
  const move = (session: string, input: Input, message: string): Promise<TaskMove> =>
    shard.residency.find(session) === undefined
      ? Promise.resolve({ success: false, message })
      : settle<TaskMove>((reply) => shard.transitions.submit(session, [input], reply));
  handle('tasks.start', ({ session, agent, title }) =>
    settle<number>((reply) =>
      shard.transitions.submit(
        session,
        [{ type: 'startTask', ...(title === undefined ? {} : { title }) }],
        reply,
        agent,
      ),
    ),
  );
  handle('tasks.undo', ({ session }) => move(session, { type: 'undo' }, 'Already at root task'));
  handle('tasks.switch', ({ session, id }) => move(session, { type: 'switchTask', id }, `Invalid task ID: ${id}`));
  handle('tasks.children', ({ session, id }) =>
    reads.read(
      session,
      ({ state }) => childrenOf(state.tasks, id),
      () => [],
    ),
  );
  handle('tasks.history', ({ session, limit }) =>
    reads.read(
      session,
      ({ state }) => taskHistory(state, limit),
      () => [],
    ),
  );
  handle('tasks.ids', ({ session }) =>
    reads.read(
      session,
      ({ state }) => ({ current: state.tasks.current, active: state.tasks.active }),
      () => ({ current: 0, active: 0 }),
    ),
  );
  handle('tasks.messages', ({ session }) =>
    reads.read(
      session,
      (actor) => {
        const agent = shard.residency.agentOf(actor);
        if (agent === undefined) {
          throw new TroupeError('unknown_agent', `agent ${JSON.stringify(actor.state.agent)} is not defined`);
        }
        return renderSession(actor.state, agent.renderOptions);
      },
      () => [],
    ),
  );
}
