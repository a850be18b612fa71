/** Answers the methods `child.…` and `children.…`: ends of sub-agents, and their parents. */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { defined } from '../../base/defined.ts';
import { type ChildLink, isEndAwaited } from '../../session/state/child-link.ts';
import type { HandlersOf, ShardMethods } from '../protocol/protocol.ts';
import { DELETED, endOf } from '../shard/shard-waiters.ts';
import type { ShardDoor } from './shard-door.ts';

/** See the head of the file. */
export function childRequests(door: ShardDoor): HandlersOf<'child' | 'children'> {
  const { shard } = door;
  return {
    'child.wait': ({ session }) =>
      door.awaitDurable(
        () => {
          const actor = shard.residency.find(session);
          return actor === undefined ? DELETED : endOf(actor.state);
        },
        (reply, again) => shard.waiters.onExit(session, reply, again),
      ),
    'child.link': ({ session }) => door.read(session, linkOf, () => ({})),
    'children.ended': ({ session, children }) =>
      door.read(
        session,
        (actor) => endedOf(actor, children),
        () => [],
      ),
  };
}

function linkOf({ state }: SessionActor): ShardMethods['child.link']['answer'] {
  const { parent, name } = state;
  return defined({ parent, name });
}

function endedOf({ state }: SessionActor, wanted: readonly string[]): readonly string[] {
  const ended: ChildLink[] = [];
  for (const id of wanted) {
    const child = state.children.get(id);
    if (child !== undefined && !isEndAwaited(child)) ended.push(child);
  }
  return ended.sort((a, b) => (a.exitedSeq ?? 0) - (b.exitedSeq ?? 0)).map(({ id }) => id);
}
