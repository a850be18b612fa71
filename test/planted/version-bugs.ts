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
    name: 'agent-of-an-earlier-turn',
    what: 'a session whose turn ended keeps the version of that turn for all later ones (I32)',
    file: 'actors/agent-catalog.ts',
    find: 'if (definition !== this.versions.of(state)) return false;',
    replace: 'if (definition.plan.name !== state.agent) return false;',
  },
  {
    name: 'failed-upgrade-forgotten',
    what: 'a session whose upgrade failed never tries again (I7)',
    file: 'src/runtime/shard/upgrades.ts',
    find: "if (!this.#failed.delete(session)) return false;\n    this.#place.submit(session, [{ type: 'wake' }]);",
    replace: 'if (!this.#failed.has(session)) return false;',
  },
];
