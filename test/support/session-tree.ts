/** Several sessions of one tree without a runtime: the effects that stay within a tree are carried over. */
import type { ErrorShape } from '../../src/base/errors.ts';
import type { Input, SpawnRequest } from '../../src/session/state/inputs.ts';
import { Machine, startedSession, type WorldOptions } from './session-kit.ts';

/**
 * A session tree without a runtime. An effect on another session of the tree reaches that session within the same batch
 * (A6).
 */
export class Tree {
  readonly machines: Map<string, Machine> = new Map();
  readonly root: Machine;

  constructor(options: WorldOptions = {}) {
    this.root = startedSession(options);
    this.#add(this.root);
  }

  /** Runs a transition of one session, and the transitions that follow from it in other sessions. */
  input(machine: Machine, input: Input): void {
    const before = machine.effects.length;
    machine.input(input);
    this.settle(machine, before);
  }

  /** Carries over the effects a machine collected since `from`. */
  settle(machine: Machine, from: number): void {
    for (const effect of machine.effects.slice(from)) {
      if (effect.type === 'born') {
        const child = new Machine(machine.world, effect.seed.id);
        this.#add(child);
        this.input(child, { type: 'born', seed: effect.seed });
      } else if (effect.type === 'sendToParent') {
        this.input(this.at(machine.state.parent ?? ''), effect.input);
      } else if (effect.type === 'sendToChild') {
        this.input(this.at(effect.child), effect.input);
      }
    }
  }

  /** Spawns as the embedder does, and returns the child. */
  spawn(task: string, request: Partial<SpawnRequest> = {}): Machine {
    this.input(this.root, { type: 'spawn', request: { replies: 'mailbox', task, ...request } });
    return this.at(this.root.lastOf('spawned')[0]?.child ?? this.root.lastOf('born')[0]?.seed.id ?? '');
  }

  /** Sends a message to a session, and notifies the sessions concerned. */
  send(machine: Machine, content: string): void {
    const before = machine.effects.length;
    machine.send(content);
    this.settle(machine, before);
  }

  /** Answers a session's current half-step, and notifies the sessions concerned. */
  answer(machine: Machine, content: unknown, stop?: string): void {
    const before = machine.effects.length;
    machine.answer(content, stop === undefined ? {} : { stop });
    this.settle(machine, before);
  }

  /** Fails a session's model call for good. */
  fail(machine: Machine, error: ErrorShape): void {
    const before = machine.effects.length;
    machine.fail(error);
    this.settle(machine, before);
  }

  /** From here on the session exists, for the others of the tree too. */
  #add(machine: Machine): void {
    this.machines.set(machine.state.id, machine);
    machine.world.taken.add(machine.state.id);
    machine.world.states.set(machine.state.id, () => machine.state);
  }

  at(id: string): Machine {
    const machine = this.machines.get(id);
    if (machine === undefined) throw new Error(`no session ${JSON.stringify(id)} in this tree`);
    return machine;
  }
}
