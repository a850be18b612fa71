/** Planted bugs of agents with versions (I32), and of the moves between them. */
import type { PlantedBug } from './planted-bug.ts';

export const versionBugs: readonly PlantedBug[] = [
  {
    name: 'turn-continues-with-the-current-version',
    what: 'after a deploy a turn continues with the prompt of the current version (I32)',
    file: 'actors/agent-versions.ts',
    find: 'if (needed !== undefined) return known.byVersion.get(needed);',
    replace: '',
  },
  {
    name: 'tool-of-the-first-version',
    what: 'a call runs the tool of another version of its agent (I32)',
    file: 'src/runtime/door/build-shard.ts',
    find: "return { kind: 'host', agent: agentKey(name, version) };",
    replace: "return { kind: 'host', agent: agentKey(name, version === undefined ? version : 'v1') };",
  },
  {
    name: 'move-with-the-facts-of-the-last-turn',
    what: 'the message behind a turn begins the next one with the facts of the version of that turn (I32)',
    file: 'src/session/decide/versions/upgrade.ts',
    find: 'if (agent.version !== version) return { records: [], effects: [NEXT_STEP] };',
    replace: '',
  },
  {
    name: 'upgraded-session-held',
    what: 'a session whose upgrade function has answered is held as if it still ran, and begins no turn',
    file: 'src/runtime/shard/upgrades.ts',
    find: 'this.#moves.delete(session);\n      this.#ended(session, to, outcome);',
    replace: 'this.#ended(session, to, outcome);',
  },
];
