/** Answers the methods `tasks.…`: starting, undoing and switching tasks, and reading them. */
import { defined } from '../../base/defined.ts';
import { renderSession } from '../../context/render.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import { taskHistory } from '../../session/history/task-view.ts';
import { childrenOf } from '../../session/history/tasks.ts';
import type { HandlersOf } from '../protocol/protocol.ts';
import { type ShardDoor, undefinedAgent } from './shard-door.ts';

/**
 * See the head of the file. A session that does not exist has only its root task. A request to undo or switch its tasks
 * must not create the session.
 */
export function taskRequests(door: ShardDoor): HandlersOf<'tasks'> {
  const { shard } = door;
  return {
    'tasks.start': (request) => {
      const { title, by } = request;
      return door.submit(request, { type: 'startTask', ...defined({ title, by }) });
    },
    'tasks.undo': (request) => {
      const undo = { type: 'undo', ...defined({ by: request.by }) } as const;
      return door.submitIfPresent(request, undo, { success: false, message: 'Already at root task' });
    },
    'tasks.switch': (request) => {
      const { id, by } = request;
      return door.submitIfPresent<TaskMove>(
        request,
        { type: 'switchTask', id, ...defined({ by }) },
        { success: false, message: `Invalid task ID: ${id}` },
      );
    },
    'tasks.children': ({ session, id }) =>
      door.read(
        session,
        ({ state }) => childrenOf(state.tasks, id),
        () => [],
      ),
    'tasks.history': ({ session, limit }) =>
      door.read(
        session,
        ({ state }) => taskHistory(state, limit),
        () => [],
      ),
    'tasks.ids': ({ session }) =>
      door.read(
        session,
        ({ state }) => ({ current: state.tasks.current, active: state.tasks.active }),
        () => ({ current: 0, active: 0 }),
      ),
    'tasks.messages': ({ session }) =>
      door.read(
        session,
        (actor) => {
          const agent = shard.residency.agentOf(actor);
          if (agent === undefined) throw undefinedAgent(actor.state, shard.parts);
          return renderSession(actor.state, agent.renderOptions);
        },
        () => [],
      ),
  };
}
