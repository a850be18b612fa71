/** Short functions that make messages of a history, for tests. */
import type { AssistantMessage, HistoryMessage, ToolMessage } from '../../src/base/history-message.ts';

/** A user's message; its text is its id unless given. */
export function user(id: string, content: string = id): HistoryMessage & { readonly role: 'user' } {
  return { id, createdAt: 1, role: 'user', content };
}

/** An assistant message without calls. */
export function said(id: string, content: string = id): AssistantMessage {
  return { id, createdAt: 1, role: 'assistant', content };
}

/** An assistant message that calls `bash` once for each id. */
export function ask(id: string, ...callIds: readonly string[]): AssistantMessage {
  return { ...said(id, ''), toolCalls: callIds.map((callId) => ({ callId, name: 'bash', arguments: '{}' })) };
}

/** The result of a call. */
export function result(toolCallId: string, content: string = `of ${toolCallId}`): ToolMessage {
  return { id: `r-${toolCallId}`, createdAt: 1, role: 'tool', content, toolCallId, name: 'bash' };
}

/** Each message as its role and id; a result has the id of its call. */
export function brief(messages: readonly HistoryMessage[]): readonly string[] {
  return messages.map((message) => `${message.role} ${message.role === 'tool' ? message.toolCallId : message.id}`);
}
