/** Makes the answers of the tools `search_messages` and `view_messages` (contract §11.2), on the host thread. */
import { VIEW_INPUT_CHARACTERS, VIEW_MESSAGES_AROUND } from '../../base/bounds.ts';
import { ConfigError } from '../../base/errors.ts';
import { checkSessionId } from '../../base/ids.ts';
import { wellFormed } from '../../base/json.ts';
import { type Message, textOf } from '../../base/messages.ts';
import { thoughtOf } from '../../events/view-modes.ts';
import { searchableText } from '../../search/searchable.ts';
import type { MessageMemory } from '../../tools/built-in/memory-tools.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import { isWithin, reachOf, type SearchScope } from '../protocol/search-scope.ts';
import type { MessageSearch } from '../search/client.ts';

/** The parts of the memory. */
export interface MemoryParts {
  readonly search: MessageSearch;
  readonly linkOf: (session: string) => ShardCaller;
  /** The sessions that each session may reach. */
  readonly scope: SearchScope;
  /** Maximum number of messages in the answer to one search. */
  readonly resultsMax: number;
}

/**
 * Messages fetched before and after a message. More are fetched than shown, because removed messages leave gaps in the
 * seqs.
 */
const FETCHED_AROUND = 4 * VIEW_MESSAGES_AROUND;

/** The memory of a runtime, as its tools read it. */
export function createMessageMemory({ search, linkOf, scope, resultsMax }: MemoryParts): MessageMemory {
  return {
    async search(query, session) {
      const reach = await reachOf(scope, session);
      const { found, isComplete, messages } = await search.search(query, {
        limit: resultsMax,
        excluding: session,
        ...reach,
      });
      const shown = query.trim();
      const note = isComplete
        ? []
        : [`The messages are still being indexed (${messages} so far): there may be more. Search again later.`];
      if (found.length === 0) return [`No results found for "${shown}".`, ...note].join('\n\n');
      const hits = found.map(
        (hit) =>
          `[message ${hit.session}#${hit.seq}, session "${titleOf(hit.session, hit.name)}", ${hit.kind}]\n...${hit.snippet}...`,
      );
      return [
        `Found ${found.length} ${found.length === 1 ? 'result' : 'results'} for "${shown}":`,
        ...hits,
        ...note,
      ].join('\n\n');
    },
    async message(messageId, reader) {
      const { session, seq } = parseMessageId(messageId);
      if (!isWithin(await reachOf(scope, reader), session)) return undefined;
      const link = linkOf(session);
      const summary = await link.call('sessions.get', { session }, true);
      if (summary === undefined) return undefined;
      const [message] = await link.call('session.messages', { session, after: seq - 1, limit: 1 }, true);
      if (message?.seq !== seq) return undefined;
      const text = searchableText(message)?.text ?? textOf(message.content);
      return { id: `${session}#${seq}`, title: summary.name ?? `session #${session}`, text };
    },
    async view(messageId, reader) {
      const { session, seq } = parseMessageId(messageId);
      const link = linkOf(session);
      // A message out of reach gets the same answer as a missing one, so that the answer does not reveal that the
      // session exists.
      const isInReach = isWithin(await reachOf(scope, reader), session);
      const summary = isInReach ? await link.call('sessions.get', { session }, true) : undefined;
      const after = Math.max(0, seq - 1 - FETCHED_AROUND);
      const near =
        summary === undefined
          ? []
          : await link.call('session.messages', { session, after, limit: 2 * FETCHED_AROUND + 1 }, true);
      const index = near.findIndex((message) => message.seq === seq);
      if (index === -1)
        throw new ConfigError(`there is no message ${messageId.trim()}`, { data: { key: 'message_id' } });
      const shown = near.slice(Math.max(0, index - VIEW_MESSAGES_AROUND), index + VIEW_MESSAGES_AROUND + 1);
      const range = `${shown[0]?.seq ?? seq}..${shown.at(-1)?.seq ?? seq}`;
      return [
        `Session "${titleOf(session, summary?.name)}" (${session})`,
        `FULL CONTEXT (messages ${range})`,
        shown.map((message) => `${message.seq === seq ? '→' : ' '} ${lineOf(message)}`).join('\n'),
      ].join('\n\n');
    },
  };
}

function titleOf(session: string, name: string | undefined): string {
  return name ?? `Session #${session}`;
}

/** The parts of `<session>#<seq>`. Throws `ConfigError` for an invalid message id. */
export function parseMessageId(id: string): { readonly session: string; readonly seq: number } {
  const found = /^(.+)#([1-9][0-9]{0,14})$/u.exec(id.trim());
  if (found === null) {
    throw new ConfigError(`a message id has the form <session>#<number>, got ${JSON.stringify(id)}`, {
      data: { key: 'message_id' },
    });
  }
  return { session: checkSessionId(found[1]), seq: Number(found[2]) };
}

/** A message in one or more lines: texts in full, calls and results in short (Δ42). */
function lineOf(message: Message): string {
  const { seq, type, toolName } = message;
  switch (type) {
    case 'user_message':
      return `message ${seq} User: ${textOf(message.content)}`;
    case 'agent_message':
      return `message ${seq} Assistant: ${textOf(message.content)}`;
    case 'system_message':
      return `message ${seq} System: ${textOf(message.content)}`;
    case 'tool_call': {
      if (toolName === 'think') return `message ${seq} Think: ${thoughtOf(message).content}`;
      const input = wellFormed(JSON.stringify(message.input ?? {}).slice(0, VIEW_INPUT_CHARACTERS));
      return `message ${seq} Tool: ${toolName ?? ''}(${input})`;
    }
    case 'tool_response':
      return `message ${seq} ToolResult: [${message.success === false ? 'error' : 'ok'}] ${message.toolUseId ?? ''}`;
  }
}
