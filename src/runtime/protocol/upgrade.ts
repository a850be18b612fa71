/**
 * The `upgrade` function of an agent: its type, the question that a session thread asks its host, and the check of its
 * answer. The function runs on the host thread.
 */
import { z } from 'zod';
import { UPGRADE_EDITS_MAX } from '../../base/bounds.ts';
import { asError, ConfigError, describeValue } from '../../base/errors.ts';
import type { HistoryDraft, HistoryMessage } from '../../base/history-message.ts';
import { NotPlainError, toPlainJson } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import { checkId, checkMembers, checkMessage } from '../../session/history/message-check.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';

/** A session that is about to move to another version of its agent. */
export interface UpgradeState {
  readonly session: string;
  /** The parent of the session; missing: the session is a main session. */
  readonly parent?: string;
  /** The history of the session, as `session.history` shows it. */
  readonly messages: readonly HistoryMessage[];
}

/**
 * One edit of the history. Each edit does the same as the method of `session.history` with the same name. All edits
 * refer to the history that the function was given, so there may be at most one edit for each message. `set` replaces
 * all messages, so it must be the only edit.
 */
export type HistoryEdit =
  | { readonly operation: 'set'; readonly messages: readonly (HistoryDraft | object)[] }
  | { readonly operation: 'add'; readonly message: HistoryDraft | object }
  | { readonly operation: 'remove'; readonly id: string }
  | { readonly operation: 'update'; readonly id: string; readonly attributes: Readonly<Record<string, unknown>> }
  | { readonly operation: 'replaceSystemPrompt'; readonly text: string };

/** The edits that an `upgrade` function returns; nothing: the history stays as it is. */
export type HistoryEdits = readonly HistoryEdit[] | undefined;

/**
 * Moves a session to the version of the agent that has this function. `from`: the version that the session has now;
 * undefined if that definition has no version. The returned edits and the move become durable together. The function
 * may be called again, after a crash or if the history changed meanwhile, so it should only read. If it throws, the
 * session is blocked.
 */
export type UpgradeFunction = (
  state: UpgradeState,
  from: string | undefined,
) => HistoryEdits | Promise<HistoryEdits> | Promise<void>;

/**
 * The request of a session thread to call an `upgrade` function. `agent`: the key of the definition to which the
 * session moves.
 */
export interface UpgradeQuestion extends UpgradeState {
  readonly agent: string;
  readonly from?: string;
}

const text = z.string();
const schema = z
  .array(
    z.discriminatedUnion('operation', [
      z.strictObject({ operation: z.literal('set'), messages: z.array(z.unknown()) }),
      z.strictObject({ operation: z.literal('add'), message: z.unknown() }),
      z.strictObject({ operation: z.literal('remove'), id: text }),
      z.strictObject({ operation: z.literal('update'), id: text, attributes: z.record(text, z.unknown()) }),
      z.strictObject({ operation: z.literal('replaceSystemPrompt'), text }),
    ]),
  )
  .max(UPGRADE_EDITS_MAX);

/**
 * Calls the `upgrade` function of an agent. Rejects with a `ConfigError` if the agent has no such function, if the
 * function threw, or if its result is not a list of edits. Rejects with `InvalidArgumentError` for a message of the
 * wrong form.
 */
export async function callUpgrade(
  upgrades: ReadonlyMap<string, UpgradeFunction>,
  { agent, from, ...state }: UpgradeQuestion,
): Promise<readonly EditRequest[]> {
  const upgrade = upgrades.get(agent);
  if (upgrade === undefined) throw new ConfigError(`agent ${JSON.stringify(agent)} has no upgrade function`);
  let returned: unknown;
  try {
    returned = await upgrade(state, from);
  } catch (error) {
    throw new ConfigError(`it threw: ${asError(error).message}`, { cause: error });
  }
  return returned === undefined ? [] : checkEdits(returned);
}

function checkEdits(returned: unknown): readonly EditRequest[] {
  if (!Array.isArray(returned)) {
    throw new ConfigError(`it must return a list of edits or nothing, got ${describeValue(returned)}`);
  }
  const edits = parseOption(schema, 'edits', plain(returned));
  const prompts = edits.filter(({ operation }) => operation === 'replaceSystemPrompt').length;
  if (prompts > 1) throw new ConfigError('"replaceSystemPrompt" may be returned once');
  return edits.map((edit, index): EditRequest => {
    const name = `edits[${index}]`;
    switch (edit.operation) {
      case 'set':
        if (edits.length > 1)
          throw new ConfigError(`${name}: "set" replaces all messages, so it must be the only edit`);
        return {
          operation: 'set',
          messages: edit.messages.map((message, place) => checkMessage(message, `${name}.messages[${place}]`)),
        };
      case 'add':
        return { operation: 'add', message: checkMessage(edit.message, `${name}.message`), silent: true };
      case 'remove':
        return { operation: 'remove', id: checkId(edit.id, `${name}.id`) };
      case 'update': {
        const attributes = checkMembers(edit.attributes, `${name}.attributes`);
        return { operation: 'update', id: checkId(edit.id, `${name}.id`), attributes };
      }
      case 'replaceSystemPrompt':
        return { operation: 'replaceSystemPrompt', text: edit.text, extra: {} };
      default:
        return edit satisfies never;
    }
  });
}

function plain(value: unknown): unknown {
  try {
    return toPlainJson(value);
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw new ConfigError(`its edits cannot be stored: ${error.message}`, { cause: error });
  }
}
