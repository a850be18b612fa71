/** The options of `spawn` and `spawnAll`, and their checks. Host thread. */
import { z } from 'zod';
import { KEY_CHARACTERS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, type ErrorShape, errorFromShape, InvalidNameError } from '../../base/errors.ts';
import { checkNickname } from '../../base/ids.ts';
import { wellFormed } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import { answerForm, type OutputSchema } from '../protocol/output-option.ts';
import type { SpawnItem } from '../protocol/protocol.ts';
import { fingerprintOf } from '../protocol/sent-message.ts';
import { budgetSchema } from './session-options.ts';

/** Options of `spawn` for a structured reply. */
export interface StructuredSpawnOptions<Output extends OutputSchema = OutputSchema> extends SpawnOptions {
  /** The form of the child's reply. A parent's model gets the reply as JSON. */
  readonly output: Output;
}

/** Options of `spawn`. */
export interface SpawnOptions {
  /** The child's agent; default: its parent's agent. */
  readonly agent?: string;
  /** The child's agent, by the name under which other agents know it. */
  readonly specialist?: string;
  readonly task: string;
  /** A nickname, unique among the siblings; default `agent-N`. */
  readonly name?: string;
  /**
   * The names of the tools that the child may use. The list only narrows: the child gets no tool that this session may
   * not use. Default: no narrowing.
   */
  readonly tools?: readonly string[];
  /** `mailbox` (default): replies enter the parent's mailbox; `handle`: they go to the child's handle only. */
  readonly replies?: 'mailbox' | 'handle';
  /**
   * The total of tokens, input and output, that the child and its descendants may use; at least 1. A model call that
   * would begin after the total is used up fails its turn with `LimitError` (`data.limit` is `budget`), and the parent
   * is notified. Calls in flight still complete.
   */
  readonly budget?: number;
  /** The idempotency key of this item; only in `spawnAll`. */
  readonly key?: string;
}

/** Options of `spawnAll`. */
export interface SpawnAllOptions {
  /**
   * True: an existing child with the key of an item continues its task if it was cancelled or failed. It gets the
   * message "Please continue.". At most `maxActive` of these children work at once. The message is durable when
   * `spawnAll` resolves. Nothing happens to children that work or have completed. Every item needs a `key`.
   */
  readonly continue?: boolean;
}

/** The second argument of `spawn`. */
export interface SpawnExtra extends SpawnAllOptions {
  /** The idempotency key: the same key finds the same child again. */
  readonly key?: string;
}

const spawnAllSchema = z.strictObject({ continue: z.boolean().optional() });
const spawnExtraSchema = spawnAllSchema.extend({ key: z.string().min(1).max(KEY_CHARACTERS_MAX).optional() });

const spawnSchema = z.strictObject({
  agent: z.string().optional(),
  specialist: z.string().optional(),
  task: z.string(),
  name: z.string().optional(),
  tools: z.array(z.string()).optional(),
  replies: z.enum(['mailbox', 'handle']).optional(),
  key: z.string().min(1).max(KEY_CHARACTERS_MAX).optional(),
  budget: budgetSchema.optional(),
  output: z.unknown().optional(),
});

/** The arguments of `session.spawn`, as one item and the options of `session.spawnAll`. Throws `ConfigError`. */
export function keyedSpawn(options: SpawnOptions, extra: SpawnExtra): readonly [item: unknown, list: SpawnAllOptions] {
  const { key, ...list } = parseOption(spawnExtraSchema, 'spawn', extra);
  return [key === undefined ? options : { ...parseOption(spawnSchema, 'spawn.0', options), key }, defined(list)];
}

/**
 * Makes the checks of the items of `session.spawnAll` that need no session's state. Throws `ConfigError` or
 * `InvalidNameError`. The error has the index of the item, and no item is spawned.
 */
export function checkSpawnItems(list: unknown, options: SpawnAllOptions): readonly SpawnItem[] {
  const continues = parseOption(spawnAllSchema, 'spawnAll', options).continue === true;
  const names = new Set<string>();
  return parseOption(z.array(z.unknown()), 'spawnAll', list).map((each, index) => {
    const item = spawnItem(each, index);
    checkSpawnItem(item, index, names);
    if (!continues) return item;
    if (item.key !== undefined) return { ...item, continues };
    throw new ConfigError(`option "continue" needs a key for each child, and spawn.${index} has none`, {
      data: { key: `spawn.${index}.key` },
    });
  });
}

/** `names`: the nicknames of the earlier items; the nickname of this item is added. */
function checkSpawnItem({ task, name, key }: SpawnItem, index: number, names: Set<string>): void {
  const option = `spawn.${index}`;
  if (task.trim() === '') {
    throw new ConfigError(`Task cannot be blank (${option}.task)`, { data: { key: `${option}.task`, index } });
  }
  if (name === undefined) return;
  // Items with the same key are one child, so an item with a key may repeat a name.
  const checked = checkNickname(name, key === undefined ? names : new Set());
  if ('error' in checked) {
    throw new InvalidNameError(`${checked.error} (${option}.name)`, { data: { key: `${option}.name`, index } });
  }
  names.add(checked.name);
}

function spawnItem(options: unknown, index: number): SpawnItem {
  const optionKey = `spawn.${index}`;
  const parsed = parseOption(spawnSchema, optionKey, options);
  const { agent, specialist, task, name, tools, replies, budget, key } = parsed;
  const output = parsed.output === undefined ? undefined : answerForm(parsed.output, `${optionKey}.output`);
  const item = {
    task: wellFormed(task),
    replies: replies ?? 'mailbox',
    ...(specialist === undefined ? {} : { agent: specialist, specialist: true }),
    ...defined({ agent, name, tools, budget, output }),
  } as const;
  return key === undefined ? item : { ...item, key, fingerprint: fingerprintOf(JSON.stringify(item)) };
}

/** The error of a refused item. It has the item's index if there are several items. */
export function refusedSpawn(shape: ErrorShape, index: number, count: number): Error {
  if (count === 1) return errorFromShape(shape);
  const message = `spawn.${index} was refused: ${shape.message}`;
  return errorFromShape({ ...shape, message, data: { ...shape.data, index } });
}

/** The schema of a child's structured reply. `options`: the checked options of its spawn. */
export function outputOf(options: unknown): OutputSchema | undefined {
  return typeof options === 'object' && options !== null && 'output' in options
    ? (options.output as OutputSchema | undefined)
    : undefined;
}
