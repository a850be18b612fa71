/** `Goals`: the embedder's handle of the goals of a session. Like `Session`, it is only an address. Host thread. */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import type { Goal, GoalChange } from '../../base/goals.ts';
import { wellFormed } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { ShardCaller } from '../protocol/protocol.ts';

const id = z.number().int().positive();
const text = z.string().transform(wellFormed);
const createSchema = z.strictObject({ description: text, parentId: id.optional() });
const updateSchema = z.strictObject({ description: text });
const attachSchema = z.strictObject({ messages: z.array(id), goals: z.array(id) });

/**
 * The goals of a session, and their parts. The model sees each change with the next half-step. All methods reject with
 * `ConfigError` for malformed arguments, and with `StoreFullError`.
 */
export class Goals {
  readonly #link: ShardCaller;
  readonly #address: { readonly session: string; readonly agent?: string };

  constructor(link: ShardCaller, address: { readonly session: string; readonly agent?: string }) {
    this.#link = link;
    this.#address = address;
  }

  /** Goals by age, each with its parts. The oldest completed goals are left out once there are many. */
  list(): Promise<readonly Goal[]> {
    return this.#link.call('session.goals', this.#address, true);
  }

  /**
   * Creates a goal, or a part of one. Rejects with `ContentError` (blank), `ConfigError` (the parent is unknown,
   * completed, or a part itself), `LimitError`, `MailboxFullError`.
   */
  async create(goal: { readonly description: string; readonly parentId?: number }): Promise<Goal> {
    const { description, parentId } = parseOption(createSchema, 'goals.create', goal);
    return this.#change({ action: 'create', description, ...defined({ parentId }) });
  }

  /**
   * Changes the description of an open goal. Rejects as `create` does, and with `ConfigError` for a goal that is
   * unknown or completed.
   */
  async update(goal: number, change: { readonly description: string }): Promise<Goal> {
    const { description } = parseOption(updateSchema, 'goals.update', change);
    return this.#change({ action: 'update', id: parseOption(id, 'goals.update.id', goal), description });
  }

  /** Completes an open goal and its open parts. Messages pinned to no other goal are unpinned. */
  async complete(goal: number): Promise<Goal> {
    return this.#change({ action: 'complete', id: parseOption(id, 'goals.complete.id', goal) });
  }

  /**
   * Pins each of the messages (by seq) to each of the open goals. After a pinned message has left the window, it is
   * shown to the model again. If one of these links is invalid, none is made. Pinning a message to the same goal again
   * changes nothing. Resolves with the number of requested links, including existing ones.
   */
  async attach(pins: { readonly messages: readonly number[]; readonly goals: readonly number[] }): Promise<number> {
    const { messages, goals } = parseOption(attachSchema, 'goals.attach', pins);
    const change: GoalChange = { action: 'attach', messages, goals };
    const { links } = await this.#link.call('session.attach', { ...this.#address, change }, true);
    return links;
  }

  #change(change: Exclude<GoalChange, { action: 'attach' }>): Promise<Goal> {
    return this.#link.call('session.goal', { ...this.#address, change }, false);
  }
}
