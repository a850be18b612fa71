/**
 * `search_messages` and `view_messages` read earlier messages of the sessions that the caller may read (those "within
 * reach"). These are the sessions of the caller's tree, unless `search.scope` of `open` allows more (contract §11.2).
 * The tools are not granted by default.
 */
import { z } from 'zod';
import { type Tool, type ToolContext, tool } from '../tool.ts';

const MEMORY_TOOL: unique symbol = Symbol('troupe.memory-tool');

/** A message as a model receives it. */
export interface RememberedMessage {
  /** The message's id, `<session>#<seq>`. */
  readonly id: string;
  /** The name of the message's session, or `session #<id>`. */
  readonly title: string;
  /** The text of the message; for a thought, its thinking. */
  readonly text: string;
}

/**
 * The source of the tools' answers: the runtime in which the tools run. `search` and `view` resolve with the text for
 * the model.
 */
export interface MessageMemory {
  /** The messages that match a query, within reach of a session, except those that the session's own window shows. */
  search(query: string, session: string): Promise<string>;
  /**
   * A message by `<session>#<seq>`, with the messages around it. Rejects for a message that does not exist, or is not
   * within reach of the session `reader`.
   */
  view(messageId: string, reader: string): Promise<string>;
  /** The content of a message; `undefined` if the message does not exist, or is not within reach of `reader`. */
  message(messageId: string, reader: string): Promise<RememberedMessage | undefined>;
}

/** A tool that reads the messages of its runtime. */
export interface MemoryTool<Input = unknown> extends Tool<Input> {
  readonly [MEMORY_TOOL]: (memory: MessageMemory) => Tool<Input>;
}

/** True for the tools of this file. */
export function isMemoryTool(value: unknown): value is MemoryTool {
  return typeof value === 'object' && value !== null && MEMORY_TOOL in value;
}

/** A tool of this file, bound to this memory. */
export function withMemory(given: MemoryTool, memory: MessageMemory): Tool {
  return given[MEMORY_TOOL](memory);
}

function memoryTool<Input>(
  options: Pick<Tool<Input>, 'name' | 'description'> & { readonly input: z.ZodType<Input> },
  read: (memory: MessageMemory, input: Input, context: ToolContext) => Promise<unknown>,
): MemoryTool<Input> {
  const { name, description, input } = options;
  const over = (run: (given: Input, context: ToolContext) => unknown): Tool<Input> =>
    tool<Input>({ name, description, input, effect: 'pure', run });
  const unbound = over(() => {
    throw new Error(`${name} reads the sessions of a runtime and is run by one`);
  });
  return {
    ...unbound,
    [MEMORY_TOOL]: (memory) => over((given, context) => read(memory, given, context)),
  };
}

/** The model's input of a search. */
export interface SearchMessagesInput {
  readonly query: string;
}

/** The model's input to view a message. */
export interface ViewMessagesInput {
  readonly message_id: string;
}

/** Finds messages within reach by their words. */
export const search_messages: MemoryTool<SearchMessagesInput> = memoryTool(
  {
    name: 'search_messages',
    description:
      'Search what was said before, also what you no longer see. Words are found in any form; "quoted words" are found in a row; AND, OR, NOT and NEAR join. Gives message ids for view_messages.',
    input: z.object({ query: z.string().describe('Words to look for') }),
  },
  async (memory, { query }, { session }) =>
    query.trim() === '' ? { error: 'Query cannot be blank' } : memory.search(query, session),
);

/** Shows a message with the messages before and after it. */
export const view_messages: MemoryTool<ViewMessagesInput> = memoryTool(
  {
    name: 'view_messages',
    description: 'Show a message found by search_messages with those before and after it.',
    input: z.object({ message_id: z.string().describe('The id, as search_messages gives it: <session>#<number>') }),
  },
  async (memory, { message_id }, { session }) =>
    message_id.trim() === '' ? { error: 'Message id cannot be blank' } : memory.view(message_id, session),
);
